package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tidemarkd/tidemark/internal/executor"
)

// oneOrMany is a list that may be written as a single value. So may a list of
// executor.Text, for `exec.command`.
type oneOrMany []string

// dates is such a list of dates, which YAML takes for instants.
type dates []date

type date string

var (
	textType     = reflect.TypeFor[executor.Text]()
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	dateType     = reflect.TypeFor[date]()
	leafType     = reflect.TypeFor[leaf]()
	scopedType   = reflect.TypeFor[scoped]()
	documentType = reflect.TypeFor[document]()
	jobType      = reflect.TypeFor[jobKeys]()
)

// workTypes are the kinds of work of a job, by their key.
func workTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"exec": reflect.TypeFor[executor.ExecConfig](),
		"http": reflect.TypeFor[executor.HTTPConfig](),
		"sql":  reflect.TypeFor[executor.SQLConfig](),
	}
}

func isLeaf(t reflect.Type) bool { return reflect.PointerTo(t).Implements(leafType) }

func isScoped(t reflect.Type) bool { return t.Implements(scopedType) }

func takesOne(t reflect.Type) bool {
	return t == reflect.TypeFor[oneOrMany]() || t == reflect.TypeFor[dates]() || t == reflect.TypeFor[[]executor.Text]()
}

// isScalarType reports whether the type is read from a single value.
func isScalarType(t reflect.Type) bool {
	if isLeaf(t) || t == textType || t == timeType {
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

// mayExpand reports whether a `${…}` in the value is expanded. All other types
// hold what the store keeps or shows.
func mayExpand(t reflect.Type) bool { return isLeaf(t) || t == textType || t == durationType }

// scalar binds a single value.
func (b *binder) scalar(sc *scope, path string, n *yaml.Node, v reflect.Value, tag reflect.StructTag) (any, bool) {
	if n.Kind != yaml.ScalarNode {
		sc.fail(path, "wants a single value, has "+describe(n), "")
		return nil, false
	}
	if n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.Tag, "!!") || n.Tag == "!!binary" {
		sc.fail(path, "unknown tag "+n.Tag, "leave it out")
		return nil, false
	}
	if strings.ContainsRune(n.Value, 0) {
		sc.fail(path, "holds a NUL character", "neither a command nor a database can take one")
		return nil, false
	}
	s := scalar{text: n.Value, tag: n.Tag}
	if !b.expand(sc, path, v.Type(), &s) {
		return nil, false
	}
	if msg, hint := assign(v, s, n.Value, tag); msg != "" {
		sc.fail(path, msg, hint)
		return nil, false
	}
	return asWritten(n), true
}

// expand replaces the `${…}` of a value, or refuses them.
func (b *binder) expand(sc *scope, path string, t reflect.Type, s *scalar) bool {
	if !strings.Contains(s.text, "${") {
		return true
	}
	s.secret = holdsVariable(s.text)
	if s.secret && !mayExpand(t) {
		sc.failAt(path, strings.Index(s.text, "${"), "${…} has no place here",
			"what it stands for is a secret and never stored or shown, but this is: write the value out")
		return false
	}
	value, faults := b.env.expand(s.text)
	for _, f := range faults {
		sc.failAt(path, f.offset, f.msg, f.hint)
	}
	s.text = value
	return len(faults) == 0
}

// asWritten is the value in the form that JSON gives it.
func asWritten(n *yaml.Node) any {
	switch {
	case n.Tag == "!!bool" && (n.Value == "true" || n.Value == "false"):
		return n.Value == "true"
	case (n.Tag == "!!int" || n.Tag == "!!float") && decimalForm.MatchString(n.Value):
		return json.Number(n.Value)
	}
	return n.Value
}

// assign parses a value into a field.
func assign(v reflect.Value, s scalar, written string, tag reflect.StructTag) (msg, hint string) {
	if l, ok := v.Addr().Interface().(leaf); ok {
		return l.parse(s)
	}
	switch {
	case v.Type() == textType:
		v.Set(reflect.ValueOf(executor.Text{Written: written, Value: s.text}))
		return wantText(s, false)
	case v.Type() == timeType:
		t, msg, hint := parseTime(s)
		v.Set(reflect.ValueOf(t))
		return msg, hint
	case v.Type() == durationType:
		d, msg, hint := parseDuration(s)
		v.SetInt(int64(d))
		return msg, hint
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s.text)
		if msg, hint := wantText(s, v.Type() == dateType); msg != "" {
			return msg, hint
		}
		return oneOf(s, choices(tag))
	case reflect.Bool:
		on, msg, hint := parseBoolean(s)
		v.SetBool(on)
		return msg, hint
	case reflect.Float64:
		var d decimal
		msg, hint := d.parse(s)
		v.SetFloat(float64(d))
		return msg, hint
	}
	number, msg, hint := parseInteger(s)
	if msg == "" && v.OverflowInt(number) {
		return s.shown() + " is out of range", ""
	}
	v.SetInt(number)
	return msg, hint
}

// wantText refuses what YAML does not take for text: 5, true, 010 and 1e3 mean
// other things to other readers, and quotes settle it.
func wantText(s scalar, dateToo bool) (msg, hint string) {
	if s.tag == "!!str" || s.secret || dateToo && s.tag == "!!timestamp" {
		return "", ""
	}
	kind := map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "true or false", "!!timestamp": "an instant"}[s.tag]
	if kind == "" {
		kind = "something else"
	}
	return s.shown() + " is " + kind + " to YAML, not text", "quote it: " + quoteYAML(s.text)
}

// choices are the values that a field is limited to, from its jsonschema tag.
func choices(tag reflect.StructTag) []string {
	var list []string
	for part := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		if choice, ok := strings.CutPrefix(part, "enum="); ok {
			list = append(list, choice)
		}
	}
	return list
}

func oneOf(s scalar, list []string) (msg, hint string) {
	if len(list) == 0 || slices.Contains(list, s.text) {
		return "", ""
	}
	return s.shown() + " is not one of its values", orElse(didYouMean(s.text, list), "write "+orList(list))
}

// orList joins words for people: a, b or c.
func orList(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}
