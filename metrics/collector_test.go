package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/jobstore/sqlite"
	"github.com/tidemarkd/tidemark/metrics"
)

var update = flag.Bool("update", false, "write the golden files")

// scrape is what Prometheus reads.
func scrape(t testing.TB, reg *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	return w.Body.String()
}

// series are the lines of a scrape that carry a value, without it.
func series(scrape string) []string {
	var out []string
	for line := range strings.Lines(scrape) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	return out
}

// bench is a store in memory with a recorder and a collector over it.
type bench struct {
	t        testing.TB
	store    *sqlite.Store
	registry *prometheus.Registry
	recorder *metrics.Recorder
	source   metrics.Source
	failed   []error
}

func newBench(t testing.TB, jobs ...string) *bench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), ":memory:", sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, store: store, registry: prometheus.NewPedanticRegistry()}
	b.recorder = metrics.NewRecorder(b.registry)
	b.source = metrics.Source{
		Store: store, Timeout: 10 * time.Second,
		Overdue: func(jobstore.Job, time.Time) time.Duration { return 0 },
		Current: func(string, string) bool { return true },
		Node:    func() metrics.NodeState { return metrics.NodeState{} },
		Failed:  func(err error) { b.failed = append(b.failed, err) },
	}
	b.sync(func(s jobstore.SyncState) (c jobstore.Changes) {
		for _, job := range jobs {
			c.Create = append(c.Create, jobstore.NewJob{
				Definition: jobstore.Definition{
					Name: job, JSON: []byte("{}"), Hash: job, Schedule: []byte("{}"), Fingerprint: "work",
					Overlap: jobstore.OverlapAllow, Coalesce: jobstore.CoalesceAll, Windowed: true,
				},
				LastPlanned: s.Now.Add(-time.Hour), NextFire: s.Now.Add(time.Second - time.Hour),
			})
		}
		return c
	})
	b.recorder.Reloaded(jobs, time.Now())
	return b
}

func (b *bench) collect() { b.registry.MustRegister(metrics.NewCollector(b.source)) }

