package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemarkd/tidemark/jobstore"
)

func registryTests() []test {
	return []test{
		{"a job is stored with all that its definition says", testJobRoundTrip},
		{"an update replaces the definition and leaves the place on the time line", testUpdate},
		{"a decision that fails changes nothing", testDecideFails},
		{"the revision only grows", testRevision},
		{"what was decided is applied as a whole or not at all", testSyncAtomic},
		{"a renamed job keeps its state, history and watermark", testRename},
		{"names pass from one job to another in one reload, in any order", testNamesPass},
		{"a removed job ends what waits and lets go on what runs", testRemove},
		{"what a removed job left behind is canceled when its lease or delay has ended", testRemovedLeftBehind},
		{"a job that comes back continues its watermark", testComesBack},
		{"what an old definition owes is recorded, of a paused job too", testOwed},
		{"more instances let waiting runs go at once", testMoreInstances},
		{"the backlog counts open runs by job and state", testBacklog},
	}
}

func testJobRoundTrip(f *fixture) {
	at := f.base.Add(123456 * time.Microsecond)
	n := jobstore.NewJob{
		Definition: jobstore.Definition{
			Name: "täglich", JSON: []byte(`{"command":"é \u0000"}`), Hash: "h", Schedule: []byte(`{"expressions":["* * * * *"]}`),
			Fingerprint: "f", Overlap: jobstore.OverlapQueueAll, Coalesce: jobstore.CoalesceAll, MaxInstances: 3,
			Windowed: true, UsesWindow: true, WatermarkStart: at, FilePaused: true,
		},
		LastPlanned: at, NextFire: at.Add(time.Microsecond),
		Pause: jobstore.Pause{At: at, Reason: "paused in the file", By: "file"},
	}
	state := f.sync(jobstore.Changes{Create: []jobstore.NewJob{n}})
	got := f.job("täglich")
	want := jobstore.Job{Definition: n.Definition, Version: got.Version, LastPlanned: at, NextFire: n.NextFire, Pause: n.Pause}
	f.same("job", cmp.Diff(want, got, cmpopts.IgnoreFields(jobstore.Job{}, "ID", "CreatedAt", "CountsFrom")), "")
	f.same("Sync returns what Jobs lists", state.Jobs, []jobstore.Job{got})
	if got.CreatedAt.Before(f.base) || got.CreatedAt.Location() != time.UTC || got.LastPlanned.Location() != time.UTC {
		f.Errorf("created at %v, last planned %v", got.CreatedAt, got.LastPlanned)
	}
	_, err := f.a.Sync(f.ctx, func(jobstore.SyncState) (jobstore.Changes, error) {
		return jobstore.Changes{Create: []jobstore.NewJob{n}}, nil
	})
	f.is(err, jobstore.ErrConflict)
	if jobs, err := f.a.Jobs(f.ctx, "nobody"); err != nil || len(jobs) != 0 {
		f.Errorf("an unknown job: %v, %v", jobs, err)
	}
	never := f.create("never", func(n *jobstore.NewJob) { n.NextFire = time.Time{} })
	if !never.NextFire.IsZero() || !never.WatermarkStart.IsZero() || !never.Pause.At.IsZero() {
		f.Errorf("zero times came back as %+v", never)
	}
	agenda, err := f.a.Agenda(f.ctx)
	if err != nil || len(agenda) != 2 {
		f.Fatalf("%+v, %v", agenda, err)
	}
	got.JSON, got.Schedule = nil, nil
	brief := agenda[slices.IndexFunc(agenda, func(j jobstore.Job) bool { return j.ID == got.ID })]
	brief.JSON, brief.Schedule = nil, nil
	f.same("the agenda's job", brief, got)
}

func testUpdate(f *fixture) {
	job := f.create("a")
	f.fire(0, f.plan(job, "", f.at(-10)))
	job = f.job("a")

	u := update(job)
	u.JSON, u.Hash, u.Fingerprint, u.Coalesce = []byte(`{"v":2}`), "h2", "f2", jobstore.CoalesceEarliest
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{u}})
	got := f.job("a")
	if got.Hash != "h2" || string(got.JSON) != `{"v":2}` || got.Fingerprint != "f2" || got.Coalesce != jobstore.CoalesceEarliest {
		f.Errorf("definition is %+v", got.Definition)
	}
	if !got.LastPlanned.Equal(job.LastPlanned) || !got.NextFire.Equal(job.NextFire) || got.Due != 1 {
		f.Errorf("the place on the time line moved: %+v", got)
	}
	if got.Version <= job.Version {
		f.Errorf("version %d after %d", got.Version, job.Version)
	}
	if n := len(f.fire(0, f.plan(job, "", f.at(-5))).Jobs); n != 0 {
		f.Error("a plan made by the old definition was recorded")
	}

	u = update(got)
	u.Reschedule, u.LastPlanned, u.NextFire = true, f.at(-1), f.at(-1)
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{u}})
	if got := f.job("a"); !got.LastPlanned.Equal(f.at(-1)) || !got.NextFire.Equal(f.at(-1)) {
		f.Errorf("not rescheduled: %+v", got)
	}
	if due, err := f.b.Due(f.ctx, jobstore.DueRequest{Limit: 9}); err != nil || len(due.Jobs) != 1 {
		f.Errorf("the rescheduled job is not due: %+v, %v", due, err)
	}
}

