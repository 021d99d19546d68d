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
	unread := newReport()
	src := readSource(path, unread)
	if src.text == nil {
		return executor.Text{}, unread.err()
	}
	l := loader{path: path, rep: newReport(), env: newExpander(opts.LookupEnv)}
	l.doc.preset()
	if src.root == nil {
		src.root = storeLine(src.text)
	}
	src.root = onlyStore(src.root)
	if src.root == nil {
		return l.doc.Store, nil
	}
	l.rep.files = []string{path}
	l.top = newBinder(src, l.rep, l.env).bind(&l.doc)
	l.checkStore("store", l.doc.Store)
	if err := l.rep.err(); err != nil {
		return executor.Text{}, err
	}
	return l.doc.Store, nil
}

// onlyStore is the root without all keys but `store`; nil where it has none.
func onlyStore(root *yaml.Node) *yaml.Node {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "store" {
			alone := *root
			alone.Content = root.Content[i : i+2]
			return &alone
		}
	}
	return nil
}

var storeKey = regexp.MustCompile(`(?m)^(?:store|"store"|'store')[ \t]*:.*$`)

// storeLine finds the store in a text that is no YAML as a whole, with the
// place of its line. It is nil where that line is none either.
func storeLine(text []byte) *yaml.Node {
	found := storeKey.FindIndex(text)
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
