package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands are all that people can call, the program itself first.
func commands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			all = append(all, commands(cmd)...)
		}
	}
	return all
}

func TestEveryCommandAnswersHelpWithAnExample(t *testing.T) {
	root := newCLI(&bytes.Buffer{}, &bytes.Buffer{}).rootCommand()
	for _, cmd := range commands(root) {
		path := strings.Fields(cmd.CommandPath())[1:]
		var out, errs bytes.Buffer
		if code := execute(context.Background(), context.Background(), append(path, "--help"), &out, &errs); code != 0 {
			t.Errorf("%s --help exits with %d: %s", cmd.CommandPath(), code, errs.String())
		}
		if !strings.Contains(out.String(), "Examples:\n  ") || !strings.Contains(out.String(), cmd.Example) {
			t.Errorf("%s --help shows no example", cmd.CommandPath())
		}
		if !strings.Contains(cmd.Example, "tidemark "+strings.Join(path, " ")) {
			t.Errorf("the example of %s is of something else:\n%s", cmd.CommandPath(), cmd.Example)
		}
	}
}

// TestReleaseHasItsCommandsAndNoOthers keeps those of later releases out.
func TestReleaseHasItsCommandsAndNoOthers(t *testing.T) {
	root := newCLI(&bytes.Buffer{}, &bytes.Buffer{}).rootCommand()
	var got []string
	for _, cmd := range root.Commands() {
		got = append(got, cmd.Name())
	}
	slices.Sort(got)
	want := strings.Fields("bench cancel check completion health help jobs logs migrate next pause plan run runs schema show status trigger unpause version")
	if !slices.Equal(got, want) {
		t.Errorf("commands are\n%v, want\n%v", got, want)
	}
}

func TestCommandsAreDocumented(t *testing.T) {
	root := newCLI(&bytes.Buffer{}, &bytes.Buffer{}).rootCommand()
	var b strings.Builder
	b.WriteString(docsHead)
	for _, cmd := range commands(root)[1:] {
		if cmd.Name() != "help" {
			writeCommand(&b, cmd)
		}
	}
	golden(t, "../../docs/commands.md", b.String())
}

const docsHead = `# Commands

<!-- Made from the program's own help: go test ./cmd/tidemark -update -->

Every command takes the global flags, and answers ` + "`--help`" + ` with an example.

| flag | environment | means |
| --- | --- | --- |
| ` + "`--config FILE`, `-c`" + ` | ` + "`TIDEMARK_CONFIG`" + ` | the config file; default ` + "`tidemark.yaml`" + ` in the working directory, then ` + "`/etc/tidemark/tidemark.yaml`" + ` |
| ` + "`--store ADDRESS`" + ` | ` + "`TIDEMARK_STORE`" + ` | the store, ` + "`sqlite:FILE` or `postgres://…`" + `; default what the config says, else ` + "`sqlite:tidemark.db`" + ` |
| ` + "`--json`" + ` | | JSON in place of text: field names are stable, times RFC 3339 in UTC, a time or number that is none is null |
| ` + "`--log-level`" + ` | | ` + "`debug`, `info`, `warn` or `error`" + ` |
| ` + "`--log-format`" + ` | | ` + "`console` or `json`" + ` |
| | ` + "`NO_COLOR`" + ` | no colours, also on a terminal |

Commands that read the store need no config file beside ` + "`--store`" + `, and never make a SQLite file.

A time is RFC 3339 (` + "`2026-11-29T03:00:00Z`" + `), ` + "`2026-11-29 03:00` or `2026-11-29`" + ` in UTC, ` + "`now`" + `, or so long ago or from now: ` + "`-2h`, `+1d12h`" + `.

| exit code | means |
| --- | --- |
| 0 | done |
| 1 | the operation failed |
| 2 | the command line means nothing |
| 65 | the key exists with other parameters |
| 69 | the store cannot be reached, written or read, or is of another version |
| 75 | another daemon has the SQLite file or the node's name: try again later |
| 78 | the config has errors |
| 130, 143 | ended by SIGINT, SIGTERM (` + "`run` drains and exits with 0" + `) |

An error is one line on standard error, ` + "`tidemark: what (hint)`" + `; with ` + "`--json`" + ` it is
` + "`{\"error\": {\"code\", \"message\", \"hint\", \"at\"}}`" + `. Errors in the config stand there one a
line, ` + "`file:line:col: job.field: what is wrong (hint)`" + `; with ` + "`--json`, in `error.errors`" + `.
`

func writeCommand(b *strings.Builder, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n```sh\n%s\n```\n", cmd.UseLine()[:len(cmd.UseLine())-len(flagsSuffix(cmd))], text, unindent(cmd.Example))
	var rows []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || cmd.InheritedFlags().Lookup(f.Name) != nil {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := strings.TrimSpace("--" + f.Name + " " + arg)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(usage, "default") && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(usage, "|", `\|`)))
	})
	if len(rows) > 0 {
		b.WriteString("\n| flag | means |\n| --- | --- |\n" + strings.Join(rows, ""))
	}
}

func flagsSuffix(cmd *cobra.Command) string {
	if strings.HasSuffix(cmd.UseLine(), " [flags]") {
		return " [flags]"
	}
	return ""
}

func unindent(example string) string {
	return strings.ReplaceAll(strings.TrimPrefix(example, "  "), "\n  ", "\n")
}