func (b *bench) sync(change func(jobstore.SyncState) jobstore.Changes) {
	b.t.Helper()
	if _, err := b.store.Sync(b.t.Context(), func(s jobstore.SyncState) (jobstore.Changes, error) { return change(s), nil }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) job(name string) jobstore.Job {
	b.t.Helper()
	jobs, err := b.store.Jobs(b.t.Context(), name)
	if err != nil || len(jobs) != 1 {
		b.t.Fatal(len(jobs), err)
	}
	return jobs[0]
}

// fire plans the next n seconds of a job for each target, and leases the runs.
func (b *bench) fire(name string, n int, targets ...string) []jobstore.Run {
	b.t.Helper()
	job := b.job(name)
	f := jobstore.Firing{JobID: job.ID, Version: job.Version, Due: int64(n)}
	for i := range n {
		at := job.LastPlanned.Add(time.Duration(i+1) * time.Second)
		for _, target := range targets {
			f.Runs = append(f.Runs, jobstore.NewRun{
				Key: jobstore.Key(name, target, at), Target: target, FireTime: at, NotBefore: at,
				Trigger: jobstore.TriggerSchedule, Covers: 1, WindowTo: at,
			})
		}
		f.LastPlanned, f.NextFire = at, at.Add(time.Second)
	}
	fired, err := b.store.Fire(b.t.Context(), jobstore.FireRequest{Node: "n", Lease: time.Minute, Slots: len(f.Runs), Firings: []jobstore.Firing{f}})
	if err != nil || len(fired.Jobs) != 1 {
		b.t.Fatal(fired, err)
	}
	b.recorder.Planned(name, &f, 0)
	return fired.Leased
}

// finish ends runs, and has the recorder told as the scheduler does.
func (b *bench) finish(state jobstore.State, outcome jobstore.AttemptOutcome, runs ...jobstore.Run) {
	b.t.Helper()
	var ends []jobstore.End
	for i := range runs {
		r := &runs[i]
		b.recorder.Started(r, r.StartedAt.Sub(r.NotBefore))
		ends = append(ends, jobstore.End{Lease: jobstore.Lease{RunID: r.ID, Attempt: r.Attempt}, State: state, Outcome: outcome})
	}
	done, err := b.store.Finish(b.t.Context(), ends)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range done {
		if done[i].Stale {
			b.t.Fatalf("stale: %+v", done[i])
		}
		b.recorder.Attempted(done[i].Run.Job, outcome)
		if !done[i].Run.State.Open() {
			b.recorder.Ended(&done[i].Run)
		}
	}
}

// All of it happens in virtual time, which makes every value a constant.
func TestAWholeScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "nightly", "often")
		defer b.store.Close()
		b.source.Node = func() metrics.NodeState {
			return metrics.NodeState{ClockOffset: -250 * time.Millisecond, Mismatched: []string{"elsewhere", ""}}
		}
		b.source.Overdue = func(job jobstore.Job, after time.Time) time.Duration {
			if job.Name == "often" {
				return 0
			}
			// Its target busan never had a success: it owes what comes after its watermark.
			return job.NextFire.Sub(after)
		}
		b.collect()

		runs := b.fire("often", 4, "")
		time.Sleep(200 * time.Millisecond)
		b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, runs[0], runs[1])
		b.finish(jobstore.Failed, jobstore.AttemptTimedOut, runs[2])
		b.finish(jobstore.Retrying, jobstore.AttemptHandedBack, runs[3])
		runs = b.fire("nightly", 2, "seoul", "busan")
		time.Sleep(time.Minute)
		for _, r := range runs {
			if r.Target == "seoul" {
				b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, r)
			}
		}
		for range 2 {
			if _, _, err := b.store.Trigger(t.Context(), jobstore.TriggerRequest{Job: "often", Key: "often//manual:k"}); err != nil {
				t.Fatal(err)
			}
		}
		b.recorder.Planned("often", &jobstore.Firing{Ranges: []jobstore.Range{
			{Count: 7, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace},
			{Count: 2, Outcome: jobstore.OutcomeCoalesced, Reason: jobstore.ReasonCoalesced},
			{Count: 5, Outcome: jobstore.OutcomeSkipped, Reason: jobstore.ReasonPaused},
		}}, 3*time.Millisecond)
		b.recorder.Ended(&jobstore.Run{Job: "often", State: jobstore.Missed, Reason: jobstore.ReasonDeadline})
		b.recorder.Ended(&jobstore.Run{Job: "often", State: jobstore.Coalesced, Reason: jobstore.ReasonOverlap})
		b.recorder.Leases(1, 2)
		b.recorder.StoreFailed("fire")

		golden(t, "scrape.txt", scrape(t, b.registry))
		if len(b.failed) > 0 {
			t.Error(b.failed)
		}
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Fatalf("%s:%d\n got %s\nwant %s\n(-update writes the file)", path, i+1, g, w)
		}
	}
}

// A thousand of them are in the store, and each is counted ten times.
func TestTenThousandRunsHaveAsManySeriesAsAHundred(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	b := newBench(t, names...)
	defer b.store.Close()
	b.collect()
	count := func(n, more int) []string {
		for _, name := range names {
			runs := b.fire(name, n, "")
			failed, succeeded := runs[:n/4], runs[n/4:]
			b.finish(jobstore.Failed, jobstore.AttemptFailed, failed...)
			b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, succeeded...)
			for range more {
				for i := range succeeded {
					b.recorder.Started(&succeeded[i], time.Second)
					b.recorder.Attempted(name, jobstore.AttemptSucceeded)
					b.recorder.Ended(run(name, jobstore.Succeeded))
				}
			}
		}
		return series(scrape(t, b.registry))
	}
	after100 := count(20, 0)
	after10000 := count(240, 10)
	if len(after100) == 0 || len(after100) != len(after10000) {
		t.Errorf("%d series after 100 runs, %d after 10,000", len(after100), len(after10000))
	}
	if got := scrape(t, b.registry); !strings.Contains(got, `tidemark_runs_total{job_name="e",outcome="succeeded"} 1995`) {
		t.Error(got)
	}
}

// Prometheus renames a label `job` or `instance`; a target or a run would make
// as many series as there are of them.
func TestLabelsAreBounded(t *testing.T) {
	b := newBench(t, "a", "b")
	defer b.store.Close()
	b.source.Node = func() metrics.NodeState { return metrics.NodeState{Mismatched: []string{"b"}} }
	b.collect()
	b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, b.fire("a", 3, "seoul", "busan")...)
	b.fire("b", 1, "seoul")
	known := map[string]bool{"job_name": true, "outcome": true, "state": true, "reason": true, "op": true, "le": true}
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "tidemark_") || family.GetHelp() == "" {
			t.Errorf("%s: %q", family.GetName(), family.GetHelp())
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if !known[label.GetName()] {
					t.Errorf("%s has the label %s", family.GetName(), label.GetName())
				}
				if label.GetValue() == "seoul" || strings.Contains(label.GetValue(), "/") {
					t.Errorf("%s has %s=%q", family.GetName(), label.GetName(), label.GetValue())
				}
			}
		}
	}
}

