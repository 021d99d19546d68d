package config

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// place is where a value stands.
type place struct {
	src       *source
	node      *yaml.Node
	inherited bool // from `defaults:`
	bad       bool // a fault of this value has been reported
}

// at returns line and column of the byte at offset of the value. Where the
// text of the file is not the value itself (escapes, folded lines, an
// expanded variable), it is where the value begins.
func (p place) at(offset int) (line, col int) {
	line, col = p.node.Line, p.node.Column
	if offset <= 0 || offset > len(p.node.Value) {
		return line, col
	}
	text := p.src.rest(line, col)
	quote := 0
	if p.node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && text != "" {
		quote = 1
	}
	before := p.node.Value[:offset]
	if !strings.HasPrefix(text[quote:], before) {
		return line, col
	}
	return line, col + quote + utf8.RuneCountInString(before)
}

// scope is the part of a file that one set of keys belongs to: the top, the
// defaults, or a job. It knows where each of them stands and how it was
// written; paths are relative to it ("retry.initial", "schedule[1]").
type scope struct {
	name    string // of the job; "defaults"; empty at the top
	src     *source
	key     *yaml.Node // where the scope itself is named; nil at the top
	places  map[string]place
	written map[string]any // the keys of the scope, as written
	rep     *report
}

func newScope(name string, src *source, key *yaml.Node, rep *report) *scope {
	return &scope{name: name, src: src, key: key, places: map[string]place{}, written: map[string]any{}, rep: rep}
}

// has reports whether the field was given, well or badly.
func (s *scope) has(path string) bool {
	_, given := s.places[path]
	return given
}

// ok reports whether no fault of the field itself is known: only then is there
// sense in comparing it with others.
func (s *scope) ok(paths ...string) bool {
	for _, path := range paths {
		if s.places[path].bad {
			return false
		}
	}
	return true
}

// own reports whether the field was given here and not by `defaults:`.
func (s *scope) own(path string) bool {
	p, given := s.places[path]
	return given && !p.inherited
}

// fail reports a fault of the field, at its value, or else at what is around.
func (s *scope) fail(path, msg, hint string) { s.failAt(path, 0, msg, hint) }

// failAt is fail at a byte offset inside the value.
func (s *scope) failAt(path string, offset int, msg, hint string) {
	e := Error{File: s.src.name, Field: s.field(path), Msg: msg, Hint: hint}
	found, exact := s.nearest(path)
	switch {
	case found == nil && s.key != nil:
		e.Line, e.Col = s.key.Line, s.key.Column
	case found != nil:
		if !exact {
			offset = 0
		}
		e.File = found.src.name
		e.Line, e.Col = found.at(offset)
		if found.inherited {
			e.Field = "defaults." + printable(path)
		}
	}
	s.markBad(path)
	s.rep.addOnce(e, path)
}

// failSelf reports a fault of the scope as a whole, at its name.
func (s *scope) failSelf(msg, hint string) { s.fail("", msg, hint) }

// failPair reports that two fields do not go together, at the one that the job
// itself gives, for `defaults:` cannot know what a job adds.
func (s *scope) failPair(first, second, msg, hint string) {
	if !s.own(first) && s.own(second) {
		first = second
	}
	s.fail(first, msg, hint)
}

// nearest finds the place of the path, or of the innermost given one around it.
func (s *scope) nearest(path string) (found *place, exact bool) {
	for p := path; ; p = parent(p) {
		if place, ok := s.places[p]; ok {
			return &place, p == path
		}
		if p == "" {
			return nil, false
		}
	}
}

// markBad marks the field and those around it.
func (s *scope) markBad(path string) {
	for p := path; p != ""; p = parent(p) {
		if place, ok := s.places[p]; ok {
			place.bad = true
			s.places[p] = place
		}
	}
}

func (s *scope) field(path string) string {
	switch {
	case s.name == "":
		return printable(path)
	case path == "":
		return printable(s.name)
	}
	return printable(s.name) + "." + printable(path)
}

// parent cuts the last step off a path.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// top is the first step of a path.
func top(path string) string {
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end]
	}
	return path
}
