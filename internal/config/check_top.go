package config

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidemarkd/tidemark/internal/executor"
	"github.com/tidemarkd/tidemark/scheduler"
)

// checkTop checks the keys at the top of the file.
func (l *loader) checkTop() {
	if l.top == nil {
		return
	}
	l.checkStore("store", l.doc.Store)
	l.checkListen()
	l.checkTimezone()
	l.checkNode()
	l.checkCounts()
	l.checkDatabases()
}

// checkStore checks the address of a database of ours, at path.
func (l *loader) checkStore(path string, address executor.Text) {
	if !l.top.ok(path) {
		return
	}
	if msg, hint := storeFault(address); msg != "" {
		l.top.fail(path, msg, hint)
	}
}

const storeHint = "write sqlite:FILE or postgres://USER@HOST/DATABASE"

// storeFault says what keeps an address from being one of a store. It shows
// the address as written only.
func storeFault(address executor.Text) (msg, hint string) {
	scheme, rest, found := strings.Cut(address.Value, ":")
	switch {
	case address.Value == "":
		return "is empty", storeHint
	case !found || scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql":
		return "neither SQLite nor Postgres", storeHint
	case scheme == "sqlite" && rest == "":
		return "names no file", storeHint
	case scheme == "sqlite":
		return "", ""
	}
	// The parser's own error would quote the address, with its password.
	u, err := url.Parse(address.Value)
	if err != nil || !strings.HasPrefix(rest, "//") || u.Opaque != "" || strings.Contains(u.Path, "@") || strings.Count(strings.SplitN(rest[2:], "/", 2)[0], "@") > 1 {
		return "not a URL", "write postgres://USER@HOST/DATABASE, and in a password %40 for @, %2F for /, %3A for :"
	}
	return "", ""
}

func (l *loader) checkListen() {
	if !l.top.ok("listen") {
		return
	}
	const hint = "write host:port, such as 127.0.0.1:9720, or :9720 for all addresses"
	shown := strconv.Quote(clip(l.doc.Listen.Written))
	host, port, err := net.SplitHostPort(l.doc.Listen.Value)
	if err != nil {
		l.top.fail("listen", shown+" is no address", hint)
		return
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(number, 10) != port {
		l.top.fail("listen", shown+" has no port number", "ports go from 0 (any that is free) to 65535")
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/\@?#"'`, r) }) {
		l.top.fail("listen", shown+" has no host name", hint)
	}
}

// checkTimezone checks the file's zone. In place of a bad one jobs are checked
// in UTC, so that it is reported once.
func (l *loader) checkTimezone() {
	if l.top.ok("timezone") {
		if _, err := scheduler.LoadZone(l.doc.Timezone); err != nil {
			msg, hint := scheduleFault(err)
			l.top.fail("timezone", msg, hint)
		}
	}
	if !l.top.ok("timezone") {
		l.doc.Timezone = "UTC"
	}
}

// checkNode keeps the name fit for keys, logs and labels.
func (l *loader) checkNode() {
	name := l.doc.Node.Value
	if l.top.ok("node") && (len(name) > maxNameBytes || strings.ContainsFunc(name, notPlain)) {
		l.top.fail("node", fmt.Sprintf("blank or control character, or longer than %d bytes", maxNameBytes), "write a name such as a host has")
	}
}

func notPlain(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }

func (l *loader) checkCounts() {
	atLeast(l.top, "max_concurrent_runs", l.doc.MaxConcurrentRuns, 1)
	atLeast(l.top, "revision", l.doc.Revision, 0)
	for path, d := range map[string]duration{"retention.runs": l.doc.Retention.Runs, "retention.output": l.doc.Retention.Output} {
		if l.top.ok(path) && d == 0 {
			l.top.fail(path, "keeps nothing at all", "use 1s or more")
		}
	}
}

// atLeast refuses a number below low, and one that is no count of anything.
func atLeast(s *scope, path string, n integer, low integer) {
	high := integer(math.MaxInt32)
	if path == "revision" {
		high = math.MaxInt64
	}
	if s.ok(path) && (n < low || n > high) {
		s.fail(path, "out of range", fmt.Sprintf("use %d or more", low))
	}
}

func (l *loader) checkDatabases() {
	for _, name := range slices.Sorted(maps.Keys(l.doc.Databases)) {
		path := join("databases", name)
		if msg, hint := nameFault(name); msg != "" {
			l.top.fail(path, msg, hint)
		}
		if !l.top.has(path + ".url") {
			if l.top.ok(path) {
				l.top.fail(path, "url is missing", storeHint)
			}
			continue
		}
		l.checkStore(path+".url", l.doc.Databases[name].URL)
		atLeast(l.top, path+".max_conns", l.doc.Databases[name].MaxConns, 1)
	}
}

// itemPath is the path of an entry of a list.
func itemPath(path string, index int) string { return fmt.Sprintf("%s[%d]", path, index) }