func testDecideFails(f *fixture) {
	job := f.create("a")
	no := errors.New("no")
	_, err := f.a.Sync(f.ctx, func(s jobstore.SyncState) (jobstore.Changes, error) {
		f.same("state", s.Jobs, []jobstore.Job{job})
		return jobstore.Changes{Remove: []int64{job.ID}}, no
	})
	f.is(err, no)
	f.same("job", f.job("a"), job)
}

func testRevision(f *fixture) {
	for _, c := range []struct{ load, want int64 }{{0, 0}, {7, 7}, {3, 7}, {9, 9}} {
		if got := f.sync(jobstore.Changes{Revision: c.load}).Revision; got != c.want {
			f.Errorf("after revision %d the highest is %d, want %d", c.load, got, c.want)
		}
	}
}

func testSyncAtomic(f *fixture) {
	job := f.create("a")
	_, err := f.a.Sync(f.ctx, func(jobstore.SyncState) (jobstore.Changes, error) {
		return jobstore.Changes{Revision: 5, Remove: []int64{job.ID}, Create: []jobstore.NewJob{f.newJob("b"), f.newJob("b")}}, nil
	})
	f.is(err, jobstore.ErrConflict)
	f.same("state", f.sync(jobstore.Changes{}).Jobs, []jobstore.Job{job})
	if got := f.sync(jobstore.Changes{}).Revision; got != 0 {
		f.Errorf("revision %d of a load that failed", got)
	}
}

func testRename(f *fixture) {
	job := f.create("old", windowed)
	run := f.start(job, f.at(-10))
	f.finish(succeeded(run))
	job = f.job("old")
	u := update(job)
	u.Name = "new"
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{u}})

	if got := f.job("new"); got.ID != job.ID || got.Due != 1 {
		f.Errorf("renamed job is %+v", got)
	}
	if got := f.run(run.Key); got.Job != "new" || got.Key != jobstore.Key("old", "", f.at(-10)) {
		f.Errorf("its run is %s of %s", got.Key, got.Job)
	}
	if runs, err := f.a.Runs(f.ctx, jobstore.RunFilter{Job: "new"}); err != nil || len(runs) != 1 {
		f.Errorf("listed under the new name: %v, %v", runs, err)
	}
	if got := f.target(job, "").Watermark; !got.Equal(f.at(-10)) {
		f.Errorf("watermark %v", got)
	}
	// The same instant under the new name is the same run: nothing new.
	renamed := f.job("new")
	f.fire(9, f.plan(renamed, "", f.at(-10)))
	if runs, err := f.a.Runs(f.ctx, jobstore.RunFilter{}); err != nil || len(runs) != 1 {
		f.Errorf("an instant ran under two names: %v, %v", keysOf(runs), err)
	}
	f.balanced()
}

func testNamesPass(f *fixture) {
	a, b := f.create("a"), f.create("b")
	ua, ub := update(a), update(b)
	ua.Name, ub.Name = "b", "a"
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{ua, ub}})
	if f.job("a").ID != b.ID || f.job("b").ID != a.ID {
		f.Error("two names were not exchanged")
	}
	ub = update(f.job("a"))
	ub.Name = "c"
	f.sync(jobstore.Changes{Create: []jobstore.NewJob{f.newJob("a")}, Update: []jobstore.JobUpdate{ub}})
	if id := f.job("a").ID; id == a.ID || id == b.ID || f.job("c").ID != b.ID {
		f.Error("a name that a rename freed did not go to a new job")
	}
}

func testRemove(f *fixture) {
	job := f.create("a", windowed)
	running := f.start(job, f.at(-30))
	f.fire(0, f.plan(f.job("a"), "", f.at(-20)))
	f.sync(jobstore.Changes{Remove: []int64{job.ID}})

	f.wants(jobstore.Key("a", "", f.at(-20)), jobstore.Skipped, jobstore.ReasonRemoved)
	got := f.job("a")
	if got.RemovedAt.IsZero() || !got.NextFire.IsZero() {
		f.Errorf("removed job is %+v", got)
	}
	if jobs, err := f.a.Jobs(f.ctx); err != nil || len(jobs) != 0 {
		f.Errorf("still listed: %v, %v", jobs, err)
	}
	if due, err := f.a.Due(f.ctx, jobstore.DueRequest{Limit: 9}); err != nil || len(due.Jobs) != 0 || !due.Next.IsZero() {
		f.Errorf("still due: %+v, %v", due, err)
	}
	if n := len(f.fire(9, f.plan(got, "", f.at(-10))).Jobs); n != 0 {
		f.Error("a removed job fired")
	}
	_, _, err := f.a.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Key: "a//manual:1"})
	f.is(err, jobstore.ErrNotFound)
	_, err = f.a.Pause(f.ctx, "a", jobstore.Pause{})
	f.is(err, jobstore.ErrNotFound)

	if got := f.finish(succeeded(running))[0]; got.Stale || got.Run.State != jobstore.Succeeded {
		f.Errorf("the running one ended as %+v", got)
	}
	f.sync(jobstore.Changes{Remove: []int64{job.ID}}) // again: nothing more
	f.same("removed at", f.job("a").RemovedAt, got.RemovedAt)
	f.balanced()
}

