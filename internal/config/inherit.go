package config

import (
	"maps"
	"reflect"
)

// checkDefaults refuses what cannot be the same for several jobs, and what
// would be wrong in any, also where no job takes it. Rules about two keys wait
// for a job: it may replace one of them.
func (l *loader) checkDefaults() {
	d := l.doc.Defaults
	if d == nil || d.scope == nil {
		return
	}
	for _, key := range []string{"renamed_from", "exec", "http", "sql"} {
		if d.has(key) {
			d.fail(key, "has no place in defaults", "give it to the job itself")
		}
	}
	c := jobCheck{jobKeys: d, doc: &l.doc}
	c.instances()
	c.times()
	c.retry()
	c.targets()
	c.labels()
	c.schedule()
}

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
