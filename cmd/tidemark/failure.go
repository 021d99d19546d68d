package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/internal/daemon"
	"github.com/tidemarkd/tidemark/jobstore"
)

// failure is how a command ended badly, as people, programs and the shell see it.
type failure struct {
	exit int
	code string // one word for programs
	msg  string
	hint string // what to do about it; may be empty
	at   string // where: a place in the config, a flag; may be empty

	faults config.Errors // all that is wrong with the config, one line each
}

func (f *failure) Error() string {
	if f.hint == "" {
		return f.msg
	}
	return f.msg + " (" + f.hint + ")"
}

func (f *failure) hinted(hint string) *failure {
	f.hint = hint
	return f
}

// usage is a command line that means nothing.
func usage(cmd *cobra.Command, format string, args ...any) *failure {
	return &failure{
		exit: daemon.ExitUsage, code: "usage", msg: fmt.Sprintf(format, args...),
		hint: "see " + cmd.CommandPath() + " --help",
	}
}

// usageAt is a flag or argument whose value means nothing.
func usageAt(cmd *cobra.Command, flag string, err error) *failure {
	f := usage(cmd, "%s: %s", flag, err)
	f.at = flag
	if inner := (*failure)(nil); errors.As(err, &inner) {
		f.msg = flag + ": " + inner.msg
		if inner.hint != "" {
			f.hint = inner.hint
		}
	}
	return f
}

// failed is an operation that did not do what was asked.
func failed(code, format string, args ...any) *failure {
	return &failure{exit: daemon.ExitFailed, code: code, msg: fmt.Sprintf(format, args...)}
}

// classify makes a failure of any error.
func classify(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	f = &failure{exit: daemon.ExitCode(err), code: "failed", msg: oneLine(err.Error())}
	var faults config.Errors
	if errors.As(err, &faults) && len(faults) > 0 {
		f.code, f.faults, f.at = "config", faults, place(faults[0])
		f.msg = plural(len(faults), "error") + " in the config"
		if len(faults) == 1 {
			f.msg, f.hint = faultText(faults[0]), faults[0].Hint
		}
		return f
	}
	for _, k := range kinds() {
		if !errors.Is(err, k.err) {
			continue
		}
		f.code, f.hint = k.code, k.hint
		break
	}
	return f
}

type kind struct {
	err        error
	code, hint string
}

// kinds says what to do about the errors that the store knows.
func kinds() []kind {
	return []kind{
		{jobstore.ErrNoStore, "no_store", ""}, // cli.noStoreHint
		{jobstore.ErrOldSchema, "old_schema", "`tidemark migrate` brings it up to date"},
		{jobstore.ErrNewerSchema, "newer_schema", "use the version of tidemark that migrated it, or a later one"},
		{jobstore.ErrDamaged, "damaged", "restore it from a backup"},
		{jobstore.ErrLocked, "locked", "one daemon at a time works on a SQLite store; stop the other, or use Postgres"},
		{jobstore.ErrNodeTaken, "node_taken", "give each daemon a `node:` of its own"},
		{jobstore.ErrUnavailable, "unavailable", "check its address, that it is up, and that this user may write it"},
		{jobstore.ErrConflict, "conflict", "another key makes another run"},
		{jobstore.ErrNotFound, "not_found", ""},
		{jobstore.ErrState, "state", ""},
		{daemon.ErrStoreURL, "usage", ""},
	}
}

// print writes the failure to standard error.
func (f *failure) print(w io.Writer, asJSON bool) {
	switch {
	case asJSON:
		f.printJSON(w)
	case len(f.faults) > 0:
		for _, fault := range f.faults {
			fmt.Fprintln(w, oneLine(fault.Error()))
		}
	default:
		fmt.Fprintf(w, "tidemark: %s\n", safe(f.Error()))
	}
}

type faultJSON struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	At      string `json:"at"`
}

func (f *failure) printJSON(w io.Writer) {
	type body struct {
		Code    string      `json:"code"`
		Message string      `json:"message"`
		Hint    string      `json:"hint"`
		At      string      `json:"at"`
		Errors  []faultJSON `json:"errors,omitempty"`
	}
	b := body{Code: f.code, Message: f.msg, Hint: f.hint, At: f.at}
	for _, e := range f.faults {
		b.Errors = append(b.Errors, faultJSON{e.File, e.Line, e.Col, e.Field, e.Msg, e.Hint, place(e)})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]body{"error": b})
}

// place is where a fault of the config stands: file:line:col.
func place(e config.Error) string {
	if e.Line == 0 {
		return e.File
	}
	return fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Col)
}

func faultText(e config.Error) string {
	if e.Field == "" {
		return e.Msg
	}
	return e.Field + ": " + e.Msg
}

// oneLine joins the lines of an error of many.
func oneLine(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(b.String(), ":"):
			b.WriteByte(' ')
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
