package executor

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// fields are what a template may name (interfaces 2).
type fields struct {
	Key, Job, Target string
	ScheduledAt      moment
	Attempt          int
	LogicalRun       int
	WindowFrom       moment
	WindowTo         moment
	Coalesced        int64
}

// fieldNames in the order in which errors list them.
func fieldNames(windowed bool) []string {
	names := []string{"Key", "Job", "Target", "ScheduledAt", "Attempt", "LogicalRun", "Coalesced"}
	if windowed {
		names = append(names, "WindowFrom", "WindowTo")
	}
	return names
}

// moment is an instant that writes itself as keys do.
type moment struct{ t time.Time }

func (m moment) String() string { return jobstore.FormatTime(m.t) }

// Format writes the instant, in UTC, in one of Go's layouts.
func (m moment) Format(layout string) string { return m.t.UTC().Format(layout) }

// Unix is the instant in seconds since the epoch.
func (m moment) Unix() int64 { return m.t.Unix() }

func fieldsOf(try scheduler.Try) fields {
	return fields{
		Key: try.Key, Job: try.Job, Target: try.Target, ScheduledAt: moment{try.ScheduledAt},
		Attempt: try.Attempt, LogicalRun: try.LogicalRun, Coalesced: try.Coalesced,
		WindowFrom: moment{try.WindowFrom}, WindowTo: moment{try.WindowTo},
	}
}

// sample is a try with which templates are executed when the file is loaded.
func sample(windowed bool) scheduler.Try {
	at := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	try := scheduler.Try{Key: jobstore.Key("job", "target", at), Job: "job", Target: "target", ScheduledAt: at, Attempt: 1, LogicalRun: 1}
	if windowed {
		try.WindowFrom, try.WindowTo = at.Add(-24*time.Hour), at
	}
	return try
}

// phrase is a text whose templates are parsed. The values of its `${…}` never
// pass through a template: marks stand in their place until it has been
// executed.
type phrase struct {
	written string
	tmpl    *template.Template // nil: holds no template
	secrets []piece            // by the number in their mark
	plain   string             // where there is no template: value
	names   map[string]bool    // the fields that it names
}

// mark stands for a secret while a template is executed. A NUL is in no value
// of a YAML file, and rendering refuses it in fields.
func mark(i int) string { return "\x00" + strconv.Itoa(i) + "\x00" }

// compile parses the templates of a text, and tries them out.
func (f *faults) compile(field string, t Text, windowed bool) phrase {
	p := phrase{written: t.Written, plain: t.Value}
	if strings.ContainsRune(t.Written, 0) || strings.ContainsRune(t.Value, 0) {
		f.add(field, "holds a NUL byte", "")
		return p
	}
	var source strings.Builder
	for _, piece := range t.pieces() {
		if !piece.secret {
			source.WriteString(piece.value)
			continue
		}
		source.WriteString(mark(len(p.secrets)))
		p.secrets = append(p.secrets, piece)
	}
	if !strings.Contains(source.String(), "{{") {
		return p
	}
	tmpl, err := template.New("").Option("missingkey=error").Parse(source.String())
	if err != nil {
		msg, hint := "the template cannot be read: "+p.unmark(templateFault(err)), ""
		if strings.ContainsRune(err.Error(), 0) || strings.Contains(err.Error(), "U+0000") {
			msg, hint = "${…} has no place inside {{…}}", "a secret is never part of a template: write it outside"
		}
		f.add(field, msg, hint)
		return p
	}
	check := checker{field: field, windowed: windowed, faults: f, names: map[string]bool{}}
	p.names = check.names
	if check.tree(tmpl); check.bad {
		return p
	}
	p.tmpl = tmpl
	if _, _, err := p.render(sample(windowed)); err != nil {
		f.add(field, err.Error(), "")
	}
	return p
}

// render fills the phrase in. shown is the value with `${…}` as written, for
// messages.
func (p phrase) render(try scheduler.Try) (value, shown string, err error) {
	if p.tmpl == nil {
		return p.plain, p.written, nil
	}
	if strings.ContainsRune(try.Key+try.Job+try.Target, 0) {
		return "", "", errors.New("the run's key or target holds a NUL byte")
	}
	var out strings.Builder
	if err := p.tmpl.Execute(&out, fieldsOf(try)); err != nil {
		return "", "", errors.New("the template fails: " + p.unmark(templateFault(err)))
	}
	value, shown = out.String(), out.String()
	pairs := make([]string, 0, 2*len(p.secrets))
	for i, s := range p.secrets {
		pairs = append(pairs, mark(i), s.value)
	}
	return strings.NewReplacer(pairs...).Replace(value), p.unmark(shown), nil
}

// unmark puts secrets back as they are written.
func (p phrase) unmark(text string) string {
	for i, s := range p.secrets {
		text = strings.ReplaceAll(text, mark(i), s.written)
	}
	return text
}

// templateFault cuts what the template package puts in front: its name for the
// template, which is none, and the place, which counts lines from the value on.
func templateFault(err error) string {
	text := strings.TrimPrefix(err.Error(), "template: ")
	text = strings.TrimLeft(text, ":0123456789 ")
	if _, at, ok := strings.Cut(text, `executing "" at `); ok {
		text = at
	}
	return text
}

// checker walks a parsed template: what it names must exist, also in branches
// that the sample does not take.
type checker struct {
	field    string
	windowed bool
	faults   *faults
	names    map[string]bool
	bad      bool
}

func (c *checker) fail(msg, hint string) {
	c.bad = true
	c.faults.add(c.field, msg, hint)
}

func (c *checker) tree(tmpl *template.Template) {
	for _, t := range tmpl.Templates() {
		if t.Tree != nil {
			c.node(reflect.ValueOf(t.Root))
		}
	}
}

// node visits v and every node below it. Nodes are reached by reflection, so
// that none that a later Go adds is passed over.
func (c *checker) node(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		switch n := v.Interface().(type) {
		case *parse.Tree:
			return
		case *parse.FieldNode:
			c.name(n.Ident[0])
			return
		case *parse.VariableNode:
			if n.Ident[0] == "$" && len(n.Ident) > 1 {
				c.name(n.Ident[1])
			}
			return
		case *parse.StringNode:
			if strings.ContainsRune(n.Text, 0) {
				c.fail("${…} has no place inside {{…}}", "a secret is never part of a template: write it outside")
			}
			return
		}
		c.node(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.node(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.node(v.Index(i))
		}
	}
}

func (c *checker) name(name string) {
	c.names[name] = true
	switch names := fieldNames(true); {
	case !slices.Contains(names, name):
		c.fail(fmt.Sprintf("a template knows no field .%s", name), "it may name ."+strings.Join(fieldNames(c.windowed), ", ."))
	case !c.windowed && strings.HasPrefix(name, "Window"):
		c.fail(fmt.Sprintf("{{.%s}}: the job's runs have no window", name),
			"a window needs runs one at a time: without `overlap: allow` and with `max_instances: 1`")
	}
}
