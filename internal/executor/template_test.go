package executor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemarkd/tidemark/scheduler"
)

func TestATextIsShownAsWrittenHoweverItIsPrinted(t *testing.T) {
	text := Text{Written: "Bearer ${TOKEN}", Value: "Bearer s3cr3t-canary"}
	raw, err := json.Marshal(map[string]any{"t": text, "p": &text})
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %s %q %+v %#v %x %s", text, text, text, []Text{text}, text, text, raw)
	if strings.Contains(all, "canary") || strings.Contains(all, fmt.Sprintf("%x", "canary")) {
		t.Error(all)
	}
}

func TestATextIsTakenApartAlongItsLiterals(t *testing.T) {
	for _, tc := range []struct {
		written, value string
		secrets        []string
	}{
		{"plain", "plain", nil},
		{"", "", nil},
		{"${A}", "x", []string{"x"}},
		{"${A}", "", []string{""}},
		{"a${A}b", "axb", []string{"x"}},
		{"${A}-${B}", "x-y", []string{"x", "y"}},
		{"${A}${B}", "xy", []string{"xy", ""}},
		{"${A}/b", "x/b/b", []string{"x/b"}},
		{"$${A}", "${A}", nil},
		{"$${A}${A}", "${A}x", []string{"x"}},
		{"$$${A}", "$${A}", nil},
		{"a$b ${file:/run/x}", "a$b x", []string{"x"}},
		{"does not fit ${A}", "something else", []string{"something else"}},
		{"no variable", "something else", []string{"something else"}},
		{"${A} tail", "x", []string{"x"}},
		{"open ${A", "open ${A", nil},
	} {
		if diff := cmp.Diff(tc.secrets, secretsOf(Text{tc.written, tc.value})); diff != "" {
			t.Errorf("%q = %q (-want +got):\n%s", tc.written, tc.value, diff)
		}
	}
}

func TestTheValueOfATextSurvivesBeingTakenApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var written, value strings.Builder
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			part := rapid.StringMatching(`[a/ {}.-]{0,4}`).Draw(t, "part")
			if rapid.Bool().Draw(t, "secret") {
				written.WriteString("${V}")
			} else {
				written.WriteString(part)
			}
			value.WriteString(part)
		}
		text := Text{Written: written.String(), Value: value.String()}
		var whole strings.Builder
		for _, p := range text.pieces() {
			whole.WriteString(p.value)
		}
		if whole.String() != text.Value {
			t.Fatalf("%+v became %q", text.pieces(), whole.String())
		}
	})
}

func TestTemplatesKnowTheRunAndNothingElse(t *testing.T) {
	try := scheduler.Try{
		Key: "k", Job: "j", Target: "t", ScheduledAt: fireTime, Attempt: 2, LogicalRun: 3, Coalesced: 4,
		WindowFrom: fireTime.Add(-time.Hour), WindowTo: fireTime.Add(time.Millisecond),
	}
	for _, tc := range []struct{ text, want string }{
		{"none", "none"},
		{"{{.Key}} {{.Job}} {{.Target}} {{.ScheduledAt}} {{.Attempt}} {{.LogicalRun}} {{.Coalesced}}", "k j t 2026-11-29T03:00:00Z 2 3 4"},
		{"[{{.WindowFrom}}, {{.WindowTo}})", "[2026-11-29T02:00:00Z, 2026-11-29T03:00:00.001Z)"},
		{`{{.WindowFrom.Format "2006/01/02"}} {{.WindowTo.Unix}}`, "2026/11/29 1795921200"},
		{`{{if eq .Target "t"}}yes{{else}}no{{end}}`, "yes"},
		{`{{$.Key}}{{with .Target}}{{.}}{{end}}{{urlquery "a b"}}`, "kta+b"},
	} {
		var f faults
		p := f.compile("exec.dir", Plain(tc.text), true)
		if f.err() != nil {
			t.Fatal(f.err())
		}
		if got, shown, err := p.render(try); got != tc.want || shown != tc.want && p.tmpl != nil || err != nil {
			t.Errorf("%s: %q, %v", tc.text, got, err)
		}
	}
}

