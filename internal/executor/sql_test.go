package executor

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkd/tidemark/checkpoint"
	"github.com/tidemarkd/tidemark/checkpoint/postgres"
	"github.com/tidemarkd/tidemark/checkpoint/sqlite"
	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/scheduler"
)

// place is a job's database.
type place struct {
	db      checkpoint.Database
	exec    func(command string)
	query   func(query string) string
	endless string
}

// places are the two kinds of database that a job may work in.
func places(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.NewDatabase(t)
		db, err := postgres.Open(url, 0)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		test(t, place{
			db: db, endless: `INSERT INTO hourly VALUES ('x', '2026-01-01'); SELECT pg_sleep(300)`,
			exec: func(command string) {
				if _, err := conn.Exec(context.Background(), command); err != nil {
					t.Fatalf("%s: %v", command, err)
				}
			},
			query: func(query string) (value string) {
				if err := conn.QueryRow(context.Background(), query).Scan(&value); err != nil {
					t.Fatalf("%s: %v", query, err)
				}
				return value
			},
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "data.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		raw, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		test(t, place{
			db: db,
			endless: `INSERT INTO hourly VALUES ('x', '2026-01-01');
				WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c`,
			exec: func(command string) {
				if _, err := raw.Exec(command); err != nil {
					t.Fatalf("%s: %v", command, err)
				}
			},
			query: func(query string) (value string) {
				if err := raw.QueryRow(query).Scan(&value); err != nil {
					t.Fatalf("%s: %v", query, err)
				}
				return value
			},
		})
	})
}

func TestAStatementRunsOncePerRun(t *testing.T) {
	places(t, func(t *testing.T, p place) {
		p.exec(`CREATE TABLE records (tenant text, at timestamp)`)
		p.exec(`CREATE TABLE hourly (tenant text, at timestamp)`)
		for _, at := range []string{"02:00:00", "02:59:59.999", "03:00:00", "01:59:59"} {
			p.exec(`INSERT INTO records VALUES ('seoul', '2026-11-29 ` + at + `'), ('busan', '2026-11-29 ` + at + `')`)
		}
		s, err := NewSQL(SQLConfig{
			Database:  "warehouse",
			Statement: "INSERT INTO hourly SELECT tenant, at FROM records WHERE at >= @from AND at < @to AND tenant = @target",
		}, Common{Windowed: true}, p.db)
		if err != nil {
			t.Fatal(err)
		}
		attempt := func(n int) (scheduler.Result, string) {
			try, out := newTry(t)
			try.Attempt, try.WindowFrom, try.WindowTo = n, fireTime.Add(-time.Hour), fireTime
			res := s.Execute(t.Context(), try)
			return res, out.String()
		}
		res, _ := attempt(1)
		if got := outcome(res); got != "- transient=false database warehouse: tidemark's schema is not in it: run `tidemark migrate --database warehouse`" {
			t.Error(got)
		}
		if err := p.db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if res, out := attempt(2); res.Err != nil || out != "2 rows affected\n" {
			t.Errorf("%s, output %q", outcome(res), out)
		}
		// The store did not learn of it: the next attempt finds it done.
		if res, out := attempt(3); res.Err != nil || !strings.HasPrefix(out, "done already by attempt 2 at ") || !strings.HasSuffix(out, "Z, 2 rows affected: not run again\n") {
			t.Errorf("%s, output %q", outcome(res), out)
		}
		if n := p.query(`SELECT count(*) FROM hourly`); n != "2" {
			t.Errorf("%s rows", n)
		}
	})
}

func TestAStatementWhoseTimeIsUpIsRolledBack(t *testing.T) {
	places(t, func(t *testing.T, p place) {
		p.exec(`CREATE TABLE hourly (tenant text, at timestamp)`)
		if err := p.db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := NewSQL(SQLConfig{Database: "warehouse", Statement: p.endless}, Common{}, p.db)
		if err != nil {
			t.Fatal(err)
		}
		try, _ := newTry(t)
		res := s.Execute(within(t, 500*time.Millisecond), try)
		if got := outcome(res); !strings.HasPrefix(got, "- transient=true timed out after ") || !strings.HasSuffix(got, ": the statement was canceled and rolled back") {
			t.Error(got)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(scheduler.ErrLeaseLost)
		if res := s.Execute(ctx, try); !errors.Is(res.Err, scheduler.ErrLeaseLost) {
			t.Error(outcome(res))
		}
		if n := p.query(`SELECT count(*) FROM hourly`); n != "0" {
			t.Errorf("%s rows", n)
		}
	})
}

func TestErrorsOfAStatementAreForItsAuthor(t *testing.T) {
	places(t, func(t *testing.T, p place) {
		if err := p.db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := NewSQL(SQLConfig{Database: "warehouse", Statement: `SELECT * FROM nowhere`}, Common{}, p.db)
		if err != nil {
			t.Fatal(err)
		}
		try, _ := newTry(t)
		got := outcome(s.Execute(t.Context(), try))
		if !strings.HasPrefix(got, "- transient=false database warehouse: run the statement: ") || !strings.Contains(got, "nowhere") {
			t.Error(got)
		}
		other, _ := NewSQL(SQLConfig{Database: "warehouse", Statement: `SELECT 1`}, Common{}, p.db)
		if res := other.Execute(t.Context(), try); res.Err != nil {
			t.Fatal(res.Err)
		}
		changed, _ := NewSQL(SQLConfig{Database: "warehouse", Statement: `SELECT 2`}, Common{}, p.db)
		got = outcome(changed.Execute(t.Context(), try))
		if got != "- transient=false database warehouse: claim the run's key: the key was used for another statement, target or window" {
			t.Error(got)
		}
	})
}

func TestADatabaseThatIsAwayIsWorthARetry(t *testing.T) {
	db, err := postgres.Open("postgres://u:s3cr3t-canary@127.0.0.1:1/db", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSQL(SQLConfig{Database: "warehouse", Statement: `SELECT 1`}, Common{}, db)
	if err != nil {
		t.Fatal(err)
	}
	try, _ := newTry(t)
	if got := outcome(s.Execute(t.Context(), try)); got != "- transient=true database warehouse: connect: connection refused" {
		t.Error(got)
	}
}

func TestFaultsOfAStatementAreFoundWhenTheFileIsLoaded(t *testing.T) {
	const window = "sql.statement: @from and @to: the job's runs have no window (a window needs runs one at a time: without `overlap: allow` and with `max_instances: 1`)"
	for _, tc := range []struct {
		c        SQLConfig
		windowed bool
		want     string
	}{
		{SQLConfig{Statement: "SELECT 1"}, true, "sql.database: names no database (name one of `databases:`)"},
		{SQLConfig{Database: "d"}, true, "sql.statement: holds no command"},
		{SQLConfig{Database: "d", Statement: "SELECT\n@form"}, true, "sql.statement: line 2: unknown parameter @form (known are @from, @to, @key, @job, @target, @scheduled_at, @attempt; an operator @ takes a space behind it)"},
		{SQLConfig{Database: "d", Statement: "SELECT @to"}, false, window},
	} {
		if err := tc.c.Validate(Common{Windowed: tc.windowed}); err == nil || err.Error() != tc.want {
			t.Errorf("%+v:\n got %v\nwant %s", tc.c, err, tc.want)
		}
	}
	if c := (SQLConfig{Database: "d", Statement: "SELECT @from"}); c.Validate(Common{Windowed: true}) != nil || !c.UsesWindow() {
		t.Error("a good statement is refused")
	}
}
