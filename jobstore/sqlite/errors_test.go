package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, path string
		opts       Options
		want       error
		text       string
	}{
		{"no file", filepath.Join(dir, "none.db"), Options{}, jobstore.ErrNoStore, "none.db"},
		{"no directory", filepath.Join(dir, "no", "x.db"), Options{Create: true}, jobstore.ErrUnavailable, "no such file or directory"},
		{"a directory", dir, Options{Create: true}, jobstore.ErrUnavailable, "it is a directory"},
		{"no database", write("text.db", bytes.Repeat([]byte("not a database\n"), 100)), Options{}, jobstore.ErrDamaged, "text.db"},
		{"no database, for a daemon", write("text2.db", bytes.Repeat([]byte("not a database\n"), 100)), Options{Daemon: true}, jobstore.ErrDamaged, "text2.db"},
		{"no path", "", Options{Create: true}, jobstore.ErrUnavailable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(t.Context(), c.path, c.opts)
			if s != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v and %q", err, c.want, c.text)
			}
		})
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "none*")); len(names) != 0 {
		t.Errorf("a command made %v", names)
	}
}

func TestAFileThatMayNotBeWrittenIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	s := openFile(t, path, Options{Create: true})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.write(t.Context(), func(tx *tx) error {
		_, err := tx.exec(`PRAGMA query_only = 1`)
		if err == nil {
			_, err = tx.exec(sqlSetRevision, 7)
		}
		return err
	})
	if err := translate(err); !errors.Is(err, jobstore.ErrUnavailable) {
		t.Errorf("a write to what is read-only: %v", err)
	}
}

func TestAFullDiskIsUnavailableAndPasses(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "tidemark.db"), Options{Create: true})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	limit := func(pragma string) {
		t.Helper()
		err := s.write(t.Context(), func(tx *tx) error {
			var n int
			return tx.queryRow(pragma).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(`PRAGMA max_page_count = 1`) // as many as there are
	create := func() error {
		_, err := s.Sync(t.Context(), func(jobstore.SyncState) (jobstore.Changes, error) {
			d := jobstore.Definition{Name: "big", JSON: bytes.Repeat([]byte("x"), 1<<20)}
			return jobstore.Changes{Create: []jobstore.NewJob{{Definition: d, LastPlanned: time.Unix(1, 0)}}}, nil
		})
		return err
	}
	if err := create(); !errors.Is(err, jobstore.ErrUnavailable) {
		t.Fatalf("a full disk: %v", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("after it: %v", err)
	}
	limit(`PRAGMA max_page_count = 1000000`)
	if err := create(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestALockHeldTooLongIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	holder := openFile(t, path, Options{Create: true})
	if err := holder.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := openFile(t, path, Options{})
	s.patience = 50 * time.Millisecond
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- holder.write(t.Context(), func(*tx) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	_, err := s.Claim(t.Context(), jobstore.ClaimRequest{Limit: 1})
	if !errors.Is(err, jobstore.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1}); err != nil {
		t.Errorf("a reader waits for a writer: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.write(ctx, func(*tx) error { return nil }); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(translate(err), jobstore.ErrUnavailable) {
		t.Errorf("a caller that does not wait: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), jobstore.ClaimRequest{Limit: 1}); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestADamagedFileIsSaidToBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	s, err := Open(t.Context(), path, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Migrate(t.Context())
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(data); i++ {
		data[i] = 0xAA
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), path, Options{Daemon: true}); !errors.Is(err, jobstore.ErrDamaged) {
		t.Errorf("opened %v: %v", s, err)
	}
}

func TestCheckRefusesASchemaThatIsNotWhole(t *testing.T) {
	for _, c := range []struct {
		change string
		want   error
		text   string
	}{
		{`SELECT 1`, nil, ""},
		{`DROP INDEX tidemark_runs_claim`, jobstore.ErrDamaged, "index tidemark_runs_claim is missing"},
		{`DROP TABLE tidemark_outputs`, jobstore.ErrDamaged, "table tidemark_outputs is missing"},
		{`ALTER TABLE tidemark_jobs DROP COLUMN hash`, jobstore.ErrDamaged, "table tidemark_jobs is not as it was made"},
		{`INSERT INTO tidemark_schema (version_id, is_applied) VALUES (9000, 1)`, jobstore.ErrNewerSchema, ""},
		{`DELETE FROM tidemark_schema WHERE version_id > 0`, jobstore.ErrOldSchema, ""},
		{`DROP TABLE tidemark_schema`, jobstore.ErrOldSchema, ""},
		{`CREATE TABLE somebody_elses (a)`, nil, ""},
	} {
		t.Run(c.change, func(t *testing.T) {
			s := openFile(t, filepath.Join(t.TempDir(), "tidemark.db"), Options{Create: true})
			if err := s.Check(t.Context()); !errors.Is(err, jobstore.ErrOldSchema) {
				t.Errorf("before the migration: %v", err)
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := s.write(t.Context(), func(tx *tx) error { _, err := tx.exec(c.change); return err })
			if err != nil {
				t.Fatal(err)
			}
			err = s.Check(t.Context())
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v and %q", err, c.want, c.text)
			}
			if c.want == jobstore.ErrNewerSchema {
				if err := s.Migrate(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("migrate: %v", err)
				}
			}
		})
	}
}

// The key's uniqueness is part of the table, and goes with it alone.
func TestCheckRefusesRunsWithoutTheirKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	s := openFile(t, path, Options{Create: true})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE copy AS SELECT * FROM tidemark_runs; DROP TABLE tidemark_runs; ALTER TABLE copy RENAME TO tidemark_runs`)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, jobstore.ErrDamaged) || !strings.Contains(err.Error(), "table tidemark_runs is not as it was made") {
		t.Errorf("got %v", err)
	}
}
