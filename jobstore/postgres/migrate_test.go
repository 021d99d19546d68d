package postgres

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

func TestTheSchemaIsTheGoldenOne(t *testing.T) {
	s := open(t)
	lines, err := s.schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile("schema.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != schema {
		t.Errorf("the schema differs from schema.golden (rewrite it with -update):\n%s", got)
	}
}

func TestOfFourThatMigrateAtOnceNoneFails(t *testing.T) {
	url := pgtest.NewDatabase(t)
	var all sync.WaitGroup
	for range 4 {
		s, err := Open(t.Context(), url, Options{MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestCheckSaysWhatIsWrongWithASchema(t *testing.T) {
	tests := []struct {
		name, change string
		want         error
		text         string
	}{
		{"nothing", `SELECT 1`, nil, ""},
		{"an index more", `CREATE INDEX own ON tidemark_runs (node)`, nil, ""},
		{"never migrated", `DROP TABLE tidemark_schema`, jobstore.ErrOldSchema, "version 0"},
		{"older", `DELETE FROM tidemark_schema WHERE version_id > 0`, jobstore.ErrOldSchema, "version 0"},
		{"newer", `INSERT INTO tidemark_schema (version_id, is_applied) VALUES (99, true)`, jobstore.ErrNewerSchema, "version 99"},
		{"no unique key", `ALTER TABLE tidemark_runs DROP CONSTRAINT tidemark_runs_key`, jobstore.ErrDamaged, "index tidemark_runs_key"},
		{"a key that is not unique", `
			ALTER TABLE tidemark_runs DROP CONSTRAINT tidemark_runs_key;
			CREATE INDEX tidemark_runs_key ON tidemark_runs (key)`, jobstore.ErrDamaged, "index tidemark_runs_key"},
		{"an index that was never finished", `
			UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tidemark_runs_claim'::regclass`, jobstore.ErrDamaged, "index tidemark_runs_claim"},
		{"no table", `DROP TABLE tidemark_ranges`, jobstore.ErrDamaged, "column tidemark_ranges.first"},
		{"no column", `ALTER TABLE tidemark_runs DROP COLUMN covers`, jobstore.ErrDamaged, "column tidemark_runs.covers"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			if _, err := s.pool.Exec(t.Context(), `SET allow_system_table_mods = on;`+test.change); err != nil {
				t.Fatal(err)
			}
			err := s.Check(t.Context())
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
			if err := s.Migrate(t.Context()); test.name == "newer" && !errors.Is(err, jobstore.ErrNewerSchema) {
				t.Errorf("migrate: %v", err)
			}
		})
	}
}

func TestACallOnAStoreThatIsNotThereSaysSo(t *testing.T) {
	url := pgtest.NewDatabase(t)
	tests := []struct {
		url  string
		want error
	}{
		{url, jobstore.ErrDamaged}, // no tables
		{strings.Replace(url, "/test_", "/no_such_", 1), jobstore.ErrNoStore},
		{"postgres://tidemark@127.0.0.1:1/x?sslmode=disable", jobstore.ErrUnavailable},
		{"postgres://tidemark@name.invalid/x?connect_timeout=2", jobstore.ErrUnavailable},
	}
	for _, test := range tests {
		s, err := Open(t.Context(), test.url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1}); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", test.url, err, test.want)
		}
	}
	if _, err := Open(t.Context(), "postgres://user:s3cr3t@host:port/x", Options{}); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("an address that is none: %v", err)
	}
}
