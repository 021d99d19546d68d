package config

import (
	"maps"
	"reflect"
)

// inherit gives the job what it leaves out and defaults has, key by key: a
// `retry:` of its own replaces that of defaults as a whole.
func (j *jobKeys) inherit(defaults *jobKeys, fields map[string]field) {
	to, from := reflect.ValueOf(j).Elem(), reflect.ValueOf(defaults).Elem()
	given := map[string]bool{}
	for name, f := range fields {
		if j.has(name) || !defaults.has(name) {
			continue
		}
		given[name] = true
		to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		if w, ok := defaults.written[name]; ok {
			j.written[name] = w
		}
	}
	for path, p := range defaults.places {
		if given[top(path)] {
			p.inherited = true
			j.places[path] = p
		}
	}
}

// drop takes back a default that means nothing for this job. What the job gives
// itself stays, and is a fault.
func (j *jobKeys) drop(key string) {
	if j.own(key) {
		return
	}
	delete(j.written, key)
	maps.DeleteFunc(j.places, func(path string, _ place) bool { return top(path) == key })
}
