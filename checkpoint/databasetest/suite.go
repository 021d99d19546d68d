// Package databasetest is the one suite that every backend of
// checkpoint.Database passes.
package databasetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// Fixture is an empty database without Tidemark's schema.
type Fixture struct {
	Open     func(t *testing.T) checkpoint.Database // a handle of its own; closed by the suite
	Exec     func(t *testing.T, command string)
	Query    func(t *testing.T, query string) string // the one value that it yields
	Versions string                                  // the table of the schema's versions
	Schema   string                                  // a query that yields the schema as text
	// Endless is a command that inserts into effects and then runs until it is
	// canceled.
	Endless string
	// Running reports whether Endless is being run.
	Running func(t *testing.T) bool
	// Worker makes a command that starts the test binary call Work.
	Worker func(cmd *exec.Cmd)
}

// effects counts what statements did.
const effects = `CREATE TABLE effects (id text, n integer CHECK (n < 100))`

var fireTime = time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)

// Request is a run of a statement.
func Request(t *testing.T, key, statement string) checkpoint.OnceRequest {
	t.Helper()
	parsed, err := checkpoint.ParseStatement(statement)
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint.OnceRequest{
		Key: key, Fingerprint: statement, Job: "rollup", Target: "seoul", ScheduledAt: fireTime,
		WindowFrom: fireTime.Add(-time.Hour), WindowTo: fireTime.Add(1500 * time.Microsecond), Attempt: 1, Statement: parsed,
	}
}

const insert = `INSERT INTO effects (id, n) VALUES (@key, 1), (@key, 2)`

// Run runs the suite; fixture makes a new database for every test.
func Run(t *testing.T, fixture func(t *testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture, checkpoint.Database){
		"a statement runs once per key":               runsOnce,
		"of many at once one runs":                    runsOnceAtOnce,
		"what fails leaves nothing":                   leavesNothing,
		"commands are one transaction":                oneTransaction,
		"a key is of one piece of work":               conflict,
		"an ended context cancels and rolls back":     cancels,
		"parameters are bound, times included":        parameters,
		"errors are classified":                       classified,
		"old keys are forgotten":                      prunes,
		"a missing schema is told, and can be healed": missingSchema,
		"migrations may race":                         races,
		"the schema can be installed by hand":         byHand,
		"the schema is the one on record":             onRecord,
		"a newer schema is left alone":                newerSchema,
		"a worker may die at any moment":              crashes,
	} {
		t.Run(name, func(t *testing.T) {
			f := fixture(t)
			db := f.Open(t)
			t.Cleanup(func() { db.Close() })
			f.Exec(t, effects)
			test(t, f, db)
		})
	}
}

func migrate(t *testing.T, db checkpoint.Database) {
	t.Helper()
	if err := db.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// want compares a count of effects.
func want(t *testing.T, f Fixture, query, value string) {
	t.Helper()
	if got := f.Query(t, query); got != value {
		t.Errorf("%s: %s, want %s", query, got, value)
	}
}

func runsOnce(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	req := Request(t, "k1", insert)
	first, err := db.Once(t.Context(), req)
	if err != nil || first.Found || first.Rows != 2 || first.Attempt != 1 || time.Since(first.FinishedAt).Abs() > time.Minute {
		t.Fatalf("%+v, %v", first, err)
	}
	req.Attempt = 2
	again, err := db.Once(t.Context(), req)
	first.Found = true
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		t.Errorf("again (-first +again):\n%s%v", diff, err)
	}
	if other, err := db.Once(t.Context(), Request(t, "k2", insert)); err != nil || other.Found {
		t.Errorf("another key: %+v, %v", other, err)
	}
	want(t, f, `SELECT count(*) FROM effects`, "4")
}

func runsOnceAtOnce(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	var wg sync.WaitGroup
	results := make([]checkpoint.OnceResult, 8)
	errs := make([]error, 8)
	for i := range results {
		wg.Go(func() {
			req := Request(t, "k", insert)
			req.Attempt = i + 1
			results[i], errs[i] = db.Once(context.Background(), req)
		})
	}
	wg.Wait()
	ran := 0
	for i := range results {
		if errs[i] != nil {
			t.Error(errs[i])
		}
		if !results[i].Found {
			ran++
		}
		if results[i].Attempt != results[0].Attempt || results[i].Rows != 2 {
			t.Errorf("%+v, and %+v", results[0], results[i])
		}
	}
	if ran != 1 {
		t.Errorf("%d ran", ran)
	}
	want(t, f, `SELECT count(*) FROM effects`, "2")
}

func leavesNothing(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	if _, err := db.Once(t.Context(), Request(t, "k", `INSERT INTO effects (n) VALUES (100)`)); err == nil {
		t.Fatal("the check constraint holds nothing back")
	}
	if res, err := db.Once(t.Context(), Request(t, "k", insert)); err != nil || res.Found {
		t.Errorf("the next attempt: %+v, %v", res, err)
	}
	want(t, f, `SELECT count(*) FROM effects`, "2")
}

func oneTransaction(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	bad := `INSERT INTO effects VALUES ('a', 1); INSERT INTO effects VALUES ('b', 100)`
	if _, err := db.Once(t.Context(), Request(t, "k1", bad)); err == nil {
		t.Error("the second command did not fail")
	}
	want(t, f, `SELECT count(*) FROM effects`, "0")
	good := `
		-- three; commands
		INSERT INTO effects VALUES ('a;', 1), (';b', 2);
		SELECT count(*) FROM effects;
		CREATE TABLE made AS SELECT * FROM effects;
		UPDATE effects SET n = n + 1 WHERE n = @attempt;`
	if res, err := db.Once(t.Context(), Request(t, "k2", good)); err != nil || res.Rows < 3 {
		t.Errorf("%+v, %v", res, err)
	}
	want(t, f, `SELECT sum(n) FROM effects`, "4")
	want(t, f, `SELECT count(*) FROM made`, "2")
}