func TestFaultsOfTemplatesAreFoundWhenTheFileIsLoaded(t *testing.T) {
	const known = " (it may name .Key, .Job, .Target, .ScheduledAt, .Attempt, .LogicalRun, .Coalesced)"
	const noSecret = "exec.dir: ${…} has no place inside {{…}} (a secret is never part of a template: write it outside)"
	for _, tc := range []struct {
		text     Text
		windowed bool
		want     string
	}{
		{Plain("{{.Foo}}"), false, "exec.dir: a template knows no field .Foo" + known},
		{Plain("{{$.Foo}}"), false, "exec.dir: a template knows no field .Foo" + known},
		{Plain("{{if false}}{{.Foo}}{{end}}"), false, "exec.dir: a template knows no field .Foo" + known},
		{Plain("{{range $i, $x := .Foo}}{{end}}"), false, "exec.dir: a template knows no field .Foo" + known},
		{Plain(`{{define "x"}}{{.Foo}}{{end}}`), false, "exec.dir: a template knows no field .Foo" + known},
		{Plain("{{.WindowFrom}}"), false, "exec.dir: {{.WindowFrom}}: the job's runs have no window (a window needs runs one at a time: without `overlap: allow` and with `max_instances: 1`)"},
		{Plain("{{.Key.Foo}}"), true, "exec.dir: the template fails: <.Key.Foo>: can't evaluate field Foo in type string"},
		{Plain("{{.Key"), true, "exec.dir: the template cannot be read: unclosed action"},
		{Plain("{{.Key}"), true, `exec.dir: the template cannot be read: bad character U+007D '}'`},
		{Plain("{{nope .Key}}"), true, `exec.dir: the template cannot be read: function "nope" not defined`},
		{Plain("{{template \"x\"}}"), true, "exec.dir: the template fails: "},
		{Plain("a\x00b"), true, "exec.dir: holds a NUL byte"},
		{Text{`{{if eq .Job "${A}"}}x{{end}}`, `{{if eq .Job "s3cr3t-canary"}}x{{end}}`}, true, noSecret},
		{Text{`{{${A}}}`, `{{s3cr3t-canary}}`}, true, noSecret},
		{Text{"{{.Foo}}${A}", "{{.Foo}}s3cr3t-canary"}, false, "exec.dir: a template knows no field .Foo" + known},
	} {
		_, err := NewExec(ExecConfig{Command: words("true"), Dir: tc.text}, Common{Windowed: tc.windowed})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
}

func TestASecretIsNeverReadAsATemplate(t *testing.T) {
	text := Text{Written: "${A}{{.Key}}${B}", Value: "{{.Job}}{{.Key}}\"{{"}
	var f faults
	p := f.compile("exec.dir", text, false)
	if f.err() != nil {
		t.Fatal(f.err())
	}
	value, shown, err := p.render(scheduler.Try{Key: "k", Job: "j"})
	if value != `{{.Job}}k"{{` || shown != "${A}k${B}" || err != nil {
		t.Errorf("%q %q %v", value, shown, err)
	}
	// Nor is a field, and none can pass for a secret's place.
	value, _, err = p.render(scheduler.Try{Key: "{{.Job}}"})
	if value != `{{.Job}}{{.Job}}"{{` || err != nil {
		t.Errorf("%q %v", value, err)
	}
	if _, _, err = p.render(scheduler.Try{Key: mark(0)}); err == nil {
		t.Error("a key with a NUL byte is taken")
	}
}

func TestAllFaultsOfACommandAreToldAtOnce(t *testing.T) {
	_, err := NewExec(ExecConfig{
		Command: words("a", "{{.Foo}}"), Shell: true, Stdin: Plain("{{"),
		Env: map[string]Text{"A=B": Plain(""), "TIDEMARK_KEY": Plain("x"), "OK": Plain("{{.WindowTo}}")},
	}, Common{})
	var got []string
	for _, fault := range FieldErrors(err) {
		got = append(got, fault.Field)
	}
	want := []string{"exec.command", "exec.command", "exec.env.A=B", "exec.env.OK", "exec.env.TIDEMARK_KEY", "exec.stdin"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s\n%v", diff, err)
	}
	if _, err := NewExec(ExecConfig{}, Common{}); err == nil || !strings.HasPrefix(err.Error(), "exec.command: names no program") {
		t.Error(err)
	}
}

func TestMessagesCanBeStoredAnywhere(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "a\x00b\xffc": "a\uFFFDb\uFFFDc",
		strings.Repeat("é", maxMessage): strings.Repeat("é", (maxMessage-3)/2) + "…",
	} {
		if got := message(text); got != want || len(got) > maxMessage {
			t.Errorf("%q", got)
		}
	}
}
