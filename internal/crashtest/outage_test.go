package crashtest

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// sum adds up the series of a metric in a scrape.
func sum(scrape, name string) float64 {
	total := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(scrape, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		total += v
	}
	return total
}

// The store is away for a while: the daemon says so, what runs goes on, and
// afterwards nothing is missing.
func TestTheDaemonOutlivesItsDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	dir, listen := t.TempDir(), FreeAddress(t)
	d := Start(t, dir, Write(t, dir, "tidemark.yaml", fmt.Sprintf(`
store: %q
listen: %s
node: one
defaults: {misfire_grace_time: 5m, coalesce: latest}
jobs:
  often: {schedule: "@every 1s", window: true, exec: {command: ["true"]}}
  long:
    schedule: "@at %s"
    misfire_grace_time: 1h
    exec: {command: "sleep 14; echo end", shell: true}
`, server.URL(), listen, time.Now().UTC().Format(time.RFC3339))))
	d.AwaitLog(`"listening"`, 30*time.Second)
	base := "http://" + listen
	Await(t, 30*time.Second, "ready daemon", func() bool { code, _ := get(t, base+"/readyz"); return code == http.StatusOK })

	server.Kill()
	Await(t, 30*time.Second, "red /readyz", func() bool { code, _ := get(t, base+"/readyz"); return code == http.StatusServiceUnavailable })
	if code, _ := get(t, base+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d while the store is away", code)
	}
	Await(t, 30*time.Second, "store error in the metrics", func() bool {
		_, scrape := get(t, base+"/metrics")
		return sum(scrape, "tidemark_store_errors_total") > 0
	})
	outage := time.Now()
	<-time.After(6 * time.Second)
	server.Start()
	back := time.Now()

	s := open(t, server.URL())
	Await(t, 15*time.Second, "runs after the outage", func() bool {
		for _, r := range runsOf(t, s, "often") {
			if r.State == jobstore.Succeeded && r.FinishedAt.After(back) {
				return true
			}
		}
		return false
	})
	if took := time.Since(back); took > 10*time.Second {
		t.Errorf("runs went on %v after the database was back", took)
	}
	Await(t, 40*time.Second, "end of the long run", func() bool {
		runs := runsOf(t, s, "long")
		return len(runs) == 1 && runs[0].State == jobstore.Succeeded
	})
	if run := runsOf(t, s, "long")[0]; run.Attempt != 1 || run.FinishedAt.Before(outage) {
		t.Errorf("an outage is no reason to begin again on the only node: %+v", run)
	}
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(40 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	checkLedger(t, s)
	checkTiles(t, s, "often")
	if strings.Contains(d.Log(), "panic") {
		t.Error(d.Log())
	}
}

// All connections are cut, again and again: one run per second all the same.
func TestCutConnectionsLoseNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	dir := t.TempDir()
	d := Start(t, dir, Write(t, dir, "tidemark.yaml", fmt.Sprintf(`
store: %q
listen: %s
node: one
defaults: {misfire_grace_time: unlimited}
jobs:
  every: {schedule: "@every 1s", coalesce: all, catchup: {max: unlimited}, exec: {command: ["true"]}}
`, server.URL(), FreeAddress(t))))
	d.AwaitLog(`"listening"`, 30*time.Second)
	for range 12 {
		<-time.After(700 * time.Millisecond)
		server.Terminate()
	}
	s := open(t, server.URL())
	before := time.Now()
	Await(t, 30*time.Second, "run after the last cut", func() bool {
		runs := runsOf(t, s, "every")
		return len(runs) > 0 && runs[0].FireTime.After(before) && runs[0].State == jobstore.Succeeded
	})
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(40 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	checkLedger(t, s)
	runs := runsOf(t, s, "every")
	for i := 1; i < len(runs); i++ {
		if runs[i-1].FireTime.Sub(runs[i].FireTime) != time.Second {
			t.Errorf("%v follows %v", runs[i-1].FireTime, runs[i].FireTime)
		}
	}
}
