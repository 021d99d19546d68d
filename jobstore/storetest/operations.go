package storetest

import (
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func operationTests() []test {
	return []test{
		{"a triggered run is a run like others, under its own key", testTrigger},
		{"the same key is one run, with other parameters a conflict", testTriggerTwice},
		{"a triggered run's window reaches to now, unless it has its own", testTriggerWindow},
		{"cancel ends what has not started", testCancelPending},
		{"cancel ends what waits for a retry, and lets the next go", testCancelRetrying},
		{"cancel asks for the end of what runs", testCancelRunning},
		{"what has ended is not canceled", testCancelEnded},
		{"pause and unpause", testPause},
		{"a pause that replaces another keeps its beginning", testPauseReplaced},
		{"what the file pauses, unpause does not end", testPausedByFile},
		{"what nobody knows is not found", testUnknown},
	}
}

func (f *fixture) trigger(job, key string) jobstore.Run {
	f.Helper()
	run, created, err := f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: job, Key: jobstore.ManualKey(job, "", key)})
	f.ok(err)
	if !created {
		f.Fatalf("run %s was there already", run.Key)
	}
	return run
}

func testTrigger(f *fixture) {
	job := f.create("a")
	run, created, err := f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Target: "new", Key: jobstore.ManualKey("a", "new", "k")})
	f.ok(err)
	if !created {
		f.Error("it was not created")
	}
	f.same("run", run, jobstore.Run{
		ID: run.ID, Key: "a/new/manual:k", JobID: job.ID, Job: "a", Target: "new", FireTime: run.CreatedAt, Trigger: jobstore.TriggerManual,
		LogicalRun: 1, State: jobstore.Pending, Covers: 1, NotBefore: run.CreatedAt, ClaimAt: run.CreatedAt, CreatedAt: run.CreatedAt,
	})
	f.same("stored", f.run(run.Key), run)
	if run.CreatedAt.Before(f.base) {
		f.Errorf("created at %v", run.CreatedAt)
	}
	f.target(job, "new")
	f.same("claimed", keysOf(f.claim(9).Runs), []string{run.Key})
	f.same("job", f.job("a"), job)
	if b := f.balanced()["a"]; b.Due != 0 || b.Runs != 0 {
		f.Errorf("a manual run is in the ledger: %+v", b)
	}
}

func testTriggerTwice(f *fixture) {
	f.create("a", windowed)
	f.create("b")
	own := jobstore.TriggerRequest{Job: "a", Key: "a//manual:own", WindowFrom: f.at(-9).Add(time.Microsecond), WindowTo: f.at(-1)}
	for _, req := range []jobstore.TriggerRequest{{Job: "a", Key: "a//manual:k"}, own} {
		first, created, err := f.a.Trigger(f.ctx, req)
		f.ok(err)
		again, twice, err := f.b.Trigger(f.ctx, req)
		f.ok(err)
		if !created || twice {
			f.Errorf("created %v, again %v", created, twice)
		}
		f.same("again", again, first)
	}
	f.finish(succeeded(f.claim(1).Runs[0]))
	if _, created, err := f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Key: "a//manual:k"}); err != nil || created {
		f.Errorf("after its end: %v, %v", created, err)
	}
	other := own
	other.WindowTo = f.at(0)
	none := own
	none.WindowFrom, none.WindowTo = time.Time{}, time.Time{}
	target := own
	target.Target = "x"
	job := own
	job.Job = "b"
	given := own
	given.Key = "a//manual:k"
	for _, req := range []jobstore.TriggerRequest{other, none, target, job, given} {
		_, _, err := f.a.Trigger(f.ctx, req)
		f.is(err, jobstore.ErrConflict)
	}
}

