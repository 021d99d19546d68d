package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxFileSize bounds a config file. Ten thousand jobs take about 3 MiB.
const maxFileSize = 16 << 20

// A file is parsed again after a line was mended, at most maxMended times and,
// where it is long, until maxParsed bytes were parsed in all.
const (
	maxMended = 50
	maxParsed = 64 << 20
)

// source is one file: its text, and what YAML makes of it.
type source struct {
	name  string
	text  []byte
	lines [][]byte
	root  *yaml.Node // of the only document; nil where the file cannot be parsed
}

// readSource reads and parses a file, and reports what keeps it from being
// bound. The source is there even then, without a root.
func readSource(name string, rep *report) *source {
	src := &source{name: name}
	rep.files = append(rep.files, name)
	text, err := readBounded(name, maxFileSize)
	if err != nil {
		rep.add(Error{File: name, Msg: "cannot be read: " + reason(err), Hint: readHint(err), cause: err})
		return src
	}
	src.setText(bytes.TrimPrefix(text, []byte("\ufeff")))
	if line, col, fault := src.notText(); fault != "" {
		rep.add(Error{File: name, Line: line, Col: col, Msg: fault, Hint: "save the file as UTF-8 text"})
		return src
	}
	src.parse(rep)
	return src
}

func (s *source) setText(text []byte) {
	s.text, s.lines = text, bytes.Split(text, []byte("\n"))
}

// parse makes the root of the text. Where a value cannot stand as it is for
// want of quotes, that is reported and the value read as if it had them, so
// that this fault hides none of the others.
func (s *source) parse(rep *report) {
	original := s.lines
	for range 1 + min(maxMended, maxParsed/(len(s.text)+1)) {
		root, err := parseDocument(s.text)
		if err == nil {
			s.root = root
			break
		}
		fault := explainSyntax(s, err)
		fault.File = s.name
		rep.add(fault)
		if !s.quoteValue(fault.Line) {
			break
		}
	}
	s.lines = original
}

// rest is the text of a line from a column on, without its end.
func (s *source) rest(line, col int) string {
	if line < 1 || line > len(s.lines) {
		return ""
	}
	text := bytes.TrimRight(s.lines[line-1], "\r")
	for ; col > 1 && len(text) > 0; col-- {
		_, size := utf8.DecodeRune(text)
		text = text[size:]
	}
	return string(text)
}

// notText finds the first byte that is not UTF-8, or is no character of a text
// file, which the YAML reader would refuse without saying where.
func (s *source) notText() (line, col int, fault string) {
	line, col = 1, 1
	for rest := s.text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			return line, col, fmt.Sprintf("byte 0x%02X is not UTF-8", rest[0])
		case r == '\n':
			line, col = line+1, 0
		case r < ' ' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			return line, col, fmt.Sprintf("control character %U", r)
		}
		rest, col = rest[size:], col+1
	}
	return 0, 0, ""
}

// parseDocument returns the root of the only document. A YAML library that
// panics on some input must not take the daemon with it.
func parseDocument(text []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not YAML: %v", r)
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return nil, errEmpty
	} else if err != nil {
		return nil, err
	}
	if err := loader.Load(&second); err == nil {
		return nil, &secondDocument{line: second.Line}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(first.Content) != 1 || isEmpty(first.Content[0]) {
		return nil, errEmpty
	}
	return first.Content[0], nil
}

// isEmpty reports whether a document holds nothing, as one of `---` alone.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value == ""
}

// readBounded reads a whole file that must not be longer than limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("longer than %d MiB", limit>>20)
	}
	return text, nil
}

// reason is the cause of a file error without the path, which the caller gives.
func reason(err error) string {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

func readHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "give the file with --config"
	case errors.Is(err, fs.ErrPermission):
		return "the daemon's user must be able to read it"
	}
	return ""
}
