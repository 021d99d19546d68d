package config

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tidemarkd/tidemark/internal/executor"
)

// work checks what the job does, and returns which kind it is.
func (c *jobCheck) work() (kind string) {
	var kinds []string
	for _, k := range []string{"exec", "http", "sql"} {
		if c.has(k) {
			kinds = append(kinds, k)
		}
	}
	switch len(kinds) {
	case 0:
		c.failSelf("does nothing", "give it one of exec, http or sql")
		return ""
	case 1:
	default:
		c.fail(kinds[1], "is a second kind of work, beside "+kinds[0], "a job has exactly one of exec, http and sql: make two jobs of it")
	}
	switch {
	case c.Exec != nil && c.Exec.Command != nil:
		c.command()
	case c.SQL != nil:
		c.database()
	}
	for _, fault := range executor.FieldErrors(c.validate()) {
		if c.ok(fault.Field) {
			c.fail(fault.Field, fault.Msg, fault.Hint)
		}
	}
	return kinds[0]
}

// validate asks the kinds of work what they make of their keys.
func (c *jobCheck) validate() error {
	switch common := c.common(); {
	case c.Exec != nil:
		return c.Exec.Validate(common)
	case c.HTTP != nil:
		return c.HTTP.Validate(common)
	case c.SQL != nil:
		return c.SQL.Validate(common)
	}
	return nil
}

// command tells a program with arguments from a line for a shell: the one is a
// list and the other a single text, so that nobody's blanks or quotes are lost.
func (c *jobCheck) command() {
	p, given := c.places["exec.command"]
	if !given || !c.ok("exec.command", "exec.shell") {
		return
	}
	single := p.node.Kind == yaml.ScalarNode
	switch text := p.node.Value; {
	case single && !c.Exec.Shell && strings.ContainsAny(text, " \t\n"):
		c.fail("exec.command", "a single text is a line for a shell", "add shell: true, or write program and arguments as a list")
	case !single && c.Exec.Shell:
		c.fail("exec.command", "with shell: true the command is a single text, not a list", `write command: "…", or leave shell out`)
	}
}

// database checks that the job's database is one of the file's.
func (c *jobCheck) database() {
	name := c.SQL.Database
	if _, known := c.doc.Databases[name]; known || name == "" || !c.ok("sql.database") {
		return
	}
	all := slices.Sorted(maps.Keys(c.doc.Databases))
	hint := "define it under `databases:`"
	if guess := closest(name, all); guess != "" {
		hint = "did you mean " + guess + "?"
	} else if len(all) > 0 {
		hint = "`databases:` has " + orList(all)
	}
	c.fail("sql.database", "unknown database "+printable(name), hint)
}
