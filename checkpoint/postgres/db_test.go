package postgres_test

import (
	"context"
	"errors"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/tidemarkd/tidemark/checkpoint"
	"github.com/tidemarkd/tidemark/checkpoint/databasetest"
	"github.com/tidemarkd/tidemark/checkpoint/postgres"
	"github.com/tidemarkd/tidemark/internal/pgtest"
)

var _ = flag.Bool("update", false, "take the schema over into testdata")

// TestMain lets the test binary play a worker that is killed.
func TestMain(m *testing.M) {
	if url := os.Getenv("CHECKPOINT_TEST_WORKER"); url != "" {
		db, err := postgres.Open(url, 1)
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
	databasetest.Run(t, func(t *testing.T) databasetest.Fixture { return fixture(t, pgtest.NewDatabase(t)) })
}

func fixture(t *testing.T, url string) databasetest.Fixture {
	exe := func(t *testing.T, command string) [][][]byte {
		t.Helper()
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		results, err := conn.PgConn().Exec(context.Background(), command).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return results[len(results)-1].Rows
	}
	f := databasetest.Fixture{
		Open:  func(t *testing.T) checkpoint.Database { return open(t, url) },
		Exec:  func(t *testing.T, command string) { t.Helper(); exe(t, command) },
		Query: func(t *testing.T, query string) string { t.Helper(); return string(exe(t, query)[0][0]) },
		Schema: `
			SELECT string_agg(line, E'\n' ORDER BY place, line) FROM (
				SELECT 1, format('%s.%s %s%s%s', table_name, column_name, data_type, CASE is_nullable WHEN 'NO' THEN ' NOT NULL' END, ' DEFAULT ' || column_default)
				FROM information_schema.columns WHERE table_schema = 'tidemark'
				UNION ALL SELECT 2, indexdef FROM pg_indexes WHERE schemaname = 'tidemark'
			) AS lines (place, line)`,
		Versions: "tidemark.checkpoint_version",
		Endless:  `INSERT INTO effects VALUES ('x', 1); SELECT pg_sleep(300)`,
		Worker:   func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "CHECKPOINT_TEST_WORKER="+url) },
	}
	f.Running = func(t *testing.T) bool {
		return f.Query(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE '%pg_sleep(300)%' AND pid <> pg_backend_pid()`) != "0"
	}
	return f
}

func open(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(url, 0)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// migrated is a database with Tidemark's schema, and a fixture of it.
func migrated(t *testing.T) (*postgres.DB, databasetest.Fixture, string) {
	t.Helper()
	url := pgtest.NewDatabase(t)
	db := open(t, url)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := fixture(t, url)
	f.Exec(t, `CREATE TABLE public.effects (id text, n integer)`)
	return db, f, url
}

func want(t *testing.T, f databasetest.Fixture, query, value string) {
	t.Helper()
	if got := f.Query(t, query); got != value {
		t.Errorf("%s: %s, want %s", query, got, value)
	}
}

const insert = `INSERT INTO effects VALUES (@key, 1)`

func TestParametersTakeTheTypesOfTheStatement(t *testing.T) {
	db, f, _ := migrated(t)
	f.Exec(t, `CREATE TABLE records (id uuid, tenant integer, at timestamptz, plain timestamp, day date, tags text[], doc jsonb)`)
	f.Exec(t, `INSERT INTO records VALUES ('00000000-0000-0000-0000-000000000001', 42, '2026-11-29 11:30+09', '2026-11-29 02:30', '2026-11-29', '{a,b}', '{"k": 1}')`)
	for i, statement := range []string{
		`UPDATE records SET tenant = 42 WHERE at >= @from AND at < @to AND tenant = @target`,
		`UPDATE records SET tenant = tenant WHERE plain >= @from AND plain < @to`,
		`UPDATE records SET tenant = tenant WHERE at >= @from - interval '1 day' AND day = @from::date`,
		`UPDATE records SET tenant = tenant WHERE date_trunc('hour', @from) = @from AND tags @> ARRAY['a'] AND ARRAY['a'] <@ tags AND doc @? '$.k' AND @attempt = 1`,
		`UPDATE records SET doc = jsonb_build_object('key', @key::text, 'at', @scheduled_at, 'n', @attempt)`,
		`UPDATE records SET tenant = tenant WHERE extract(epoch FROM @to - @from) > 3600 AND E'it\'s @nothing' <> $x$ @nothing $x$ AND "at" = at`,
		`WITH moved AS (DELETE FROM records RETURNING *) INSERT INTO records SELECT * FROM moved`,
		`MERGE INTO records r USING (SELECT @target::integer AS tenant) s ON r.tenant = s.tenant WHEN MATCHED THEN UPDATE SET day = @to::date`,
	} {
		req := databasetest.Request(t, "k"+string(rune('a'+i)), statement)
		req.Target = "42"
		if res, err := db.Once(t.Context(), req); err != nil || res.Rows != 1 {
			t.Errorf("%s: %+v, %v", statement, res, err)
		}
	}
	_, err := db.Once(t.Context(), databasetest.Request(t, "k", `SELECT jsonb_build_object('k', @key)`))
	if err == nil || !strings.Contains(err.Error(), "could not determine data type of parameter $1 [give the parameter a type, such as @key::text] (SQLSTATE 42P18)") {
		t.Error(err)
	}
}

func TestSessionsAreInUTCUnlessTheURLSaysOtherwise(t *testing.T) {
	db, f, address := migrated(t)
	f.Exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Seoul''', current_database()); END $$`)
	const statement = `INSERT INTO effects SELECT current_setting('timezone'), 1`
	if _, err := db.Once(t.Context(), databasetest.Request(t, "a", statement)); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, address+"&TimeZone=Europe/Berlin").Once(t.Context(), databasetest.Request(t, "b", statement)); err != nil {
		t.Fatal(err)
	}
	want(t, f, `SELECT string_agg(id, ' ' ORDER BY id DESC) FROM effects`, "UTC Europe/Berlin")
}

