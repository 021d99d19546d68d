package crashtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/internal/daemon"
	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// killConfig has a job of every second under each coalescing, whose command
// appends its key to a file.
func killConfig(store, listen, node, dir string) string {
	return fmt.Sprintf(`
store: %q
listen: %s
node: %s
shutdown_grace: 5s
defaults: {misfire_grace_time: unlimited}
jobs:
  every:
    schedule: "@every 1s"
    coalesce: all
    catchup: {max: unlimited}
    exec: {command: "echo $TIDEMARK_KEY $TIDEMARK_ATTEMPT >> %s/every; sleep 0.3", shell: true}
  latest:
    schedule: "@every 1s"
    coalesce: latest
    window: true
    exec: {command: "sleep 0.3; echo $TIDEMARK_KEY $TIDEMARK_ATTEMPT >> %s/latest", shell: true}
`, store, listen, node, dir, dir)
}

func TestKilledTwentyTimesNothingIsLostOrDoubledOnSQLite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "tidemark.db")
	campaign(t, dir, store, 20, "one")
}

func TestKilledTwentyTimesNothingIsLostOrDoubledOnPostgresWithTwoDaemons(t *testing.T) {
	t.Parallel()
	campaign(t, t.TempDir(), pgtest.NewDatabase(t), 20, "one", "two")
}

// campaign runs a daemon for each node, kills them at random moments, lets the
// last ones catch up and drain, and checks the outcome.
func campaign(t *testing.T, dir, store string, kills int, nodes ...string) {
	t.Helper()
	var wg sync.WaitGroup
	daemons := make([]*Daemon, len(nodes))
	for i, node := range nodes {
		config := Write(t, dir, node+".yaml", killConfig(store, FreeAddress(t), node, dir))
		wg.Go(func() {
			for range kills {
				d := Start(t, dir, config)
				// From before it is ready to well into its work.
				<-time.After(time.Duration(100+rand.IntN(2400)) * time.Millisecond)
				d.Kill()
			}
			daemons[i] = Start(t, dir, config)
		})
	}
	wg.Wait()
	for _, d := range daemons {
		d.AwaitLog(`"ready"`, 30*time.Second)
	}
	s := open(t, store)
	Await(t, 90*time.Second, "end of the catching up", func() bool { return caughtUp(t, s) })
	for _, d := range daemons {
		d.Signal(syscall.SIGTERM)
		if code := d.Wait(30 * time.Second); code != 0 {
			t.Errorf("a drained daemon exits with %d:\n%s", code, d.Log())
		}
	}
	checkLedger(t, s)
	checkEverySecond(t, s, dir)
	checkTiles(t, s, "latest")
}

func open(t *testing.T, address string) jobstore.Store {
	t.Helper()
	s, err := daemon.OpenStore(t.Context(), address, daemon.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func runsOf(t *testing.T, s jobstore.Store, job string) []jobstore.Run {
	t.Helper()
	runs, err := s.Runs(t.Context(), jobstore.RunFilter{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// caughtUp reports whether no more than the newest two runs of `every` are open.
func caughtUp(t *testing.T, s jobstore.Store) bool {
	open := 0
	for _, r := range runsOf(t, s, "every") {
		if r.State.Open() {
			open++
		}
	}
	return open <= 2
}

func checkLedger(t *testing.T, s jobstore.Store) {
	t.Helper()
	ledger, err := s.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range ledger {
		if b.Due == 0 || b.Due != b.Runs+b.Ranges+b.Pruned {
			t.Errorf("the ledger does not balance: %+v", b)
		}
	}
}

// checkEverySecond: every second has exactly one run; the key of every
// succeeded run is in the file; a key in it twice is another attempt.
func checkEverySecond(t *testing.T, s jobstore.Store, dir string) {
	t.Helper()
	written, err := os.ReadFile(filepath.Join(dir, "every"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(written)), "\n") {
		key, attempt, _ := strings.Cut(line, " ")
		if lines[key] == nil {
			lines[key] = map[string]bool{}
		}
		if lines[key][attempt] {
			t.Errorf("attempt %s of %s was made twice", attempt, key)
		}
		lines[key][attempt] = true
	}
	runs := runsOf(t, s, "every")
	seconds := map[time.Time]bool{}
	again := 0
	for _, r := range runs {
		if seconds[r.FireTime] {
			t.Errorf("two runs at %v", r.FireTime)
		}
		seconds[r.FireTime] = true
		if r.State == jobstore.Succeeded && lines[r.Key] == nil {
			t.Errorf("%s succeeded, and its key is not in the file", r.Key)
		}
		if n := len(lines[r.Key]); n > r.Attempt {
			t.Errorf("%s is in the file %d times after %d attempts", r.Key, n, r.Attempt)
		}
		if len(lines[r.Key]) > 1 {
			again++
		}
	}
	first, last := runs[len(runs)-1].FireTime, runs[0].FireTime
	for at := first; !at.After(last); at = at.Add(time.Second) {
		if !seconds[at] {
			t.Errorf("no run at %v", at)
		}
	}
	t.Logf("%d seconds, each with one run; %d keys written by more than one attempt", len(seconds), again)
}

// checkTiles: the windows of succeeded runs tile the time line.
func checkTiles(t *testing.T, s jobstore.Store, job string) {
	t.Helper()
	var newer *jobstore.Run
	runs := runsOf(t, s, job)
	tiles := 0
	for i := range runs {
		r := &runs[i]
		if r.State != jobstore.Succeeded {
			continue
		}
		if newer != nil && !newer.WindowFrom.Equal(r.WindowTo) {
			t.Errorf("%s ends at %v, %s begins at %v", r.Key, r.WindowTo, newer.Key, newer.WindowFrom)
		}
		newer = r
		tiles++
	}
	if tiles < 3 {
		t.Errorf("only %d runs of %s succeeded", tiles, job)
	}
	t.Logf("%d windows tile", tiles)
}
