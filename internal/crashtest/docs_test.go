package crashtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// root is the repository's top, seen from this package.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the fenced blocks of a page in a language, in order.
func blocks(page, language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

// shell runs a script in dir with the program on the PATH, and as bin/tidemark.
func shell(t *testing.T, dir, script string, env ...string) string {
	t.Helper()
	bin := filepath.Dir(Binary(t))
	if err := os.Symlink(bin, filepath.Join(dir, "bin")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out.String())
	}
	return out.String()
}

// The README's tour, as it stands there, but for the port.
func TestTheTourOfTheReadmeIsTrue(t *testing.T) {
	t.Parallel()
	page := read(t, "README.md")
	_, tour, ok := strings.Cut(page, "\n## Five minutes\n")
	if !ok {
		t.Fatal("the README has no tour any more")
	}
	tour, _, _ = strings.Cut(tour, "\n## ")
	dir := t.TempDir()
	config := strings.Replace(blocks(tour, "yaml")[0], "127.0.0.1:9721", FreeAddress(t), 1)
	if !strings.HasPrefix(config, "# tour.yaml\n") {
		t.Fatal("the tour's first file is tour.yaml")
	}
	Write(t, dir, "tour.yaml", config)
	scripts := blocks(tour, "sh")
	if len(scripts) != 2 {
		t.Fatalf("%d scripts in the tour", len(scripts))
	}
	if out := shell(t, dir, scripts[0]); !strings.Contains(out, "ok: 1 job") {
		t.Error(out)
	}
	// The second start stays in the foreground there; here it is stopped.
	killed := strings.TrimSuffix(scripts[1], "bin/tidemark run -c tour.yaml\n")
	if killed == scripts[1] {
		t.Fatal("the tour ends with the second start")
	}
	shell(t, dir, strings.Replace(killed, "kill -9 $!", "kill -9 $! && wait $! || true", 1))
	d := Start(t, dir, "tour.yaml")
	d.AwaitLog(`"take_over":1`, 20*time.Second)
	d.AwaitLog("catching up", 20*time.Second)
	s := open(t, "sqlite:"+filepath.Join(dir, "tour.db"))
	Await(t, 30*time.Second, "run of what was missed", func() bool {
		for _, r := range runsOf(t, s, "sync") {
			if r.State == jobstore.Succeeded && r.Covers > 1 {
				return true
			}
		}
		return false
	})
	d.Signal(syscall.SIGTERM)
	d.Wait(30 * time.Second)
	checkTiles(t, s, "sync")
	again := false
	for _, r := range runsOf(t, s, "sync") {
		if r.Attempt == 2 {
			again = true
			if out := shell(t, dir, "bin/tidemark show -c tour.yaml "+r.Key); !strings.Contains(out, "lost") && !strings.Contains(out, "handed") {
				t.Error(out)
			}
		}
	}
	if !again {
		t.Error("no run was cut off by kill -9")
	}
	shell(t, dir, "bin/tidemark runs -c tour.yaml")

	// The pages for the on-call engineer: every command in them can be run.
	for _, script := range blocks(read(t, "docs/operations.md"), "sh") {
		shell(t, dir, script, "TIDEMARK_CONFIG=tour.yaml")
	}
}

func TestTheExampleSucceedsWithinAMinute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := strings.ReplaceAll(read(t, "deploy/examples/tidemark.yaml"), "127.0.0.1:9720", FreeAddress(t))
	began := time.Now()
	d := Start(t, dir, Write(t, dir, "tidemark.yaml", text))
	d.AwaitLog(`"listening"`, 30*time.Second)
	s := open(t, "sqlite:"+filepath.Join(dir, "tidemark.db"))
	for _, job := range []string{"hello", "check-health", "measure", "rollup"} {
		Await(t, 90*time.Second, "succeeded run of "+job, func() bool {
			runs, err := s.Runs(t.Context(), jobstore.RunFilter{Job: job, States: []jobstore.State{jobstore.Succeeded}})
			if err != nil {
				t.Fatal(err)
			}
			return len(runs) > 0
		})
		t.Logf("%s after %v", job, time.Since(began).Round(time.Second))
	}
	for _, job := range []string{"hello", "check-health", "measure", "rollup"} {
		for _, r := range runsOf(t, s, job) {
			if r.State == jobstore.Failed {
				t.Errorf("%s failed: %s", r.Key, r.Message)
			}
		}
	}
}

func TestThePostgresExampleDumpsAndRollsUp(t *testing.T) {
	t.Parallel()
	store, warehouse, dir := pgtest.NewDatabase(t), pgtest.NewDatabase(t), t.TempDir()
	conn, err := pgx.Connect(t.Context(), warehouse)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range []string{
		"CREATE TABLE orders (id bigint PRIMARY KEY, created_at timestamptz NOT NULL, amount numeric NOT NULL)",
		"CREATE TABLE orders_hourly (hour timestamptz PRIMARY KEY, orders bigint NOT NULL, total numeric NOT NULL)",
		"INSERT INTO orders SELECT n, timestamptz '2026-02-01 00:00Z' + n * interval '10 minutes', n FROM generate_series(0, 99) n",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.ReplaceAll(read(t, "deploy/examples/postgres.yaml"), "127.0.0.1:9720", FreeAddress(t))
	Write(t, dir, "tidemark.yaml", text)
	env := []string{"TIDEMARK_STORE_URL=" + store, "WAREHOUSE_URL=" + warehouse, "BACKUP_DIR=" + dir}
	d := Start(t, dir, "tidemark.yaml", env...)
	d.AwaitLog(`"listening"`, 30*time.Second)
	for range 2 { // the second has nothing left to roll up
		shell(t, dir, "tidemark trigger rollup-orders --wait", env...)
	}
	var orders, total int64
	if err := conn.QueryRow(t.Context(), "SELECT sum(orders), sum(total) FROM orders_hourly").Scan(&orders, &total); err != nil || orders != 100 || total != 99*50 {
		t.Errorf("%d orders of %d in the rollup, %v", orders, total, err)
	}
	shell(t, dir, "tidemark trigger dump-warehouse --wait", env...)
	dumps, err := filepath.Glob(filepath.Join(dir, "warehouse-*.dump"))
	if err != nil || len(dumps) != 1 {
		t.Fatalf("dumps: %v %v", dumps, err)
	}
	list := shell(t, dir, fmt.Sprintf("pg_restore --list %q || /usr/lib/postgresql/*/bin/pg_restore --list %q", dumps[0], dumps[0]))
	if !strings.Contains(list, "orders_hourly") {
		t.Error(list)
	}
	if strings.Contains(d.Log(), warehouse) {
		t.Error("an address that came from the environment is in the log")
	}
}
