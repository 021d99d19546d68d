package config

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// errEmpty says that a file holds no document.
var errEmpty = errors.New("file is empty")

// secondDocument says that a file goes on after its document.
type secondDocument struct{ line int }

func (e *secondDocument) Error() string { return "second document" }

// explainSyntax makes a fault of what the YAML parser says, with the hint that
// its words want where the cause is one of the classic slips.
func explainSyntax(src *source, err error) Error {
	var second *secondDocument
	var load *yaml.LoadError
	switch {
	case errors.Is(err, errEmpty):
		return Error{Line: 1, Col: 1, Msg: "file is empty", Hint: "write `jobs: {}` where there are no jobs yet"}
	case errors.As(err, &second):
		return Error{Line: second.line, Col: 1, Msg: "second document", Hint: "a config file is one document: put the rest into a file of its own and `include:` it"}
	case errors.As(err, &load):
		mark := load.Mark
		if mark.Line == 0 {
			mark = load.ContextMark
		}
		e := Error{Line: mark.Line, Col: mark.Column, Msg: "not YAML: " + load.Message}
		e.explain(src, load)
		return e
	}
	return Error{Msg: "not YAML: " + err.Error()}
}

// explain adds the hint, and moves the place to where the cause is.
func (e *Error) explain(src *source, load *yaml.LoadError) {
	line := src.rest(e.Line, 1)
	here := src.rest(e.Line, e.Col)
	switch {
	case strings.Contains(load.Message, "tab character") || strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		e.Msg, e.Hint = "not YAML: a tab in the indentation", "indent with spaces"
		e.Col = strings.IndexByte(line, '\t') + 1
	case unquotable(src, e.Line) != "":
		value := unquotable(src, e.Line)
		e.Msg = "not YAML: a value cannot begin with " + value[:1]
		e.Hint = "quote it: " + quoteYAML(value)
		e.Col = utf8.RuneCountInString(valuePart.FindString(line)) + 1
	case strings.HasPrefix(load.Message, "unknown anchor"):
		e.Hint = "an anchor is set with & before it is used; quote the value if none is meant"
	case strings.Contains(here, "${") || strings.Contains(line, "{"+"$") || strings.Contains(line, " ${") && strings.Contains(load.ContextMsg, "flow"):
		e.Hint = "inside { } and [ ] quote a ${…}: \"${…}\""
	case strings.HasPrefix(load.Message, "mapping values are not allowed"):
		e.Hint = mappingHint(src, e.Line)
	case strings.Contains(load.ContextMsg, "quoted scalar") && strings.Contains(load.Message, "end of stream"):
		e.Line, e.Col, e.Hint = load.ContextMark.Line, load.ContextMark.Column, "the quote that begins here is never closed"
	case strings.Contains(load.Message, "unknown escape"):
		e.Hint = `inside "…" a backslash is written \\; inside '…' it stands for itself`
	case strings.Contains(load.ContextMsg, "flow node"), strings.Contains(load.Message, "node content"):
		e.Hint = "a value is missing here, or a [ or { before this is not closed"
	case strings.Contains(load.ContextMsg, "flow"):
		e.Hint = "a [ or { that began on line " + lineNumber(load.ContextMark) + " is not closed before this"
	case strings.Contains(load.Message, "expected key"):
		e.Hint = "check the indentation, and that a ' inside '…' is doubled"
	}
}

// mappingHint tells a forgotten colon from a value that holds one.
func mappingHint(src *source, line int) string {
	above := strings.TrimSpace(src.rest(line-1, 1))
	if above != "" && !strings.HasPrefix(above, "#") && !strings.Contains(above, ":") {
		return "is a colon missing at the end of the line above?"
	}
	return "quote a value that holds a colon and a blank, and check the indentation"
}

func lineNumber(m yaml.Mark) string {
	text, _, _ := strings.Cut(strings.TrimPrefix(m.String(), "line "), ",")
	return text
}

// valuePart is what stands before the value of a line: dashes and a key.
var valuePart = regexp.MustCompile(`^\s*(?:- +)*(?:[\w.@+-]+\s*:\s+|"[^"]*"\s*:\s+|'[^']*'\s*:\s+)?`)

// unquotable returns the value of a line that YAML cannot read without quotes
// (`@hourly`, `*/5 * * * *`), without a comment behind it; else nothing.
func unquotable(src *source, line int) string {
	text := src.rest(line, 1)
	value := text[len(valuePart.FindString(text)):]
	if value == "" || !strings.ContainsAny(value[:1], "@`%*") {
		return ""
	}
	if value[0] == '*' && !strings.ContainsAny(value, " /") {
		return "" // an alias
	}
	value, _, _ = strings.Cut(value, " #")
	return strings.TrimRight(value, " \t")
}

// quoteValue puts quotes around the value of a line that wants them, and
// reports whether it did: the text then parses further than before.
func (s *source) quoteValue(line int) bool {
	value := unquotable(s, line)
	if value == "" {
		return false
	}
	lines := append([][]byte(nil), s.lines...)
	text := string(lines[line-1])
	head := valuePart.FindString(text)
	lines[line-1] = []byte(head + "'" + strings.ReplaceAll(value, "'", "''") + "'" + text[len(head)+len(value):])
	s.setText(bytes.Join(lines, []byte("\n")))
	return true
}

// quoteYAML writes a value in double quotes.
func quoteYAML(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
