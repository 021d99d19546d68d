package config

import (
	"bytes"
	"regexp"

	"go.yaml.in/yaml/v4"

	"github.com/tidemarkd/tidemark/internal/executor"
)

// StoreOf returns the store that a config file names, or the default, without
// judging anything else in it: commands that only need the store work while
// jobs are being edited. Errors are of the type Errors.
func StoreOf(path string, opts Options) (executor.Text, error) {
	doc, err := readAlone(path, "store", opts)
	return doc.Store, err
}

// ListenOf is like StoreOf, for where the daemon listens.
func ListenOf(path string, opts Options) (string, error) {
	doc, err := readAlone(path, "listen", opts)
	return doc.Listen.Value, err
}

// readAlone reads one key at the top of a file and leaves the rest at its
// default.
func readAlone(path, key string, opts Options) (document, error) {
	unread := newReport()
	src := readSource(path, unread)
	if src.text == nil {
		return document{}, unread.err()
	}
	l := loader{path: path, rep: newReport(), env: newExpander(opts.LookupEnv)}
	l.doc.preset()
	if src.root == nil {
		src.root = lineOf(src.text, key)
	}
	src.root = only(src.root, key)
	if src.root == nil {
		return l.doc, nil
	}
	l.rep.files = []string{path}
	l.top = newBinder(src, l.rep, l.env).bind(&l.doc)
	if key == "store" {
		l.checkStore(key, l.doc.Store)
	}
	if err := l.rep.err(); err != nil {
		return document{}, err
	}
	return l.doc, nil
}

// only is the root without all keys but one; nil where it does not have it.
func only(root *yaml.Node, key string) *yaml.Node {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			alone := *root
			alone.Content = root.Content[i : i+2]
			return &alone
		}
	}
	return nil
}

// lineOf finds the key's line in a text that is no YAML as a whole. It is nil
// where that line is none either.
func lineOf(text []byte, key string) *yaml.Node {
	found := regexp.MustCompile(`(?m)^(?:` + key + `|"` + key + `"|'` + key + `')[ \t]*:.*$`).FindIndex(text)
	if found == nil {
		return nil
	}
	above := bytes.Repeat([]byte("\n"), bytes.Count(text[:found[0]], []byte("\n")))
	root, err := parseDocument(append(above, text[found[0]:found[1]]...))
	if err != nil {
		return nil
	}
	return root
}
