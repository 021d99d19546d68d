package storetest

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func finishTests() []test {
	return []test{
		{"an attempt that ended is recorded with its result", testFinishRecords},
		{"the same end again changes nothing", testFinishTwice},
		{"a stale end changes nothing, its neighbours' count", testFinishStale},
		{"a retry waits its time and keeps its history", testFinishRetry},
		{"a retry of a run to be canceled is no more", testFinishRetryCanceled},
		{"a success moves the watermark, a failure does not", testFinishWatermark},
		{"windows of succeeded runs tile the time line", testWindowsTile},
		{"a success clears what was for review", testFinishReview},
		{"handing back costs no failure and is taken up at once", testHandBack},
		{"ends are answered in their order", testFinishOrder},
	}
}

func testFinishRecords(f *fixture) {
	job := f.create("a")
	run := f.start(job, f.at(-10))
	code := 3
	end := failed(run)
	end.Reason, end.ExitCode, end.Output = jobstore.ReasonTimeout, &code, &jobstore.Output{Head: []byte("\x00\xff"), Tail: []byte("t"), Size: 9}
	got := f.finish(end)[0]
	stored := f.run(run.Key)
	f.same("answer", got, jobstore.Ended{Lease: end.Lease, Run: stored})
	if stored.State != jobstore.Failed || stored.Reason != jobstore.ReasonTimeout || !stored.Review || stored.Failures != 1 ||
		*stored.ExitCode != 3 || stored.Message != end.Message || stored.FinishedAt.IsZero() || !stored.ClaimAt.IsZero() {
		f.Errorf("stored as %+v", stored)
	}
	f.same("output", f.output(run.ID, 1), *end.Output)
	if len(f.attempts(run.Key)) != 0 {
		f.Error("a run's last attempt is told twice")
	}
	target := f.target(job, "")
	if target.LastState != jobstore.Failed || !target.LastFinishedAt.Equal(stored.FinishedAt) || !target.Review || !target.LastSuccessAt.IsZero() {
		f.Errorf("target is %+v", target)
	}
}

func testFinishTwice(f *fixture) {
	run := f.start(f.create("a"), f.at(-10))
	f.finish(succeeded(run))
	stored := f.run(run.Key)
	if again := f.finish(failed(run))[0]; !again.Stale || again.Lease != leaseOf(run) {
		f.Errorf("again: %+v", again)
	}
	f.same("run", f.run(run.Key), stored)
}

func testFinishStale(f *fixture) {
	run, other := f.start(f.create("a"), f.at(-10)), f.start(f.create("b"), f.at(-10))
	before := f.run(run.Key)
	stale := succeeded(run)
	stale.Attempt++
	stale.Output = &jobstore.Output{Head: []byte("no"), Size: 2}
	unknown := succeeded(run)
	unknown.RunID = 1 << 40
	twice := succeeded(other)
	got := f.finish(stale, unknown, succeeded(other), twice)
	for i, want := range []bool{true, true, false, true} {
		if got[i].Stale != want {
			f.Errorf("end %d is stale: %v, want %v", i, got[i].Stale, want)
		}
	}
	f.same("run", f.run(run.Key), before)
	f.same("output", f.output(run.ID, 0), jobstore.Output{})
}

func testFinishRetry(f *fixture) {
	run := f.start(f.create("a"), f.at(-10))
	code := 75
	end := retrying(run, time.Hour)
	end.ExitCode, end.Output = &code, &jobstore.Output{Head: []byte("one"), Size: 3}
	got := f.finish(end)[0].Run
	f.same("stored", f.run(run.Key), got)
	attempts := f.attempts(run.Key)
	if got.State != jobstore.Retrying || got.Failures != 1 || got.Attempt != 1 || !got.FinishedAt.IsZero() ||
		!got.ClaimAt.Equal(attempts[0].FinishedAt.Add(time.Hour)) {
		f.Errorf("retrying run is %+v", got)
	}
	f.same("attempts", attempts, []jobstore.Attempt{{
		Attempt: 1, Node: node, StartedAt: run.AttemptStartedAt, FinishedAt: attempts[0].FinishedAt,
		Outcome: jobstore.AttemptFailed, ExitCode: &code, Message: end.Message,
	}})
	if got := f.claim(9); len(got.Runs) != 0 {
		f.Errorf("claimed before its time: %v", keysOf(got.Runs))
	}
	if again := f.finish(end)[0]; !again.Stale {
		f.Errorf("the same end again: %+v", again)
	}
	now := f.start(f.create("b"), f.at(-10))
	f.finish(retrying(now, 0))
	second := f.claim(9).Runs[0]
	if second.Attempt != 2 || second.Failures != 1 || second.ExitCode != nil || second.Message != "" || !second.StartedAt.Equal(now.StartedAt) {
		f.Errorf("second attempt is %+v", second)
	}
}