func testTriggerWindow(f *fixture) {
	job := f.create("a", windowed)
	f.finish(succeeded(f.start(job, f.at(-30))))
	manual := f.trigger("a", "k")
	if !manual.WindowTo.Equal(manual.FireTime) {
		f.Errorf("window to %v, asked for at %v", manual.WindowTo, manual.FireTime)
	}
	run := f.claim(1).Runs[0]
	if !run.WindowFrom.Equal(f.at(-30)) || !run.WindowTo.Equal(manual.FireTime) || run.OwnWindow {
		f.Errorf("started as %+v", run)
	}
	f.finish(succeeded(run))
	if got := f.target(job, "").Watermark; !got.Equal(manual.FireTime) {
		f.Errorf("watermark %v", got)
	}
	own, _, err := f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Key: "a//manual:own", WindowFrom: f.at(-99), WindowTo: f.at(-50)})
	f.ok(err)
	run = f.claim(1).Runs[0]
	if run.Key != own.Key || !run.OwnWindow || !run.WindowFrom.Equal(f.at(-99)) || !run.WindowTo.Equal(f.at(-50)) || run.State != jobstore.Running {
		f.Errorf("started as %+v", run)
	}
	_, _, err = f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Key: "a//manual:wrong", WindowFrom: f.at(-50), WindowTo: f.at(-99)})
	if err == nil {
		f.Error("a window that ends before it begins was taken")
	}
	// A new target's watermark begins where planning stands.
	_, _, err = f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Target: "new", Key: "a/new/manual:k"})
	f.ok(err)
	if got := f.target(job, "new").Watermark; !got.Equal(f.job("a").LastPlanned) {
		f.Errorf("watermark %v", got)
	}
}

func testCancelPending(f *fixture) {
	job := f.create("a", overlap(jobstore.OverlapQueueAll, jobstore.CoalesceAll))
	f.fire(0, f.plan(job, "", f.at(-30), f.at(-20), f.at(-10)))
	for _, seconds := range []int{-30, -10} { // one that may be claimed, one that waits
		key := jobstore.Key("a", "", f.at(seconds))
		run, err := f.b.Cancel(f.ctx, key, "ops")
		f.ok(err)
		f.same("canceled", f.wants(key, jobstore.Canceled, jobstore.ReasonCanceled), run)
		if !strings.Contains(run.Message, "ops") || run.FinishedAt.IsZero() || !run.ClaimAt.IsZero() {
			f.Errorf("canceled as %+v", run)
		}
	}
	f.same("next", keysOf(f.claim(9).Runs), []string{jobstore.Key("a", "", f.at(-20))})
	if got := f.target(job, "").LastState; got != jobstore.Canceled {
		f.Errorf("last state %q", got)
	}
	f.balanced()
}

func testCancelRetrying(f *fixture) {
	job := f.create("a")
	run := f.start(job, f.at(-30))
	f.fire(9, f.plan(f.job("a"), "", f.at(-20)))
	f.finish(retrying(run, time.Hour))
	got, err := f.b.Cancel(f.ctx, run.Key, "ops")
	f.ok(err)
	if got.State != jobstore.Canceled || len(f.attempts(run.Key)) != 1 {
		f.Errorf("canceled as %+v", got)
	}
	f.same("next", keysOf(f.claim(9).Runs), []string{jobstore.Key("a", "", f.at(-20))})
}

func testCancelRunning(f *fixture) {
	run := f.start(f.create("a"), f.at(-30))
	for range 2 {
		got, err := f.b.Cancel(f.ctx, run.Key, "ops")
		f.ok(err)
		if got.State != jobstore.Running || !got.CancelRequested || !got.ClaimAt.Equal(run.ClaimAt) {
			f.Errorf("asked: %+v", got)
		}
		f.same("stored", f.run(run.Key), got)
	}
	end := succeeded(run)
	end.State, end.Outcome, end.Reason, end.Message = jobstore.Canceled, jobstore.AttemptCanceled, jobstore.ReasonCanceled, "canceled by ops"
	f.finish(end)
	f.wants(run.Key, jobstore.Canceled, jobstore.ReasonCanceled)

	late := f.start(f.create("b"), f.at(-30))
	_, err := f.b.Cancel(f.ctx, late.Key, "ops")
	f.ok(err)
	f.finish(succeeded(late)) // it was faster
	f.wants(late.Key, jobstore.Succeeded, "")
}

