package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemarkd/tidemark/checkpoint"
	"github.com/tidemarkd/tidemark/checkpoint/databasetest"
	"github.com/tidemarkd/tidemark/checkpoint/sqlite"
)

var _ = flag.Bool("update", false, "take the schema over into testdata")

// TestMain lets the test binary play a worker that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("CHECKPOINT_TEST_WORKER"); path != "" {
		db, err := sqlite.Open(path)
		if err != nil {
			panic(err)
		}
		databasetest.Work(db)
		return
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

func TestDatabase(t *testing.T) {
	databasetest.Run(t, func(t *testing.T) databasetest.Fixture {
		f, _ := fixture(t)
		return f
	})
}

// fixture is a file whose name would be something else in a URL.
func fixture(t *testing.T) (databasetest.Fixture, string) {
	path := filepath.Join(t.TempDir(), "data 100% of#it?mode=ro&.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	handle := func(timeout string) *sql.DB {
		raw, err := sql.Open("sqlite", strings.NewReplacer("%", "%25", "#", "%23", "?", "%3f").Replace("file:"+path)+"?_pragma=busy_timeout("+timeout+")")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		return raw
	}
	raw, impatient := handle("10000"), handle("0")
	return databasetest.Fixture{
		Open: func(t *testing.T) checkpoint.Database {
			db, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			return db
		},
		Exec: func(t *testing.T, command string) {
			t.Helper()
			if _, err := raw.Exec(command); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
		},
		Query: func(t *testing.T, query string) (value string) {
			t.Helper()
			if err := raw.QueryRow(query).Scan(&value); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			return value
		},
		Schema: `SELECT group_concat(sql, ';
' ORDER BY name) FROM sqlite_schema WHERE name LIKE 'tidemark%'`,
		Versions: "tidemark_checkpoint_version",
		Endless: `INSERT INTO effects VALUES ('x', 1);
			WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c`,
		Running: func(t *testing.T) bool { // it has the file's write lock
			conn, err := impatient.Conn(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.ExecContext(context.Background(), `BEGIN IMMEDIATE`); err != nil {
				return true
			}
			if _, err := conn.ExecContext(context.Background(), `ROLLBACK`); err != nil {
				t.Error(err)
			}
			return false
		},
		Worker: func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "CHECKPOINT_TEST_WORKER="+path) },
	}, path
}

func TestMigrateMakesTheFileAndNothingElseDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later.db")
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := once(t, db); err == nil || !strings.HasSuffix(err.Error(), ": there is no such file (SQLITE_CANTOPEN)") {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file was made")
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := once(t, db); err != nil {
		t.Error(err)
	}
	nowhere, err := sqlite.Open(filepath.Join(t.TempDir(), "s3cr3t-canary", "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	if err := nowhere.Migrate(t.Context()); err == nil || strings.Contains(err.Error(), "s3cr3t-canary") {
		t.Error(err)
	}
	for _, bad := range []string{"", ":memory:", "file::memory:?cache=shared"} {
		if _, err := sqlite.Open(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func once(t *testing.T, db checkpoint.Database) error {
	_, err := db.Once(t.Context(), databasetest.Request(t, "k", `SELECT 1`))
	return err
}

func TestAnotherWriterIsWaitedFor(t *testing.T) {
	f, path := fixture(t)
	db := f.Open(t)
	defer db.Close()
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "#", "%23", "?", "%3f").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	// Until its time is up …
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := db.Once(ctx, databasetest.Request(t, "k", `SELECT 1`)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	// … or the other has finished.
	done := make(chan error)
	go func() { done <- once(t, db) }()
	if _, err := conn.ExecContext(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTimesCompareWithWhatDatetimeWrites(t *testing.T) {
	f, _ := fixture(t)
	db := f.Open(t)
	defer db.Close()
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Exec(t, `CREATE TABLE records (at TEXT DEFAULT (datetime('2026-11-29 02:30:00')), n INTEGER)`)
	f.Exec(t, `INSERT INTO records (n) VALUES (1)`)
	res, err := db.Once(t.Context(), databasetest.Request(t, "k", `UPDATE records SET n = 2 WHERE at >= @from AND at < @to AND at > datetime(@from, '+10 minutes')`))
	if err != nil || res.Rows != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if got := f.Query(t, fmt.Sprintf(`SELECT window_from || ' ' || window_to FROM %s`, "tidemark_sql_runs")); got != "2026-11-29 02:00:00 2026-11-29 03:00:00.0015" {
		t.Error(got)
	}
}