// broken is a registry of which some calls fail.
type broken struct {
	jobstore.Registry
	agenda, targets, backlog error
}

func (r broken) Agenda(ctx context.Context) ([]jobstore.Job, error) {
	if r.agenda != nil {
		return nil, r.agenda
	}
	return r.Registry.Agenda(ctx)
}

func (r broken) Targets(ctx context.Context) ([]jobstore.Target, error) {
	if r.targets != nil {
		return nil, r.targets
	}
	return r.Registry.Targets(ctx)
}

func (r broken) Backlog(ctx context.Context) (map[string]map[jobstore.State]int64, error) {
	if r.backlog != nil {
		return nil, r.backlog
	}
	return r.Registry.Backlog(ctx)
}

func TestAScrapeWithoutTheStoreStillHasTheNode(t *testing.T) {
	away := fmt.Errorf("read: %w", jobstore.ErrUnavailable)
	for name, store := range map[string]broken{
		"agenda": {agenda: away}, "targets": {targets: away}, "backlog": {backlog: away},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "a")
			defer b.store.Close()
			b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, b.fire("a", 1, "")...)
			store.Registry = b.store
			b.source.Store = store
			b.source.Node = func() metrics.NodeState {
				return metrics.NodeState{ClockOffset: 2 * time.Second, Mismatched: []string{"b"}}
			}
			b.collect()
			got := scrape(t, b.registry)
			for _, line := range []string{
				"tidemark_store_clock_offset_seconds 2", `tidemark_config_mismatch{job_name="b"} 1`,
				`tidemark_runs_total{job_name="a",outcome="succeeded"} 1`, "tidemark_config_last_reload_successful 1",
			} {
				if !strings.Contains(got, line+"\n") {
					t.Errorf("no %s in\n%s", line, got)
				}
			}
			for _, s := range series(got) {
				if strings.HasPrefix(s, "tidemark_overdue_seconds") || strings.HasPrefix(s, "tidemark_dispatch_backlog") || strings.HasPrefix(s, "tidemark_next_fire") {
					t.Errorf("%s comes from half a look at the store", s)
				}
			}
			if len(b.failed) != 1 || !errors.Is(b.failed[0], jobstore.ErrUnavailable) {
				t.Errorf("told of %v", b.failed)
			}
		})
	}
}

func TestATargetThatHasLeftTheFileHoldsUpNothing(t *testing.T) {
	b := newBench(t, "a")
	defer b.store.Close()
	b.source.Current = func(_, target string) bool { return target != "busan" }
	b.source.Overdue = func(_ jobstore.Job, after time.Time) time.Duration {
		if after.IsZero() {
			return time.Hour
		}
		return 0
	}
	b.collect()
	for _, r := range b.fire("a", 1, "seoul", "busan") {
		if r.Target == "seoul" {
			b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, r)
		}
	}
	got := scrape(t, b.registry)
	if !strings.Contains(got, "tidemark_overdue_seconds{job_name=\"a\"} 0\n") || !strings.Contains(got, "tidemark_last_success_timestamp_seconds{job_name=\"a\"}") {
		t.Error(got)
	}
}

// slow is a registry that answers when its caller has given up.
type slow struct{ jobstore.Registry }

func (slow) Agenda(ctx context.Context) ([]jobstore.Job, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAScrapeDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a")
		defer b.store.Close()
		b.source.Store, b.source.Timeout = slow{b.store}, 8*time.Second
		b.collect()
		began := time.Now()
		scrape(t, b.registry)
		if took := time.Since(began); took != 8*time.Second || len(b.failed) != 1 || !errors.Is(b.failed[0], context.DeadlineExceeded) {
			t.Errorf("after %v told of %v", took, b.failed)
		}
	})
}

func ofJob(scrape, job string) []string {
	var out []string
	for _, s := range series(scrape) {
		if strings.Contains(s, `job_name="`+job+`"`) {
			out = append(out, s)
		}
	}
	return out
}
