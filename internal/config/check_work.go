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
	if c.places[kinds[0]].node.Kind == yaml.MappingNode {
		c.validate()
	}
	return kinds[0]
}

// validate asks the kind of work what it makes of its keys. Of fields that were
// found bad before it knows nothing to say.
func (c *jobCheck) validate() {
	var err error
	switch common := c.common(); {
	case c.Exec != nil:
		err = c.Exec.Validate(common)
	case c.HTTP != nil:
		err = c.HTTP.Validate(common)
	case c.SQL != nil:
		err = c.SQL.Validate(common)
	}
	faults := slices.DeleteFunc(executor.FieldErrors(err), func(fault *executor.FieldError) bool {
		return !c.ok(fault.Field)
	})
	for _, fault := range faults {
		c.fail(fault.Field, fault.Msg, fault.Hint)
	}
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
	hint := orElse(didYouMean(name, all), "define it under `databases:`")
	c.fail("sql.database", "unknown database "+printable(name), hint)
}
