package storetest

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func dueTests() []test {
	return []test{
		{"jobs are due in the order of their instants, as many as asked for", testDueOrder},
		{"excluded jobs are not due, and wake nobody", testDueExcluded},
		{"a paused job is not due before its pause ends", testDuePaused},
		{"a pause that has ended makes the job due at once, however far its next fire", testDueAfterPause},
	}
}

func testDueOrder(f *fixture) {
	at := func(seconds int) edit { return func(n *jobstore.NewJob) { n.NextFire = f.at(seconds) } }
	f.create("late", at(-30))
	f.create("later", at(-10))
	f.create("latest", at(-90))
	f.create("soon", at(600))
	f.create("never", func(n *jobstore.NewJob) { n.NextFire = time.Time{} })

	due, err := f.a.Due(f.ctx, jobstore.DueRequest{Limit: 9})
	f.ok(err)
	f.same("due", jobNames(due.Jobs), []string{"latest", "late", "later"})
	if !due.Next.Equal(f.at(600)) {
		f.Errorf("next is %v, want %v", due.Next, f.at(600))
	}
	f.same("a due job is whole", due.Jobs[0], f.job("latest"))
	due, err = f.a.Due(f.ctx, jobstore.DueRequest{Limit: 2})
	f.ok(err)
	f.same("first two", jobNames(due.Jobs), []string{"latest", "late"})
}

func jobNames(jobs []jobstore.Job) []string {
	out := []string{}
	for i := range jobs {
		out = append(out, jobs[i].Name)
	}
	return out
}

func testDueExcluded(f *fixture) {
	a := f.create("a")
	b := f.create("b", func(n *jobstore.NewJob) { n.NextFire = f.at(600) })
	f.create("c")
	due, err := f.a.Due(f.ctx, jobstore.DueRequest{Limit: 9, Exclude: []int64{a.ID, b.ID}})
	f.ok(err)
	f.same("due", jobNames(due.Jobs), []string{"c"})
	if !due.Next.IsZero() {
		f.Errorf("next is %v of an excluded job", due.Next)
	}
}

func testDuePaused(f *fixture) {
	f.create("a")
	_, err := f.a.Pause(f.ctx, "a", jobstore.Pause{Until: f.at(600)})
	f.ok(err)
	due, err := f.b.Due(f.ctx, jobstore.DueRequest{Limit: 9})
	f.ok(err)
	if len(due.Jobs) != 0 || !due.Next.Equal(f.at(600)) {
		f.Errorf("due %v, next %v", jobNames(due.Jobs), due.Next)
	}
	_, err = f.a.Pause(f.ctx, "a", jobstore.Pause{})
	f.ok(err)
	due, err = f.b.Due(f.ctx, jobstore.DueRequest{Limit: 9})
	f.ok(err)
	if len(due.Jobs) != 0 || !due.Next.IsZero() {
		f.Errorf("due %v, next %v", jobNames(due.Jobs), due.Next)
	}
}

func testDueAfterPause(f *fixture) {
	far := func(n *jobstore.NewJob) { n.NextFire = f.at(99999) }
	f.create("by-hand", far)
	f.create("by-time", far)
	_, err := f.a.Pause(f.ctx, "by-hand", jobstore.Pause{})
	f.ok(err)
	_, err = f.a.Pause(f.ctx, "by-time", jobstore.Pause{Until: f.at(-1)})
	f.ok(err)
	_, err = f.a.Unpause(f.ctx, "by-hand", jobstore.ResumeCatchUp)
	f.ok(err)
	due, err := f.b.Due(f.ctx, jobstore.DueRequest{Limit: 9})
	f.ok(err)
	f.same("due", jobNames(due.Jobs), []string{"by-time", "by-hand"})

	for _, job := range due.Jobs {
		f.fire(0, jobstore.Firing{
			JobID: job.ID, Version: job.Version, LastPlanned: f.at(-1), NextFire: f.at(99999), Due: 3, EndPause: true,
			Ranges: []jobstore.Range{{First: f.at(-9), Last: f.at(-1), Count: 3, Outcome: jobstore.OutcomeSkipped, Reason: jobstore.ReasonPaused}},
		})
		f.same("pause", f.job(job.Name).Pause, jobstore.Pause{})
	}
	due, err = f.b.Due(f.ctx, jobstore.DueRequest{Limit: 9})
	f.ok(err)
	if len(due.Jobs) != 0 || !due.Next.Equal(f.at(99999)) {
		f.Errorf("after the plan: due %v, next %v", jobNames(due.Jobs), due.Next)
	}
	f.balanced()
}