func testRemovedLeftBehind(f *fixture) {
	lost, retry := f.create("lost"), f.create("retry")
	f.startLost(lost, f.at(-30))
	run := f.start(retry, f.at(-30))
	f.finish(retrying(run, 0))
	f.sync(jobstore.Changes{Remove: []int64{lost.ID, retry.ID}})

	refuse := func(int64, string) bool { return false }
	got, err := f.b.Claim(f.ctx, jobstore.ClaimRequest{Node: "n2", Lease: lease, Limit: 9, Accept: refuse, Exclude: []int64{}})
	f.ok(err)
	if len(got.Runs) != 0 || len(got.Settled) != 2 {
		f.Errorf("claimed %v, settled %v", keysOf(got.Runs), keysOf(got.Settled))
	}
	f.wants(jobstore.Key("lost", "", f.at(-30)), jobstore.Canceled, jobstore.ReasonRemoved)
	f.wants(jobstore.Key("retry", "", f.at(-30)), jobstore.Canceled, jobstore.ReasonRemoved)
}

func testComesBack(f *fixture) {
	job := f.create("a", windowed)
	f.finish(succeeded(f.start(job, f.at(-30))))
	f.sync(jobstore.Changes{Remove: []int64{job.ID}})
	u := update(f.job("a"))
	u.Reschedule, u.LastPlanned, u.NextFire = true, f.at(-5), f.at(-4)
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{u}})
	if got := f.job("a"); !got.RemovedAt.IsZero() || got.ID != job.ID {
		f.Fatalf("it did not come back: %+v", got)
	}
	run := f.start(job, f.at(-4))
	if !run.WindowFrom.Equal(f.at(-30)) || !run.WindowTo.Equal(f.at(-4)) {
		f.Errorf("its window is [%v, %v)", run.WindowFrom, run.WindowTo)
	}
}

func testOwed(f *fixture) {
	f.create("a")
	_, err := f.a.Pause(f.ctx, "a", jobstore.Pause{})
	f.ok(err)
	job := f.job("a")
	u := update(job)
	u.Reschedule, u.LastPlanned, u.NextFire = true, f.at(0), f.at(60)
	state := f.sync(jobstore.Changes{
		Firings: []jobstore.Firing{{
			JobID: job.ID, Version: job.Version, LastPlanned: f.at(-1), NextFire: job.NextFire, Due: 5,
			Runs: []jobstore.NewRun{f.newRun(job, "", f.at(-1))},
			Ranges: []jobstore.Range{{
				First: f.at(-9), Last: f.at(-2), Count: 4, Outcome: jobstore.OutcomeSuperseded, Reason: jobstore.ReasonSuperseded,
			}},
		}},
		Update: []jobstore.JobUpdate{u},
	})
	got := state.Jobs[0]
	if got.Due != 5 || !got.LastPlanned.Equal(f.at(0)) || !got.Pause.Active(state.Now) {
		f.Errorf("job is %+v", got)
	}
	if b := f.balanced()["a"]; b.Runs != 1 || b.Ranges != 4 {
		f.Errorf("ledger is %+v", b)
	}
	f.wants(jobstore.Key("a", "", f.at(-1)), jobstore.Pending, "")
}

func testMoreInstances(f *fixture) {
	job := f.create("a", overlap(jobstore.OverlapQueueAll, jobstore.CoalesceAll))
	f.fire(9, f.plan(job, "", f.at(-30), f.at(-20), f.at(-10)))
	if got := f.claim(9); len(got.Runs) != 0 {
		f.Fatalf("claimed %v beside a running one", keysOf(got.Runs))
	}
	u := update(f.job("a"))
	u.MaxInstances = 2
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{u}})
	f.same("claimed", keysOf(f.claim(9).Runs), []string{jobstore.Key("a", "", f.at(-20))})
}

func testBacklog(f *fixture) {
	a, b := f.create("a", instances(0)), f.create("b")
	runs := f.fire(2, f.plan(a, "", f.at(-30), f.at(-20), f.at(-10)), f.plan(b, "", f.at(-10))).Leased
	f.finish(succeeded(runs[0]), retrying(runs[1], time.Hour))
	got, err := f.b.Backlog(f.ctx)
	f.ok(err)
	f.same("backlog", got, map[string]map[jobstore.State]int64{
		"a": {jobstore.Retrying: 1, jobstore.Pending: 1},
		"b": {jobstore.Pending: 1},
	})
	f.same("in the ledger", f.balanced()["a"].Open, got["a"])
	f.finish(failed(f.claim(1).Runs[0]))
}

var _ testing.TB = (*fixture)(nil)
