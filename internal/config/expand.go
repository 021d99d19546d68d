package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxSecretSize bounds what `${file:…}` reads.
const maxSecretSize = 1 << 20

// expander replaces `${NAME}` by environment variables and `${file:/path}` by
// the text of files. What it yields are secrets: they go into values that are
// used, never into anything that is shown, stored or hashed.
type expander struct {
	lookup func(string) (string, bool)
	files  map[string]secretFile
	read   []string // the files, in the order of first use
}

type secretFile struct{ text, fault string }

func newExpander(lookup func(string) (string, bool)) *expander {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	return &expander{lookup: lookup, files: map[string]secretFile{}}
}

// expandFault is what is wrong with a `${…}`, and where in the value.
type expandFault struct {
	offset    int
	msg, hint string
}

// holdsVariable reports whether expand would replace something in the text.
func holdsVariable(text string) bool {
	return strings.Contains(strings.ReplaceAll(text, "$${", ""), "${")
}

// expand replaces every `${…}` of the text once: what comes out of one is not
// looked at again. `$${` stands for `${` itself.
func (x *expander) expand(text string) (value string, faults []expandFault) {
	var out strings.Builder
	for at := 0; at < len(text); {
		next := strings.Index(text[at:], "${")
		if next < 0 {
			out.WriteString(text[at:])
			break
		}
		next += at
		if next > at && text[next-1] == '$' {
			out.WriteString(text[at:next-1] + "${")
			at = next + 2
			continue
		}
		out.WriteString(text[at:next])
		end := strings.IndexByte(text[next:], '}')
		if end < 0 {
			faults = append(faults, expandFault{next, "${ without a }", "write $${ for the two characters themselves"})
			break
		}
		value, msg, hint := x.variable(text[next+2 : next+end])
		if msg != "" {
			faults = append(faults, expandFault{next, msg, hint})
		}
		out.WriteString(value)
		at = next + end + 1
	}
	return out.String(), faults
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (x *expander) variable(name string) (value, msg, hint string) {
	if path, isFile := strings.CutPrefix(name, "file:"); isFile {
		value, msg = x.file(path)
		return value, msg, ""
	}
	if !variableName.MatchString(name) {
		return "", "${" + name + "} names no variable", "write ${NAME} or ${file:/path}, and $${…} to keep it as it stands"
	}
	value, set := x.lookup(name)
	if !set {
		return "", "variable " + name + " is not set", "set it for the daemon, or write $${" + name + "} to keep it as it stands"
	}
	if strings.ContainsRune(value, 0) {
		return "", "variable " + name + " holds a NUL byte", ""
	}
	return value, "", ""
}

// file reads a secret, without the line end that editors put behind it.
func (x *expander) file(path string) (text, fault string) {
	if known, ok := x.files[path]; ok {
		return known.text, known.fault
	}
	var found secretFile
	switch raw, err := x.readSecret(path); {
	case !filepath.IsAbs(path):
		found.fault = "${file:" + path + "} is not an absolute path"
	case err != nil:
		found.fault = "${file:" + path + "} cannot be read: " + reason(err)
	case bytes.IndexByte(raw, 0) >= 0:
		found.fault = "${file:" + path + "} holds a NUL byte"
	default:
		line, _ := strings.CutSuffix(string(raw), "\n")
		found.text, _ = strings.CutSuffix(line, "\r")
	}
	x.files[path] = found
	return found.text, found.fault
}

func (x *expander) readSecret(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, nil
	}
	x.read = append(x.read, path)
	return readBounded(path, maxSecretSize)
}
