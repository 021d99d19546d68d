package checkpoint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// rewritten is a statement with parameters as <name>, commands apart by |.
func rewritten(s checkpoint.Statement) string {
	var list []string
	for _, c := range s.Commands {
		list = append(list, strings.TrimSpace(c.Rewrite(func(name string) string { return "<" + name + ">" })))
	}
	return strings.Join(list, "|")
}

func TestAStatementIsTakenApart(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		window     bool
	}{
		{"SELECT 1", "SELECT 1", false},
		{" ;; SELECT 1 ; ; SELECT 2;; -- end", "SELECT 1|SELECT 2", false},
		{"SELECT @from, @to, @key, @job, @target, @scheduled_at, @attempt", "SELECT <from>, <to>, <key>, <job>, <target>, <scheduled_at>, <attempt>", true},
		{"SELECT '@x' || '''@y;' || \"@z\"\"\" || `@b;`", "SELECT '@x' || '''@y;' || \"@z\"\"\" || `@b;`", false},
		{`SELECT E'\'@x' || e'\\' || @key || 'back\' || @job`, `SELECT E'\'@x' || e'\\' || <key> || 'back\' || <job>`, false},
		{"SELECT $$@x;$$ || $tag$@y $$ @z$tag$ || @key", "SELECT $$@x;$$ || $tag$@y $$ @z$tag$ || <key>", false},
		{"SELECT 1 -- @x ; '\n, @key /* @y ; /* ' */ \" */", "SELECT 1 -- @x ; '\n, <key> /* @y ; /* ' */ \" */", false},
		{"SELECT a @> b, a <@ b, a<@b, a @@ b, a@@to_tsquery(b), @ -5, a @? b, a @-@ b", "SELECT a @> b, a <@ b, a<@b, a @@ b, a@@to_tsquery(b), @ -5, a @? b, a @-@ b", false},
		{"SELECT a>=@from AND a< @to AND a=@key AND -@attempt<0 AND a$1 = x$y$z", "SELECT a>=<from> AND a< <to> AND a=<key> AND -<attempt><0 AND a$1 = x$y$z", true},
		{"SELECT @from::date, @to::timestamptz - interval '1 day'", "SELECT <from>::date, <to>::timestamptz - interval '1 day'", true},
		{"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3", "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)|SELECT 3", false},
		{"CREATE TRIGGER t AFTER INSERT ON x BEGIN SELECT CASE WHEN 1 THEN 2 END; SELECT 2; END; SELECT 3", "CREATE TRIGGER t AFTER INSERT ON x BEGIN SELECT CASE WHEN 1 THEN 2 END; SELECT 2; END|SELECT 3", false},
		{"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 3", "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END|SELECT 3", false},
		{"CREATE TABLE t AS SELECT CASE WHEN a THEN b END FROM x; SELECT 3", "CREATE TABLE t AS SELECT CASE WHEN a THEN b END FROM x|SELECT 3", false},
		{"COPY t FROM '/srv/file'; PREPARE p AS SELECT 1", "COPY t FROM '/srv/file'|PREPARE p AS SELECT 1", false},
		{"SELECT 1e5, 0x1F, ünï FROM größe", "SELECT 1e5, 0x1F, ünï FROM größe", false},
	} {
		s, err := checkpoint.ParseStatement(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if got := rewritten(s); got != tc.want || s.UsesWindow() != tc.window {
			t.Errorf("%s:\n got %s\nwant %s", tc.text, got, tc.want)
		}
	}
}

func TestFaultsOfAStatementAreFoundWithoutADatabase(t *testing.T) {
	const params = "@from, @to, @key, @job, @target, @scheduled_at, @attempt"
	const known = "known are " + params + "; an operator @ takes a space behind it"
	const whole = "it runs in one transaction as a whole, with the run's key: leave it out"
	for _, tc := range []struct{ text, want, hint string }{
		{"", "holds no command", ""},
		{" -- nothing\n ; /* at all */ ;", "holds no command", ""},
		{"SELECT @form", "unknown parameter @form", known},
		{"SELECT @From", "unknown parameter @From", known},
		{"SELECT 1,\n  2,\n  @from_date", "line 3: unknown parameter @from_date", known},
		{"SELECT a<@from", "<@from may mean two things", "write < @from for less than, <@ from for the operator"},
		{"SELECT $1", "parameters have names, not numbers", "write " + params},
		{"SELECT 'a", "a quote ' does not end", ""},
		{"SELECT \"a", "a quote \" does not end", ""},
		{"SELECT E'a\\'", "a quote ' does not end", ""},
		{"SELECT $x$ $y$", "a quote $x$ does not end", ""},
		{"SELECT 1 /* /* */", "a comment /* does not end", ""},
		{"begin; SELECT 1", "BEGIN has no place in a statement", whole},
		{"SELECT 1;\nCOMMIT", "line 2: COMMIT has no place in a statement", whole},
		{"/* x */ rollback", "ROLLBACK has no place in a statement", whole},
		{"END", "END has no place in a statement", whole},
		{"SAVEPOINT a", "SAVEPOINT has no place in a statement", whole},
		{"PREPARE TRANSACTION 'x'", "PREPARE has no place in a statement", whole},
		{"COPY t FROM STDIN", "COPY has nobody to copy from or to", "name a file of the server's, or use INSERT"},
		{"CREATE TABLE t (begin int); COMMIT", "a BEGIN has no END", ""},
		{"copy (SELECT 1) to stdout", "COPY has nobody to copy from or to", "name a file of the server's, or use INSERT"},
	} {
		_, err := checkpoint.ParseStatement(tc.text)
		fault, ok := err.(*checkpoint.StatementError)
		if !ok {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		if diff := cmp.Diff([]string{tc.want, tc.hint}, []string{fault.Error(), fault.Hint}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func FuzzParseStatement(f *testing.F) {
	for _, seed := range []string{"SELECT @from;", "E'\\", "$a$", "a<@b", "CREATE x BEGIN ; END;", "/*/**/", "@@@key", "COPY STDIN", "\xff@to"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := checkpoint.ParseStatement(text)
		if err != nil {
			return
		}
		// Nothing is lost but the semicolons between, and what holds no command.
		rest := text
		for _, c := range s.Commands {
			_, after, ok := strings.Cut(rest, c.Text())
			if !ok {
				t.Fatalf("%q is not in %q", c.Text(), rest)
			}
			rest = after
		}
	})
}