func fireTests() []test {
	return []test{
		{"a plan is recorded whole", testFireRecords},
		{"the same plan again changes nothing", testFireTwice},
		{"one plan of many that lost its race takes no other with it", testFireLoses},
		{"a paused job does not fire", testFirePaused},
		{"runs are leased in order as far as the slots go", testFireSlots},
		{"a run does not start before its jitter has passed", testFireJitter},
		{"a run that exists already is left alone, and counted once", testFireExisting},
		{"nothing makes a run behind what was pruned", testFireBehindMark},
		{"a new target's watermark begins where the file says, or where planning stood", testFireWatermark},
		{"a job that becomes windowed gets its watermark with its next plan", testFireBecomesWindowed},
		{"a deadline that passed before the lease makes a missed run, and lets the next go", testFireDeadline},
		{"job names and targets that look alike do not share a run", testFireKeys},
	}
}

func testFireRecords(f *fixture) {
	job := f.create("a", windowed)
	late := f.at(-10).Add(7 * time.Microsecond)
	p := jobstore.Firing{
		JobID: job.ID, Version: job.Version, LastPlanned: late, NextFire: f.at(60), Due: 6,
		Runs: []jobstore.NewRun{
			{
				Key: "a/x/k", Target: "x", FireTime: late, Trigger: jobstore.TriggerCatchUp, NotBefore: late.Add(time.Microsecond),
				Deadline: f.at(900), Covers: 3, WindowTo: late,
			},
			f.newRun(job, "ÿ/%", late),
		},
		Ranges: []jobstore.Range{
			{First: f.at(-99), Last: f.at(-50), Count: 3, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace},
			{First: f.at(-40), Last: f.at(-30), Count: 2, Outcome: jobstore.OutcomeCoalesced, Reason: jobstore.ReasonCoalesced, Into: late},
		},
	}
	fired := f.fire(0, p)
	f.same("fired", fired.Jobs, []int64{job.ID})
	if len(fired.Leased) != 0 || !fired.Left || fired.Now.Before(f.base) {
		f.Errorf("without slots: %+v", fired)
	}
	got := f.job("a")
	if got.Due != 6 || !got.LastPlanned.Equal(late) || !got.NextFire.Equal(f.at(60)) || got.Version <= job.Version {
		f.Errorf("job is %+v", got)
	}
	run := f.run("a/x/k")
	f.same("run", run, jobstore.Run{
		ID: run.ID, Key: "a/x/k", JobID: job.ID, Job: "a", Target: "x", FireTime: late, Trigger: jobstore.TriggerCatchUp,
		LogicalRun: 1, State: jobstore.Pending, Covers: 3, NotBefore: late.Add(time.Microsecond), ClaimAt: late.Add(time.Microsecond),
		Deadline: f.at(900), WindowTo: late, CreatedAt: fired.Now,
	})
	if f.run(jobstore.Key("a", "ÿ/%", late)).Target != "ÿ/%" {
		f.Error("the target is not what it was")
	}
	ranges, err := f.b.Ranges(f.ctx, job.ID, f.at(-999), f.at(0))
	f.ok(err)
	for i := range p.Ranges {
		p.Ranges[i].ID, p.Ranges[i].JobID, p.Ranges[i].RecordedAt = ranges[i].ID, job.ID, fired.Now
	}
	f.same("ranges", ranges, p.Ranges)
	f.same("balance", f.balanced()["a"].Runs, int64(1))
}

