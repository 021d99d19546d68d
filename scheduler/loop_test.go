package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/jobstore/sqlite"
	"github.com/tidemarkd/tidemark/scheduler"
)

// work is an executor that a test scripts.
type work func(ctx context.Context, try scheduler.Try) scheduler.Result

func (w work) Execute(ctx context.Context, try scheduler.Try) scheduler.Result { return w(ctx, try) }

// quiet is an observer that counts nothing.
type quiet struct{}

func (quiet) Planned(string, *jobstore.Firing, time.Duration) {}
func (quiet) Started(*jobstore.Run, time.Duration)            {}
func (quiet) Attempted(string, jobstore.AttemptOutcome)       {}
func (quiet) Ended(*jobstore.Run)                             {}
func (quiet) Leases(int, int)                                 {}
func (quiet) StoreFailed(string)                              {}

func newJob(t testing.TB, name, expr string, w work, change ...func(*scheduler.Job)) *scheduler.Job {
	t.Helper()
	spec := scheduler.ScheduleSpec{Expressions: []string{expr}, Timezone: "UTC"}
	s, err := scheduler.ParseSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	job := &scheduler.Job{
		Definition: jobstore.Definition{
			Name: name, JSON: []byte("{}"), Hash: name + " " + expr, Schedule: written, Fingerprint: "work",
			Overlap: jobstore.OverlapQueue, Coalesce: jobstore.CoalesceLatest, MaxInstances: 1, Windowed: true,
		},
		Schedule: s, Grace: scheduler.Unlimited, Targets: []string{""}, OnScheduleChange: "supersede", OnResume: jobstore.ResumeSkip,
		Executor: w,
	}
	for _, f := range change {
		f(job)
	}
	return job
}

func all(j *scheduler.Job) {
	j.Coalesce, j.Overlap = jobstore.CoalesceAll, jobstore.OverlapQueueAll
}

// node is a scheduler on a store in memory, in a bubble of virtual time.
type node struct {
	t     *testing.T
	store *sqlite.Store
}

func newNode(t *testing.T) *node {
	t.Helper()
	store, err := sqlite.Open(t.Context(), ":memory:", sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &node{t, store}
}

// run runs a daemon's scheduler for a while, then drains it.
func (n *node) run(d time.Duration, jobs ...*scheduler.Job) {
	n.t.Helper()
	n.runUntil(func(context.Context) { time.Sleep(d) }, jobs...)
}

func (n *node) runUntil(wait func(context.Context), jobs ...*scheduler.Job) {
	n.t.Helper()
	self := jobstore.Node{Name: "n", Instance: fmt.Sprint(time.Now().UnixNano()), Gone: true, StartedAt: time.Now()}
	if err := n.store.Join(n.t.Context(), self); err != nil {
		n.t.Fatal(err)
	}
	s := scheduler.New(n.store, scheduler.Options{
		Node: self, Slots: 8, Grace: 10 * time.Second, Observer: quiet{}, Log: zap.NewNop(),
	})
	if _, err := s.Load(n.t.Context(), jobs, 0); err != nil {
		n.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(n.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx, context.Background()); err != nil {
			n.t.Error(err)
		}
	})
	wait(ctx)
	stop()
	wg.Wait()
}

func (n *node) runs() []jobstore.Run {
	n.t.Helper()
	runs, err := n.store.Runs(n.t.Context(), jobstore.RunFilter{})
	if err != nil {
		n.t.Fatal(err)
	}
	return runs
}

func (n *node) close() {
	ledger, err := n.store.Ledger(n.t.Context())
	if err != nil {
		n.t.Error(err)
	}
	for _, b := range ledger {
		if b.Due != b.Runs+b.Ranges+b.Pruned {
			n.t.Errorf("the ledger of %s does not balance: %+v", b.Job, b)
		}
	}
	if err := n.store.Close(); err != nil {
		n.t.Error(err)
	}
}

func succeed(context.Context, scheduler.Try) scheduler.Result { return scheduler.Result{} }

func TestEveryMinuteIsOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		n.run(2*time.Hour+30*time.Second, newJob(t, "a", "* * * * *", succeed))
		runs := n.runs()
		if len(runs) != 2*60 {
			t.Fatalf("%d runs", len(runs))
		}
		for i, r := range runs {
			if r.State != jobstore.Succeeded || r.Attempt != 1 || r.StartedAt.Before(r.FireTime) || r.StartedAt.Sub(r.FireTime) > time.Second {
				t.Fatalf("%+v", r)
			}
			if i > 0 && !runs[i-1].WindowFrom.Equal(r.WindowTo) {
				t.Fatalf("windows do not tile: %v then %v", r.WindowTo, runs[i-1].WindowFrom)
			}
		}
	})
}

func TestDowntimeIsCaughtUpByTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		latest := newJob(t, "latest", "* * * * *", succeed)
		every := newJob(t, "every", "*/10 * * * *", succeed, all)
		short := newJob(t, "short", "* * * * *", succeed, func(j *scheduler.Job) { j.Grace = 90 * time.Second })
		n.run(5*time.Minute+30*time.Second, latest, every, short)
		time.Sleep(time.Hour)
		n.run(time.Second, latest, every, short)
		got := map[string]int{}
		for _, r := range n.runs() {
			got[r.Job]++
			if r.State != jobstore.Succeeded {
				t.Errorf("%+v", r)
			}
			if r.Job == "latest" && r.Covers != 1 && (r.Covers != 60 || r.Trigger != jobstore.TriggerCatchUp || r.WindowTo.Sub(r.WindowFrom) != time.Hour) {
				t.Errorf("the run after an hour away: %+v", r)
			}
		}
		if got["latest"] != 6 || got["every"] != 6 || got["short"] != 6 {
			t.Errorf("%v", got)
		}
	})
}

func TestARunThatFailsTransientlyIsTriedAgainAndKeepsItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		var tries []scheduler.Try
		job := newJob(t, "a", "0 * * * *", func(_ context.Context, try scheduler.Try) scheduler.Result {
			tries = append(tries, try)
			fmt.Fprintf(try.Output, "attempt %d\n", try.Attempt)
			if try.Attempt < 3 {
				return scheduler.Result{Err: errors.New("not yet"), Transient: true}
			}
			return scheduler.Result{}
		}, func(j *scheduler.Job) {
			j.Retry = scheduler.Retry{MaxAttempts: 3, Initial: time.Minute, Max: time.Hour, Multiplier: 2}
		})
		n.run(2*time.Hour, job)
		run, earlier, err := n.store.Run(t.Context(), tries[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		if run.State != jobstore.Succeeded || run.Attempt != 3 || len(earlier) != 2 || earlier[0].Message != "not yet" {
			t.Fatalf("%+v %+v", run, earlier)
		}
		for _, try := range tries[1:3] {
			if try.Key != tries[0].Key || !try.WindowFrom.Equal(tries[0].WindowFrom) || !try.WindowTo.Equal(tries[0].WindowTo) {
				t.Fatalf("%+v", try)
			}
		}
		if out, err := n.store.Output(t.Context(), run.ID, 0); err != nil || string(out.Head) != "attempt 3\n" {
			t.Fatalf("%q %v", out.Head, err)
		}
	})
}

func TestShutdownHandsBackWhatDoesNotEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		slow := func(ctx context.Context, try scheduler.Try) scheduler.Result {
			if try.Attempt > 1 {
				return scheduler.Result{}
			}
			<-ctx.Done()
			return scheduler.Result{Err: context.Cause(ctx), Transient: true}
		}
		n.run(90*time.Second, newJob(t, "a", "* * * * *", slow))
		runs := n.runs()
		if len(runs) != 1 || runs[0].State != jobstore.Retrying || runs[0].Failures != 0 {
			t.Fatalf("%+v", runs)
		}
		n.run(time.Second, newJob(t, "a", "* * * * *", slow))
		for _, r := range n.runs() {
			if r.State != jobstore.Succeeded {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func TestARunLongerThanItsIntervalUnderQueueAndAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		slow := func(ctx context.Context, _ scheduler.Try) scheduler.Result {
			select {
			case <-time.After(90 * time.Second):
				return scheduler.Result{}
			case <-ctx.Done():
				return scheduler.Result{Err: context.Cause(ctx)}
			}
		}
		queue := newJob(t, "queue", "* * * * *", slow)
		allow := newJob(t, "allow", "* * * * *", slow, func(j *scheduler.Job) {
			j.Overlap, j.MaxInstances, j.Windowed = jobstore.OverlapAllow, 0, false
		})
		start := time.Now().Truncate(time.Minute)
		n.run(6*time.Minute+30*time.Second, queue, allow)
		started := map[string][]time.Duration{}
		for _, r := range n.runs() {
			if !r.StartedAt.IsZero() {
				started[r.Job] = append([]time.Duration{r.StartedAt.Sub(start).Truncate(time.Second)}, started[r.Job]...)
			}
		}
		want := map[string]string{
			"queue": "[1m0s 2m30s 4m0s 5m30s]",
			"allow": "[1m0s 2m0s 3m0s 4m0s 5m0s 6m0s]",
		}
		for job, w := range want {
			if got := fmt.Sprint(started[job]); got != w {
				t.Errorf("%s started at %s, want %s", job, got, w)
			}
		}
	})
}

