package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of a config file, and where it stands.
type Error struct {
	File      string // as the caller or `include:` named it
	Line, Col int    // from 1, in characters; 0 where the whole file is meant
	Field     string // "job.field", "defaults.field" or a key at the top; may be empty
	Msg       string // what is wrong; holds no expanded value
	Hint      string // what to do about it; may be empty
	cause     error
}

// Error writes `file:line:col: job.field: what is wrong (hint)`.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap returns the error of the file system behind it, if there is one.
func (e Error) Unwrap() error { return e.cause }

// Errors are all faults of a config, sorted by place: the file itself first,
// then the included ones in the order of their names.
type Errors []Error

// Error writes one fault per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults one by one.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i := range e {
		all[i] = e[i]
	}
	return all
}

// report collects faults.
type report struct {
	errs  []Error
	files []string // in the order in which they were read
	seen  map[Error]bool
}

func newReport() *report { return &report{seen: map[Error]bool{}} }

func (r *report) add(e Error) { r.addOnce(e, e.Field) }

// addOnce keeps the same fault of one place and path once, however many jobs
// inherit it from defaults or share it through an alias.
func (r *report) addOnce(e Error, path string) {
	key := Error{File: e.File, Line: e.Line, Col: e.Col, Field: path, Msg: e.Msg}
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	r.errs = append(r.errs, e)
}

// err returns what was collected as Errors, or nil.
func (r *report) err() error {
	if len(r.errs) == 0 {
		return nil
	}
	rank := map[string]int{}
	for i, name := range r.files {
		rank[name] = i
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		return cmp.Or(
			cmp.Compare(rank[a.File], rank[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Msg, b.Msg),
		)
	})
	return Errors(r.errs)
}
