package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

// binder puts the nodes of one file into structs with yaml tags. It is strict
// (unknown and repeated keys, wrong types, empty values), remembers where each
// value stands, and goes on after a fault.
type binder struct {
	src    *source
	rep    *report
	env    *expander
	visits int // nodes seen, those behind aliases each time
	fields map[reflect.Type]map[string]field
}

// scoped is a struct whose keys form a scope of their own.
type scoped interface{ enter(*scope) }

// preset is a struct with values of its own where keys are left out.
type preset interface{ preset() }

func newBinder(src *source, rep *report, env *expander) *binder {
	return &binder{src: src, rep: rep, env: env, fields: map[reflect.Type]map[string]field{}}
}

// bind fills the struct behind doc from the root of the file, and returns the
// scope of its keys.
func (b *binder) bind(doc any) *scope {
	sc := newScope("", b.src, nil, b.rep)
	sc.places[""] = place{src: b.src, node: b.src.root}
	if written, ok := b.value(sc, "", b.src.root, reflect.ValueOf(doc).Elem(), ""); ok {
		sc.written, _ = written.(map[string]any)
	}
	return sc
}

// value binds one node. It returns the value as written, in a form that JSON
// can carry, and false where it reported a fault.
func (b *binder) value(sc *scope, path string, n *yaml.Node, v reflect.Value, tag reflect.StructTag) (any, bool) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return b.value(sc, path, n, v.Elem(), tag)
	}
	n, ok := b.resolve(sc, path, n)
	if !ok {
		return nil, false
	}
	if path != "" {
		sc.places[path] = place{src: b.src, node: n}
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		sc.fail(path, "has no value", emptyHint(path))
		return nil, false
	case isScalarType(v.Type()):
		return b.scalar(sc, path, n, v, tag)
	case v.Kind() == reflect.Struct:
		return b.structure(sc, path, n, v)
	case v.Kind() == reflect.Map:
		return b.mapping(sc, path, n, v, tag)
	case v.Kind() == reflect.Slice:
		return b.list(sc, path, n, v, tag)
	}
	panic(fmt.Sprintf("config: no way to bind %s", v.Type()))
}

// resolve follows aliases, and gives up on a file that is all aliases: what is
// honestly written has fewer nodes than bytes.
func (b *binder) resolve(sc *scope, path string, n *yaml.Node) (*yaml.Node, bool) {
	b.visits++
	if b.visits > len(b.src.text)+1000 {
		if b.visits == len(b.src.text)+1001 {
			sc.fail(path, "too much is repeated through aliases", "write the values out")
		}
		return nil, false
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, true
}

func emptyHint(path string) string {
	if path == "jobs" {
		return "write `jobs: {}` where there are none"
	}
	return "give one, or leave the key out"
}

// structure binds a mapping whose keys are the fields of a struct.
func (b *binder) structure(sc *scope, path string, n *yaml.Node, v reflect.Value) (any, bool) {
	if p, ok := v.Addr().Interface().(preset); ok {
		p.preset()
	}
	pairs, ok := b.pairs(sc, path, n)
	if !ok {
		return nil, false
	}
	fields, known := b.fields[v.Type()]
	if !known {
		fields = fieldsOf(v.Type())
		b.fields[v.Type()] = fields
	}
	written := map[string]any{}
	good := true
	for _, p := range pairs {
		name := p.key.Value
		f, known := fields[name]
		if !known {
			b.unknown(sc, join(path, name), p.key, v.Type())
			good = false
			continue
		}
		child := join(path, name)
		inner := sc
		if isScoped(f.typ) {
			inner, child = newScope(name, b.src, p.key, b.rep), ""
		}
		w, ok := b.value(inner, child, p.value, v.FieldByIndex(f.index), f.tag)
		b.enter(inner, v.FieldByIndex(f.index), w)
		written[name] = w
		good = good && ok
	}
	return written, good
}

// mapping binds a mapping with names of the user's own.
func (b *binder) mapping(sc *scope, path string, n *yaml.Node, v reflect.Value, tag reflect.StructTag) (any, bool) {
	pairs, ok := b.pairs(sc, path, n)
	if !ok {
		return nil, false
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(pairs)))
	written := map[string]any{}
	good := true
	for _, p := range pairs {
		inner, child := sc, join(path, p.key.Value)
		if isScoped(v.Type().Elem()) {
			inner, child = newScope(p.key.Value, b.src, p.key, b.rep), ""
		}
		item := reflect.New(v.Type().Elem()).Elem()
		w, ok := b.value(inner, child, p.value, item, tag)
		b.enter(inner, item, w)
		written[p.key.Value] = w
		good = good && ok
		v.SetMapIndex(reflect.ValueOf(p.key.Value), item)
	}
	return written, good
}

// enter gives a scoped struct its scope, unless its value is no mapping.
func (b *binder) enter(sc *scope, v reflect.Value, written any) {
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return
	}
	keys, isMapping := written.(map[string]any)
	if s, ok := v.Interface().(scoped); ok && isMapping {
		sc.written = keys
		s.enter(sc)
	}
}

// list binds a sequence; oneOrMany takes a single value for one of length one.
func (b *binder) list(sc *scope, path string, n *yaml.Node, v reflect.Value, tag reflect.StructTag) (any, bool) {
	switch {
	case n.Kind == yaml.SequenceNode:
	case n.Kind == yaml.ScalarNode && takesOne(v.Type()):
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		w, ok := b.value(sc, path, n, v.Index(0), tag)
		return []any{w}, ok
	default:
		sc.fail(path, "wants a list, has "+describe(n), listHint(n))
		return nil, false
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	written := make([]any, len(n.Content))
	good := true
	for i, item := range n.Content {
		w, ok := b.value(sc, itemPath(path, i), item, v.Index(i), tag)
		written[i] = w
		good = good && ok
	}
	return written, good
}

func listHint(n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode || len(n.Value) > 40 || strings.ContainsAny(n.Value, "\n\""):
		return ""
	case n.Tag == "!!int":
		return "write [" + n.Value + "]"
	}
	return "write [" + quoteYAML(n.Value) + "]"
}

// unknown reports a key that no field has.
func (b *binder) unknown(sc *scope, path string, key *yaml.Node, t reflect.Type) {
	known := namesOf(t)
	hint := didYouMean(key.Value, known)
	if hint == "" && len(known) <= 8 {
		hint = "known here: " + strings.Join(known, ", ")
	}
	if h, ok := reflect.Zero(t).Interface().(interface{ misplaced(key string) string }); ok {
		if elsewhere := h.misplaced(key.Value); elsewhere != "" {
			hint = elsewhere
		}
	}
	b.failKey(sc, path, key, "unknown key", hint)
}

// failKey reports a fault of a key, where the key stands.
func (b *binder) failKey(sc *scope, path string, key *yaml.Node, msg, hint string) {
	b.rep.add(Error{
		File: b.src.name, Line: key.Line, Col: key.Column,
		Field: sc.field(path), Msg: msg, Hint: hint,
	})
}

// join adds a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// describe names what a node is, to somebody who wanted something else.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}