func conflict(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	if _, err := db.Once(t.Context(), Request(t, "k", insert)); err != nil {
		t.Fatal(err)
	}
	_, err := db.Once(t.Context(), Request(t, "k", `DELETE FROM effects`))
	wantFault(t, err, checkpoint.ErrConflict, false)
	want(t, f, `SELECT count(*) FROM effects`, "2")
}

// wantFault checks what kind of error it is.
func wantFault(t *testing.T, err, is error, transient bool) {
	t.Helper()
	var fault *checkpoint.Error
	if !errors.As(err, &fault) || is != nil && !errors.Is(err, is) || fault.Transient != transient {
		t.Errorf("%+v, want %v, transient %v", err, is, transient)
	}
}

func cancels(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := db.Once(ctx, Request(t, "k", f.Endless))
		done <- err
	}()
	eventually(t, func() bool { return f.Running(t) })
	began := time.Now()
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	if f.Running(t) {
		t.Error("the statement goes on")
	}
	want(t, f, `SELECT count(*) FROM effects`, "0")
	if res, err := db.Once(t.Context(), Request(t, "k", insert)); err != nil || res.Found {
		t.Errorf("the next attempt: %+v, %v", res, err)
	}
	if _, err := db.Once(ctx, Request(t, "k2", insert)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want(t, f, `SELECT count(*) FROM effects`, "2")
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
}

func parameters(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	f.Exec(t, `CREATE TABLE seen (key text, job text, target text, attempt integer, at timestamp, a timestamp, b timestamp)`)
	req := Request(t, "it's/$1/@from", `
		INSERT INTO seen VALUES (@key, @job, @target, @attempt, @scheduled_at, @from, @to);
		INSERT INTO effects SELECT '@key @nothing', 1 /* @nothing */ WHERE 1 = 1 -- @nothing
		;`)
	req.Target, req.Attempt = `"quo'ted" \ \0`, 7
	if _, err := db.Once(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	want(t, f, `SELECT key || ' ' || job || ' ' || target FROM seen`, "it's/$1/@from rollup "+req.Target)
	want(t, f, `SELECT count(*) FROM seen WHERE attempt = 7 AND at = '2026-11-29 03:00:00' AND a = '2026-11-29 02:00:00' AND b = '2026-11-29 03:00:00.0015'`, "1")
	want(t, f, `SELECT id FROM effects`, "@key @nothing")

	// Windows are half-open, to the microsecond.
	f.Exec(t, `CREATE TABLE records (at timestamp)`)
	for _, at := range []string{"02:00:00", "01:59:59.999999", "02:59:59", "03:00:00.001499", "03:00:00.0015"} {
		f.Exec(t, `INSERT INTO records VALUES ('2026-11-29 `+at+`')`)
	}
	res, err := db.Once(t.Context(), Request(t, "window", `DELETE FROM records WHERE at>=@from AND at< @to`))
	if err != nil || res.Rows != 3 {
		t.Errorf("%+v, %v", res, err)
	}
}

func classified(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	for i, statement := range []string{`INSERT INTO effects VALUES ('a', 100)`, `SELECT * FROM no_such_table`, `nonsense`} {
		_, err := db.Once(t.Context(), Request(t, fmt.Sprint("k", i), statement))
		wantFault(t, err, nil, false)
	}
}

func prunes(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	for i := range 5 {
		if _, err := db.Once(t.Context(), Request(t, fmt.Sprint("k", i), insert)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := db.Prune(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
	if n, err := db.Prune(t.Context(), time.Now().Add(time.Hour)); n != 5 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
}

func missingSchema(t *testing.T, f Fixture, db checkpoint.Database) {
	_, err := db.Once(t.Context(), Request(t, "k", insert))
	wantFault(t, err, checkpoint.ErrNoSchema, false)
	_, err = db.Prune(t.Context(), time.Now())
	wantFault(t, err, checkpoint.ErrNoSchema, false)
	if res, err := checkpoint.AutoMigrate(db).Once(t.Context(), Request(t, "k", insert)); err != nil || res.Rows != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	want(t, f, `SELECT count(*) FROM effects`, "2")
}

func races(t *testing.T, f Fixture, _ checkpoint.Database) {
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			db := f.Open(t)
			defer db.Close()
			if err := db.Migrate(context.Background()); err != nil {
				t.Error(err)
			}
			if _, err := db.Once(context.Background(), Request(t, "k", insert)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want(t, f, `SELECT count(*) FROM effects`, "2")
}

func byHand(t *testing.T, f Fixture, db checkpoint.Database) {
	f.Exec(t, db.DDL())
	migrate(t, db)
	if res, err := db.Once(t.Context(), Request(t, "k", insert)); err != nil || res.Rows != 2 {
		t.Errorf("%+v, %v", res, err)
	}
}

// onRecord compares the schema with testdata/schema.golden, which -update writes.
func onRecord(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	const file = "testdata/schema.golden"
	got := f.Query(t, f.Schema) + "\n"
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	record, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(record), got); diff != "" {
		t.Errorf("schema (-record +got; -update takes it over):\n%s", diff)
	}
}

func newerSchema(t *testing.T, f Fixture, db checkpoint.Database) {
	migrate(t, db)
	f.Exec(t, `INSERT INTO `+f.Versions+` (version_id, is_applied) VALUES (99, true)`)
	wantFault(t, db.Migrate(t.Context()), checkpoint.ErrNewerSchema, false)
}
