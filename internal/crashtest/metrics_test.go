package crashtest

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// sumWith is sum over the series that have the label.
func sumWith(scrape, name, label string) float64 {
	var with []string
	for line := range strings.Lines(scrape) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, label) {
			with = append(with, line)
		}
	}
	return sum(strings.Join(with, ""), regexp.QuoteMeta(name))
}

// Two nodes share ten fire times or so, of which some fail: together they count
// each once, and neither calls the other's work an error.
func TestOverTwoNodesEachRunIsCountedOnce(t *testing.T) {
	t.Parallel()
	store, dir := pgtest.NewDatabase(t), t.TempDir()
	begin := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
	var listens []string
	var daemons []*Daemon
	start := func(node, listen string) *Daemon {
		config := Write(t, dir, node+".yaml", fmt.Sprintf(`
store: %q
listen: %s
node: %s
defaults: {misfire_grace_time: unlimited, coalesce: all, catchup: {max: unlimited}}
jobs:
  mixed:
    schedule: "@every 1s"
    start_at: %s
    end_at: %s
    exec: {shell: true, command: "case $TIDEMARK_SCHEDULED_AT in *[048]Z) exit 1;; esac"}
  daily: {schedule: "@every 24h", exec: {command: ["true"]}}
`, store, listen, node, begin.Format(time.RFC3339), begin.Add(9500*time.Millisecond).Format(time.RFC3339)))
		d := Start(t, dir, config)
		d.AwaitLog(`"listening"`, 30*time.Second)
		return d
	}
	for _, node := range []string{"one", "two"} {
		listens = append(listens, FreeAddress(t))
		daemons = append(daemons, start(node, listens[len(listens)-1]))
	}
	both := func() string { return metricsOf(t, listens[0]) + metricsOf(t, listens[1]) }
	s := open(t, store)
	var runs []jobstore.Run
	Await(t, 40*time.Second, "end of all runs", func() bool {
		runs = runsOf(t, s, "mixed")
		for _, r := range runs {
			if r.State.Open() {
				return false
			}
		}
		return time.Now().After(begin.Add(10*time.Second)) && len(runs) >= 9
	})
	byState, byNode := map[jobstore.State]float64{}, map[string]int{}
	for _, r := range runs {
		byState[r.State]++
		byNode[r.Node]++
		if r.Attempt != 1 {
			t.Errorf("%s took %d attempts", r.Key, r.Attempt)
		}
	}
	if len(runs) > 11 || byState[jobstore.Failed] < 2 || byState[jobstore.Succeeded] < 5 {
		t.Fatalf("%d runs: %v", len(runs), byState)
	}
	t.Logf("runs by state %v, by node %v", byState, byNode)

	counts := func(scrape, name string) string {
		return fmt.Sprint(sumWith(scrape, name, `job_name="mixed",outcome="succeeded"`), sumWith(scrape, name, `job_name="mixed",outcome="failed"`), sumWith(scrape, name, `job_name="mixed"`))
	}
	want := fmt.Sprint(byState[jobstore.Succeeded], byState[jobstore.Failed], float64(len(runs)))
	// A count follows what it counts, and may be some milliseconds behind it.
	Await(t, 5*time.Second, "count of the last run", func() bool { return counts(both(), "tidemark_runs_total") == want })
	scrape := both()
	for _, name := range []string{"tidemark_runs_total", "tidemark_attempts_total"} {
		if got := counts(scrape, name); got != want {
			t.Errorf("%s is %s, the store has %s", name, got, want)
		}
	}
	for _, name := range []string{"tidemark_start_delay_seconds_count", "tidemark_run_duration_seconds_count"} {
		if got := sumWith(scrape, name, `job_name="mixed"`); got != float64(len(runs)) {
			t.Errorf("%s is %v of %d", name, got, len(runs))
		}
	}
	for _, name := range []string{"tidemark_store_errors_total", "tidemark_leases_lost_total", "tidemark_takeovers_total", "tidemark_runs"} {
		if got := sum(scrape, name); got != 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	if next := sumWith(metricsOf(t, listens[0]), "tidemark_next_fire_timestamp_seconds", `job_name="daily"`); next <= float64(time.Now().Unix()) {
		t.Errorf("the next fire time is %v", next)
	}
	success := sumWith(metricsOf(t, listens[0]), "tidemark_last_success_timestamp_seconds", `job_name="mixed"`)
	if age := time.Since(time.UnixMilli(int64(success * 1000))); age < 0 || age > time.Minute {
		t.Errorf("the last success was %v ago", age)
	}
	if other := sumWith(metricsOf(t, listens[1]), "tidemark_last_success_timestamp_seconds", `job_name="mixed"`); other != success {
		t.Errorf("the last success is %v on one node and %v on the other", success, other)
	}
	errors := 0
	for _, d := range daemons {
		d.Signal(syscall.SIGTERM)
		if code := d.Wait(20 * time.Second); code != 0 {
			t.Errorf("exit code %d:\n%s", code, d.Log())
		}
		if d.lines(`"level":"error"`) != d.lines(`"run ended as failed"`) || d.lines(`"level":"warn"`) > 0 {
			t.Errorf("errors in its log that are no failed run:\n%s", d.Log())
		}
		errors += d.lines(`"level":"error"`)
	}
	if errors != int(byState[jobstore.Failed]) {
		t.Errorf("%d errors in both logs, %v runs failed", errors, byState[jobstore.Failed])
	}

	// What must survive a restart comes from the store.
	d := start("one", listens[0])
	scrape = metricsOf(t, listens[0])
	if got := sumWith(scrape, "tidemark_last_success_timestamp_seconds", `job_name="mixed"`); got != success {
		t.Errorf("after a restart the last success is %v, it was %v", got, success)
	}
	if got := sumWith(scrape, "tidemark_runs_total", `job_name="mixed"`); got != 0 {
		t.Errorf("after a restart it has counted %v runs already", got)
	}
	d.Signal(syscall.SIGTERM)
	d.Wait(20 * time.Second)
}