func testFireTwice(f *fixture) {
	job := f.create("a")
	p := f.plan(job, "", f.at(-10))
	first := f.fire(1, p)
	if len(first.Jobs) != 1 || len(first.Leased) != 1 {
		f.Fatalf("first: %+v", first)
	}
	before, run := f.job("a"), f.run(first.Leased[0].Key)
	again := f.fire(1, p)
	if len(again.Jobs) != 0 || len(again.Leased) != 0 || again.Left {
		f.Errorf("again: %+v", again)
	}
	f.same("job", f.job("a"), before)
	f.same("run", f.run(run.Key), run)
	// Twice in one call is the same plan twice.
	p = f.plan(before, "", f.at(-5))
	if got := f.fire(0, p, p); len(got.Jobs) != 1 {
		f.Errorf("twice in one call: %+v", got)
	}
	f.balanced()
}

func testFireLoses(f *fixture) {
	a, b, c := f.create("a"), f.create("b"), f.create("c")
	stale := f.plan(b, "", f.at(-10))
	stale.Version--
	gone := f.plan(b, "", f.at(-10))
	gone.JobID = 1 << 40
	fired := f.fire(9, f.plan(a, "", f.at(-10)), stale, gone, f.plan(c, "", f.at(-10)))
	f.same("fired", fired.Jobs, []int64{a.ID, c.ID})
	f.same("leased", keysOf(fired.Leased), []string{jobstore.Key("a", "", f.at(-10)), jobstore.Key("c", "", f.at(-10))})
	f.same("the loser", f.job("b"), b)
}

func testFirePaused(f *fixture) {
	f.create("a")
	job, err := f.a.Pause(f.ctx, "a", jobstore.Pause{})
	f.ok(err)
	if got := f.fire(9, f.plan(job, "", f.at(-10))); len(got.Jobs) != 0 {
		f.Errorf("a paused job fired: %+v", got)
	}
	f.same("job", f.job("a"), job)
}

func testFireSlots(f *fixture) {
	a, b := f.create("a", instances(0)), f.create("b")
	fired := f.fire(2, f.plan(b, "", f.at(-5)), f.plan(a, "", f.at(-30), f.at(-20)))
	f.same("leased", keysOf(fired.Leased), []string{jobstore.Key("b", "", f.at(-5)), jobstore.Key("a", "", f.at(-30))})
	if !fired.Left {
		f.Error("nothing is said of the run that is left")
	}
	run := fired.Leased[0]
	if run.State != jobstore.Running || run.Attempt != 1 || run.Node != node || !run.StartedAt.Equal(fired.Now) ||
		!run.AttemptStartedAt.Equal(fired.Now) || !run.ClaimAt.Equal(fired.Now.Add(lease)) || run.Fingerprint != "print" {
		f.Errorf("leased as %+v", run)
	}
	f.same("stored", f.run(run.Key), run)
	f.same("claimed", keysOf(f.claim(9).Runs), []string{jobstore.Key("a", "", f.at(-20))})
	if again := f.fire(2, f.plan(f.job("b"), "", f.at(-4))); again.Left || len(again.Leased) != 0 {
		f.Errorf("a waiting run is nothing to start: %+v", again)
	}
}

func testFireJitter(f *fixture) {
	p := f.plan(f.create("a"), "", f.at(-10))
	p.Runs[0].NotBefore = f.at(600)
	if got := f.fire(9, p); len(got.Leased) != 0 || got.Left {
		f.Errorf("fired: %+v", got)
	}
	if got := f.claim(9); len(got.Runs) != 0 || !got.Next.Equal(f.at(600)) {
		f.Errorf("claimed: %+v", got)
	}
}

func testFireExisting(f *fixture) {
	job := f.create("a")
	f.finish(succeeded(f.start(job, f.at(-10))))
	before := f.run(jobstore.Key("a", "", f.at(-10)))
	fired := f.fire(9, f.plan(f.job("a"), "", f.at(-10), f.at(-9)))
	f.same("leased", keysOf(fired.Leased), []string{jobstore.Key("a", "", f.at(-9))})
	f.same("the run", f.run(before.Key), before)
	if b := f.balanced()["a"]; b.Due != 2 {
		f.Errorf("ledger is %+v", b)
	}
	// Another target's run of the same instant is a run, but no new instant.
	f.fire(0, f.plan(f.job("a"), "other", f.at(-9)))
	if b := f.balanced()["a"]; b.Due != 2 {
		f.Errorf("ledger is %+v", b)
	}
}