func testCancelEnded(f *fixture) {
	run := f.start(f.create("a"), f.at(-30))
	f.finish(succeeded(run))
	before := f.run(run.Key)
	_, err := f.b.Cancel(f.ctx, run.Key, "ops")
	f.is(err, jobstore.ErrState)
	if !strings.Contains(err.Error(), string(jobstore.Succeeded)) {
		f.Errorf("error %q does not say how it stands", err)
	}
	f.same("run", f.run(run.Key), before)
}

func testPause(f *fixture) {
	before := f.create("a")
	until := f.at(600).Add(time.Microsecond)
	paused, err := f.a.Pause(f.ctx, "a", jobstore.Pause{Until: until, Reason: "moving house", By: "ops"})
	f.ok(err)
	f.same("paused", f.job("a"), paused)
	if paused.Version <= before.Version {
		f.Error("a plan made before the pause would be recorded")
	}
	p := paused.Pause
	if p.At.Before(f.base) || !p.Until.Equal(until) || p.Reason != "moving house" || p.By != "ops" || !p.ResumedAt.IsZero() {
		f.Errorf("pause is %+v", p)
	}
	resumed, err := f.b.Unpause(f.ctx, "a", jobstore.ResumeCatchUp)
	f.ok(err)
	f.same("resumed", f.job("a"), resumed)
	if r := resumed.Pause; r.ResumedAt.Before(p.At) || r.Policy != jobstore.ResumeCatchUp || !r.At.Equal(p.At) {
		f.Errorf("pause is %+v", r)
	}
	_, err = f.b.Unpause(f.ctx, "a", jobstore.ResumeSkip)
	f.is(err, jobstore.ErrState)
	// An end of its own that has come is an end too.
	_, err = f.a.Pause(f.ctx, "a", jobstore.Pause{Until: f.at(-1)})
	f.ok(err)
	_, err = f.b.Unpause(f.ctx, "a", "")
	f.is(err, jobstore.ErrState)
}

func testPauseReplaced(f *fixture) {
	f.create("a")
	first, err := f.a.Pause(f.ctx, "a", jobstore.Pause{Until: f.at(600), Reason: "one", By: "x"})
	f.ok(err)
	second, err := f.b.Pause(f.ctx, "a", jobstore.Pause{Reason: "two", By: "y"})
	f.ok(err)
	f.same("pause", second.Pause, jobstore.Pause{At: first.Pause.At, Reason: "two", By: "y"})
}

func testPausedByFile(f *fixture) {
	f.create("a", func(n *jobstore.NewJob) {
		n.FilePaused, n.Pause = true, jobstore.Pause{At: f.at(-5), Reason: "paused in the file", By: "file"}
	})
	if due, err := f.a.Due(f.ctx, jobstore.DueRequest{Limit: 9}); err != nil || len(due.Jobs) != 0 {
		f.Errorf("it is due: %+v, %v", due, err)
	}
	_, err := f.a.Unpause(f.ctx, "a", "")
	f.is(err, jobstore.ErrState)
	if !strings.Contains(err.Error(), "paused: true") {
		f.Errorf("error %q does not say why", err)
	}
	got, err := f.a.Pause(f.ctx, "a", jobstore.Pause{Until: f.at(-1), By: "ops"})
	f.ok(err)
	f.same("pause", got.Pause, jobstore.Pause{At: f.at(-5), By: "ops"})
}

func testUnknown(f *fixture) {
	f.create("a")
	_, err := f.a.Cancel(f.ctx, "a//nothing", "ops")
	f.is(err, jobstore.ErrNotFound)
	_, _, err = f.a.Run(f.ctx, "a//nothing")
	f.is(err, jobstore.ErrNotFound)
	_, _, err = f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: "b", Key: "b//manual:k"})
	f.is(err, jobstore.ErrNotFound)
	_, err = f.a.Pause(f.ctx, "b", jobstore.Pause{})
	f.is(err, jobstore.ErrNotFound)
	_, err = f.a.Unpause(f.ctx, "b", "")
	f.is(err, jobstore.ErrNotFound)
}
