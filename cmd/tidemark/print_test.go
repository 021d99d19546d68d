package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tidemarkd/tidemark/internal/daemon"
	"github.com/tidemarkd/tidemark/jobstore"
)

func TestTextOfOthersCannotControlATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain ü 日本":         "plain ü 日本",
		"a\x1b[31mb":         `a\x1b[31mb`,
		"bell\a del\x7f":     `bell\x07 del\x7f`,
		"one\ntwo\tthree\r":  `one\ntwo\tthree\r`,
		"c1 \u009b31m":       `c1 \x9b31m`,
		"bad \xff\xc3":       `bad \xff\xc3`,
		"turned \u202e back": `turned \u202e back`,
		"null \x00":          `null \x00`,
	} {
		if got := safe(text); got != want {
			t.Errorf("safe(%q) = %q, want %q", text, got, want)
		}
	}
	if got, want := safeBlock("one\r\ntwo\tthree\rfour\x1b"), "one\ntwo\tthree\\rfour\\x1b"; got != want {
		t.Errorf("safeBlock = %q, want %q", got, want)
	}
}

func TestColoursStandInLine(t *testing.T) {
	var b bytes.Buffer
	c := newCLI(&b, &b)
	c.out.colours = true
	table := c.table("KEY", "STATE", "NODE")
	table.row("a", cell{"succeeded", green}, "n1")
	table.row("b\x1b[0m", cell{"pending", plain}, "n2")
	table.print()
	coloured := b.String()
	b.Reset()
	c.out.colours = false
	table.print()
	bare := strings.NewReplacer("\x1b[39m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(coloured)
	if bare != b.String() || coloured == bare {
		t.Errorf("with colours:\n%q\nwithout:\n%q", coloured, b.String())
	}
}

func TestNoColoursWhereNotATerminal(t *testing.T) {
	var b bytes.Buffer
	if o := newOutput(&b); o.colours || o.terminal {
		t.Error("a buffer is taken for a terminal")
	}
}

// TestOutputThatCannotBeWrittenIsAFailure as of a listing on a full disk.
func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	var errs bytes.Buffer
	if code := execute(t.Context(), t.Context(), []string{"version"}, fullDisk{}, &errs); code != daemon.ExitFailed {
		t.Errorf("exit code is %d", code)
	}
	if want := "tidemark: write to standard output: disk full\n"; errs.String() != want {
		t.Errorf("says %q, want %q", errs.String(), want)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("disk full")

func TestLogsPrintEachByteOnce(t *testing.T) {
	head, tail := strings.Repeat("h", 10), strings.Repeat("t", 10)
	steps := []struct {
		head, tail string
		size       int64
	}{
		{"", "", 0},
		{head[:4], "", 4},
		{head, "", 10},
		{head, "abcdef", 16},
		{head, "abcdef", 16},
		{head, tail, 40}, // more came than is kept
	}
	var out, errs bytes.Buffer
	l := logs{c: newCLI(&out, &errs)}
	for _, s := range steps {
		l.print(jobstore.Output{Head: []byte(s.head), Tail: []byte(s.tail), Size: s.size})
	}
	if want := head + "abcdef" + tail; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if want := "tidemark: 14 bytes were not kept here\n"; errs.String() != want {
		t.Errorf("noted %q, want %q", errs.String(), want)
	}
}

// TestFollowedCharactersAreNotCut: a character may come in two pieces.
func TestFollowedCharactersAreNotCut(t *testing.T) {
	text := "é 日 🙂\r\nend\xff\x1b"
	for cut := range len(text) {
		var out, errs bytes.Buffer
		l := logs{c: newCLI(&out, &errs)}
		l.c.out.terminal = true
		l.write([]byte(text[:cut]))
		l.write([]byte(text[cut:]))
		l.flush()
		if want := "é 日 🙂\nend\\xff\\x1b"; out.String() != want {
			t.Errorf("cut at %d: %q, want %q", cut, out.String(), want)
		}
	}
}
