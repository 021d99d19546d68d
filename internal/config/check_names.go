package config

import (
	"fmt"
	"strings"
)

// maxNameBytes bounds the names of jobs, databases and nodes: they stand in
// keys, headers and labels.
const maxNameBytes = 128

// nameFault says what keeps a name from being one. Names stand in keys, URLs,
// HTTP headers and on command lines as they are, which leaves little room.
func nameFault(name string) (msg, hint string) {
	switch {
	case name == "":
		return "name is empty", ""
	case len(name) > maxNameBytes:
		return fmt.Sprintf("name is longer than %d bytes", maxNameBytes), "put the rest into description"
	case strings.ContainsFunc(name, notInName):
		hint := "use letters a-z and A-Z, digits and . _ : @ + -"
		if guess := strings.Map(forName, name); !strings.ContainsFunc(guess, notInName) {
			hint += ", such as " + guess
		}
		return "name holds a character that has no place in one", hint
	case strings.HasPrefix(name, "-"):
		return "name begins with -", "it would look like an option on a command line"
	case strings.Trim(name, ".") == "":
		return "name is nothing but dots", "it would mean a folder in a URL"
	}
	return "", ""
}

func notInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._:@+-", r)
}

// forName replaces what people write between words.
func forName(r rune) rune {
	if r == ' ' || r == '/' || r == '\\' {
		return '-'
	}
	return r
}

func (l *loader) checkNames() {
	for _, e := range l.entries {
		if msg, hint := nameFault(e.name); msg != "" {
			e.failSelf(msg, hint)
		}
	}
}

// checkRenames keeps renamed_from unambiguous: a name that still exists cannot
// be handed on, and one name has one heir.
func (l *loader) checkRenames() {
	heirs := map[string]string{}
	for _, e := range l.entries {
		old := e.RenamedFrom
		if !e.has("renamed_from") || !e.ok("renamed_from") {
			continue
		}
		if msg, hint := nameFault(old); msg != "" {
			e.fail("renamed_from", msg, hint)
			continue
		}
		heir, taken := heirs[old]
		switch {
		case old == e.name:
			e.fail("renamed_from", "is the job's own name", "write the name that it had before, or leave it out")
		case l.byName[old] != nil:
			e.fail("renamed_from", "job "+old+" still exists", "remove it from the file, or leave renamed_from out")
		case taken:
			e.fail("renamed_from", "job "+heir+" is renamed from "+old+" too", "state and history go to one of them")
		default:
			heirs[old] = e.name
		}
	}
}