func testFireBehindMark(f *fixture) {
	job := f.create("a")
	f.finish(succeeded(f.start(job, f.at(-10))))
	f.pruneAll(f.at(3600))
	if got := f.fire(9, f.plan(f.job("a"), "", f.at(-20), f.at(-10), f.at(-5))); len(got.Leased) != 1 {
		f.Errorf("leased %v", keysOf(got.Leased))
	}
	f.wants(jobstore.Key("a", "", f.at(-5)), jobstore.Running, "")
	if b := f.balanced()["a"]; b.Due != 2 || b.Pruned != 1 {
		f.Errorf("ledger is %+v", b)
	}
}

func testFireWatermark(f *fixture) {
	job := f.create("a", windowed)
	if run := f.start(job, f.at(-10)); !run.WindowFrom.Equal(job.LastPlanned) || !run.WindowTo.Equal(f.at(-10)) {
		f.Errorf("window [%v, %v), planning stood at %v", run.WindowFrom, run.WindowTo, job.LastPlanned)
	}
	f.fire(0, f.plan(f.job("a"), "second", f.at(-5)))
	if got := f.target(job, "second").Watermark; !got.Equal(f.at(-10)) {
		f.Errorf("a target that came later begins at %v", got)
	}
	start := f.at(-86400).Add(time.Microsecond)
	from := f.create("from", windowed, func(n *jobstore.NewJob) { n.WatermarkStart = start })
	if run := f.start(from, f.at(-10)); !run.WindowFrom.Equal(start) {
		f.Errorf("window from %v, want %v", run.WindowFrom, start)
	}
	plain := f.create("plain")
	if run := f.start(plain, f.at(-10)); !run.WindowFrom.IsZero() {
		f.Errorf("a job without windows has one from %v", run.WindowFrom)
	}
	if got := f.target(plain, "").Watermark; !got.IsZero() {
		f.Errorf("a job without windows has a watermark: %v", got)
	}
}

func testFireBecomesWindowed(f *fixture) {
	job := f.create("a")
	f.finish(succeeded(f.start(job, f.at(-30))))
	u := update(f.job("a"))
	u.Windowed = true
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{u}})
	run := f.start(job, f.at(-10))
	if !run.WindowFrom.Equal(f.at(-30)) {
		f.Errorf("window from %v", run.WindowFrom)
	}
}

func testFireDeadline(f *fixture) {
	job := f.create("a", overlap(jobstore.OverlapQueueAll, jobstore.CoalesceAll))
	p := f.plan(job, "", f.at(-30), f.at(-20))
	p.Runs[0].Deadline = f.at(-25)
	f.fire(9, p)
	f.claim(9)
	f.claim(9)
	f.wants(jobstore.Key("a", "", f.at(-30)), jobstore.Missed, jobstore.ReasonDeadline)
	f.wants(jobstore.Key("a", "", f.at(-20)), jobstore.Running, "")
}

func testFireKeys(f *fixture) {
	one, two := f.create("a:b"), f.create("a")
	f.fire(9, f.plan(one, "c", f.at(-10)), f.plan(two, "b:c", f.at(-10)), f.plan(two, "", f.at(-10)))
	slash := f.create("s")
	p := f.plan(slash, "x", f.at(-10))
	p.Runs = append(p.Runs, f.newRun(slash, "x/", f.at(-10)), f.newRun(slash, "x%2F", f.at(-10)))
	f.fire(9, p)
	runs, err := f.a.Runs(f.ctx, jobstore.RunFilter{})
	f.ok(err)
	if len(runs) != 5 {
		f.Errorf("runs are %v", keysOf(runs))
	}
}
