package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readIncluded reads the files that `include:` names.
func (l *loader) readIncluded() {
	seen := map[string]bool{clean(l.path): true}
	for i, pattern := range l.doc.Include {
		path := itemPath("include", i)
		if !l.top.ok(path) {
			continue
		}
		for _, name := range l.glob(path, pattern.Value) {
			if seen[clean(name)] {
				continue
			}
			seen[clean(name)] = true
			src := readSource(name, l.rep)
			if src.root == nil {
				continue
			}
			var doc included
			newBinder(src, l.rep, l.env).bind(&doc)
			l.addJobs(doc.Jobs)
		}
	}
}

// glob returns the files that a pattern names, sorted, relative ones as seen
// from the working directory. As in a shell, a pattern passes over hidden
// files: editors and ConfigMaps leave such behind.
func (l *loader) glob(path, pattern string) []string {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(l.path), pattern)
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		l.watchDir(filepath.Dir(pattern))
		if _, err := os.Stat(pattern); err != nil {
			l.top.fail(path, "cannot be read: "+reason(err), "names are relative to this file; only a pattern with * or ? may match nothing")
			return nil
		}
		return []string{pattern}
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		l.top.fail(path, "not a pattern", "* stands for any text, ? for one character, [a-z] for one of several")
		return nil
	}
	l.watchPattern(pattern)
	hidden := strings.HasPrefix(filepath.Base(pattern), ".")
	return slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return !hidden && strings.HasPrefix(filepath.Base(name), ".") || err == nil && info.IsDir()
	})
}

// watchPattern watches every directory in which a file may come to match.
func (l *loader) watchPattern(pattern string) {
	dir := filepath.Dir(pattern)
	if !strings.ContainsAny(dir, `*?[\`) {
		l.watchDir(dir)
		return
	}
	l.watchPattern(dir)
	dirs, _ := filepath.Glob(dir) // the pattern as a whole was found good
	for _, d := range dirs {
		l.watchDir(d)
	}
}

// watchDir notes a directory if it is there.
func (l *loader) watchDir(dir string) {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		l.dirs = append(l.dirs, dir)
	}
}

// clean is the one spelling of a path by which files are told apart.
func clean(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}