func TestABacklogUnderQueueIsOneWaitingRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		slow := func(ctx context.Context, _ scheduler.Try) scheduler.Result {
			select {
			case <-time.After(10 * time.Minute):
				return scheduler.Result{}
			case <-ctx.Done():
				return scheduler.Result{Err: context.Cause(ctx)}
			}
		}
		n.run(2*time.Hour, newJob(t, "a", "* * * * *", slow))
		waiting, covered := 0, int64(0)
		for _, r := range n.runs() {
			switch {
			case r.State.Open() && r.Waiting():
				waiting++
			case r.State == jobstore.Succeeded:
				covered += r.Covers
			}
		}
		if waiting > 1 || covered < 90 {
			t.Errorf("%d wait, %d fire times covered", waiting, covered)
		}
	})
}

func TestAForwardClockJumpIsOneCatchUpRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		job := newJob(t, "a", "@every 5s", succeed)
		n.run(time.Minute, job)
		before := len(n.runs())
		time.Sleep(time.Hour)
		n.run(20*time.Second, job)
		if got := len(n.runs()) - before; got < 4 || got > 6 {
			t.Errorf("%d runs after the jump", got)
		}
	})
}

func TestAStartSaysWhatItFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		latest := newJob(t, "latest", "* * * * *", succeed, func(j *scheduler.Job) { j.Grace = 30 * time.Minute })
		fine := newJob(t, "fine", "0 0 1 1 *", succeed)
		cut := newJob(t, "cut", "0 * * * *", succeed)
		n.run(5*time.Minute+30*time.Second, latest, fine, cut)
		// A daemon that was killed while it worked.
		jobs, err := n.store.Jobs(t.Context(), "cut")
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Truncate(time.Minute).UTC()
		if _, err := n.store.Fire(t.Context(), jobstore.FireRequest{Node: "elsewhere", Lease: 30 * time.Second, Slots: 1, Firings: []jobstore.Firing{{
			JobID: jobs[0].ID, Version: jobs[0].Version, LastPlanned: at, NextFire: at.Add(time.Hour), Due: 1,
			Runs: []jobstore.NewRun{{Key: jobstore.Key("cut", "", at), FireTime: at, Trigger: jobstore.TriggerSchedule, NotBefore: at, Covers: 1, WindowTo: at}},
		}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Minute)

		core, logs := observer.New(zap.InfoLevel)
		s := scheduler.New(n.store, scheduler.Options{Node: jobstore.Node{Name: "n"}, Slots: 1, Observer: quiet{}, Log: zap.New(core)})
		loaded, err := s.Load(t.Context(), []*scheduler.Job{latest, fine, cut}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Resume(t.Context(), loaded.State); err != nil {
			t.Fatal(err)
		}
		lines := map[any]map[string]any{}
		for _, e := range logs.All() {
			fields := e.ContextMap()
			lines[fields["job"]] = fields
		}
		if l := lines["latest"]; len(lines) != 3 || l["due"] != int64(50) || l["missed"] != int64(20) || l["coalesced"] != int64(29) || l["runs"] != int64(1) || l["watermark"] == nil || l["last_planned"] == nil || l["last_run"] == nil {
			t.Errorf("%d lines, of latest %v", len(lines), l)
		}
		if l := lines["cut"]; l["take_over"] != int64(1) || l["unfinished"] != jobstore.Key("cut", "", at) || l["attempts_so_far"] != int64(1) {
			t.Errorf("of cut %v", l)
		}
		if l := lines[nil]; l["jobs"] != int64(3) || l["jobs_to_catch_up"] != int64(2) || l["runs_to_create"] != int64(1) || l["runs_to_take_over"] != int64(1) || l["missed"] != int64(20) {
			t.Errorf("summary %v", l)
		}
	})
}