func TestNoticesAreHeard(t *testing.T) {
	db, _, _ := migrated(t)
	var heard []string
	req := databasetest.Request(t, "k", `DO $$ BEGIN RAISE NOTICE 'half of it'; RAISE WARNING 'all'; END $$`)
	req.Notice = func(text string) { heard = append(heard, text) }
	if _, err := db.Once(t.Context(), req); err != nil || strings.Join(heard, "|") != "NOTICE: half of it|WARNING: all" {
		t.Errorf("%q, %v", heard, err)
	}
}

func TestWhatAStatementSetsEndsWithIt(t *testing.T) {
	db, f, _ := migrated(t)
	if _, err := db.Once(t.Context(), databasetest.Request(t, "a", `SET search_path = pg_catalog; SET statement_timeout = '3s'; CREATE TEMP TABLE effects (id text)`)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Once(t.Context(), databasetest.Request(t, "b", insert)); err != nil {
		t.Error(err)
	}
	want(t, f, `SELECT count(*) FROM effects`, "1")
}

// The user of the tests, as of many an installation, is called tidemark.
func TestAUserCalledTidemarkWorksInItsOwnSchema(t *testing.T) {
	_, f, address := migrated(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", `tidemark,public`)
	u.RawQuery = query.Encode()
	if _, err := open(t, u.String()).Once(t.Context(), databasetest.Request(t, "k", `CREATE TABLE made (id text)`)); err != nil {
		t.Fatal(err)
	}
	want(t, f, `SELECT schemaname FROM pg_tables WHERE tablename = 'made'`, "public")
}

func TestErrorsAreClassifiedByTheirClass(t *testing.T) {
	db, _, _ := migrated(t)
	for code, transient := range map[string]bool{
		"08006": true, "40001": true, "40P01": true, "53100": true, "53300": true, "57014": true,
		"22012": false, "23505": false, "42501": false, "XX000": false, "P0001": false, "25006": false, "55P03": false, "58030": false,
	} {
		_, err := db.Once(t.Context(), databasetest.Request(t, "k", `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '`+code+`', MESSAGE = 'the matter', DETAIL = 'with detail', HINT = 'do this'; END $$`))
		var fault *checkpoint.Error
		if !errors.As(err, &fault) || fault.Transient != transient || err.Error() != "run the statement: the matter: with detail [do this] (SQLSTATE "+code+")" {
			t.Errorf("%s: %+v", code, err)
		}
	}
}

func TestASessionThatIsEndedIsTransientAndLeavesNothing(t *testing.T) {
	db, f, _ := migrated(t)
	done := make(chan error)
	go func() {
		_, err := db.Once(context.Background(), databasetest.Request(t, "k", f.Endless))
		done <- err
	}()
	waitFor(t, func() bool { return f.Running(t) })
	f.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	var fault *checkpoint.Error
	if err := <-done; !errors.As(err, &fault) || !fault.Transient {
		t.Errorf("%+v", err)
	}
	want(t, f, `SELECT count(*) FROM effects`, "0")
}

func waitFor(t *testing.T, ok func() bool) {
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

// A frozen worker holds its key's row: the next attempt waits, and takes its
// place when the server has ended it.
func TestTheNextAttemptWaitsForTheOneBefore(t *testing.T) {
	db, f, address := migrated(t)
	frozen, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close(context.Background())
	for _, command := range []string{`BEGIN`, `INSERT INTO tidemark.sql_runs VALUES ('k', '', '', '', now(), null, null, 1)`, `INSERT INTO effects VALUES ('frozen', 1)`} {
		if _, err := frozen.Exec(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() {
		_, err := db.Once(context.Background(), databasetest.Request(t, "k", insert))
		done <- err
	}()
	waitFor(t, func() bool {
		return f.Query(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == "1"
	})
	if _, err := frozen.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = '50ms'`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(t, f, `SELECT string_agg(id, ' ') FROM effects`, "k")
}

func TestASchemaOfAnotherUserNeedsNoRightToCreate(t *testing.T) {
	_, f, address := migrated(t)
	role := "limited_" + f.Query(t, `SELECT current_database()`)
	f.Exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'x'; GRANT INSERT ON effects TO `+role)
	t.Cleanup(func() { f.Exec(t, `DROP OWNED BY `+role+`; DROP ROLE `+role) })
	limited, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, strings.Replace(address, "//"+limited.User, "//"+role, 1))
	_, err = db.Once(t.Context(), databasetest.Request(t, "k", insert))
	if err == nil || !strings.Contains(err.Error(), "permission denied for schema tidemark [the job's user needs USAGE on schema tidemark") {
		t.Error(err)
	}
	f.Exec(t, `GRANT USAGE ON SCHEMA tidemark TO `+role+`; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidemark TO `+role)
	if err := db.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := db.Once(t.Context(), databasetest.Request(t, "k", insert)); err != nil {
		t.Error(err)
	}
}