func testFinishRetryCanceled(f *fixture) {
	job := f.create("a")
	run := f.start(job, f.at(-10))
	f.fire(9, f.plan(f.job("a"), "", f.at(-5)))
	_, err := f.b.Cancel(f.ctx, run.Key, "ops")
	f.ok(err)
	if got := f.finish(retrying(run, 0))[0].Run; got.State != jobstore.Canceled || got.FinishedAt.IsZero() {
		f.Errorf("ended as %+v", got)
	}
	f.wants(run.Key, jobstore.Canceled, jobstore.ReasonCanceled)
	f.same("next", keysOf(f.claim(9).Runs), []string{jobstore.Key("a", "", f.at(-5))})
}

func testFinishWatermark(f *fixture) {
	job := f.create("a", windowed)
	f.finish(failed(f.start(job, f.at(-30))))
	if got := f.target(job, "").Watermark; !got.Equal(job.LastPlanned) {
		f.Errorf("a failure moved the watermark to %v", got)
	}
	run := f.start(job, f.at(-20))
	if !run.WindowFrom.Equal(job.LastPlanned) {
		f.Errorf("window from %v", run.WindowFrom)
	}
	f.finish(succeeded(run))
	target := f.target(job, "")
	if !target.Watermark.Equal(f.at(-20)) || !target.LastSuccessFire.Equal(f.at(-20)) || target.LastSuccessKey != run.Key ||
		target.LastState != jobstore.Succeeded || target.LastSuccessAt.IsZero() {
		f.Errorf("target is %+v", target)
	}
	own, _, err := f.a.Trigger(f.ctx, jobstore.TriggerRequest{
		Job: "a", Key: "a//manual:own", WindowFrom: f.at(-20), WindowTo: f.at(-1),
	})
	f.ok(err)
	f.claim(9)
	f.finish(succeeded(f.run(own.Key)))
	if got := f.target(job, "").Watermark; !got.Equal(f.at(-20)) {
		f.Errorf("a window of its own moved the watermark to %v", got)
	}
}

func testWindowsTile(f *fixture) {
	f.create("a", windowed)
	from := f.job("a").LastPlanned
	for i := range 12 {
		run := f.start(f.job("a"), f.at(-100+i))
		if !run.WindowFrom.Equal(from) || !run.WindowTo.Equal(f.at(-100+i)) {
			f.Fatalf("run %d has [%v, %v), the last success ended at %v", i, run.WindowFrom, run.WindowTo, from)
		}
		switch i % 4 {
		case 1:
			f.finish(failed(run))
			continue
		case 2:
			f.finish(retrying(run, 0))
			again := f.claim(1).Runs[0]
			if !again.WindowFrom.Equal(run.WindowFrom) || !again.WindowTo.Equal(run.WindowTo) {
				f.Fatalf("a later attempt has another window: %+v", again)
			}
			run = again
		case 3:
			_, err := f.a.Cancel(f.ctx, run.Key, "ops")
			f.ok(err)
			end := succeeded(run)
			end.State, end.Outcome = jobstore.Canceled, jobstore.AttemptCanceled
			f.finish(end)
			continue
		}
		f.finish(succeeded(run))
		from = run.WindowTo
	}
}

func testFinishReview(f *fixture) {
	job := f.create("a")
	other := f.start(f.create("b"), f.at(-10))
	f.finish(failed(other))
	for _, seconds := range []int{-30, -20} {
		f.finish(failed(f.start(job, f.at(seconds))))
	}
	review := jobstore.RunFilter{Review: true}
	if runs, err := f.b.Runs(f.ctx, review); err != nil || len(runs) != 3 {
		f.Fatalf("for review: %v, %v", keysOf(runs), err)
	}
	f.finish(succeeded(f.start(job, f.at(-10))))
	runs, err := f.b.Runs(f.ctx, review)
	f.ok(err)
	f.same("for review", keysOf(runs), []string{other.Key})
	if f.target(job, "").Review || f.run(jobstore.Key("a", "", f.at(-20))).State != jobstore.Failed {
		f.Error("the flag went further than the flag")
	}
}

func testHandBack(f *fixture) {
	run := f.start(f.create("a"), f.at(-10))
	f.finish(jobstore.End{
		Lease: leaseOf(run), State: jobstore.Retrying, Outcome: jobstore.AttemptHandedBack, Reason: jobstore.ReasonHandedBack,
	})
	got := f.claim(9)
	if len(got.Runs) != 1 || len(got.Lost) != 0 || got.Runs[0].Failures != 0 || got.Runs[0].Attempt != 2 {
		f.Errorf("taken up as %+v", got)
	}
	if a := f.attempts(run.Key); len(a) != 1 || a[0].Outcome != jobstore.AttemptHandedBack {
		f.Errorf("attempts are %+v", a)
	}
}

func testFinishOrder(f *fixture) {
	var ends []jobstore.End
	for i := range 20 {
		ends = append(ends, succeeded(f.start(f.create(named(i)), f.at(-10))))
	}
	for i := range 10 {
		ends[i], ends[19-i] = ends[19-i], ends[i]
	}
	for i, got := range f.finish(ends...) {
		if got.Lease != ends[i].Lease || got.Run.ID != ends[i].RunID {
			f.Errorf("answer %d is of run %d, want %d", i, got.Run.ID, ends[i].RunID)
		}
	}
	if got, err := f.a.Finish(f.ctx, nil); err != nil || len(got) != 0 {
		f.Errorf("no ends: %v, %v", got, err)
	}
}
