package storetest

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func pruneTests() []test {
	return []test{
		{"history older than retention becomes a count", testPrune},
		{"what is younger than retention stays", testPruneYoung},
		{"an open run holds the mark, and all after it", testPruneOpen},
		{"the mark never stands in a range", testPruneRange},
		{"much is forgotten in bounded batches, balanced after each", testPruneBatches},
		{"a fire time with more runs than a batch goes in several", testPruneWide},
		{"manual runs go uncounted", testPruneManual},
		{"output goes before its run", testPruneOutput},
		{"a removed job goes when nothing of it is left", testPruneRemoved},
	}
}

// pruneAll prunes until there is no more to do, and returns after how many calls.
func (f *fixture) pruneAll(before time.Time) int {
	f.Helper()
	for calls := 1; ; calls++ {
		more, err := f.a.Prune(f.ctx, before, before)
		f.ok(err)
		f.balanced()
		if !more {
			return calls
		}
		if calls > 1000 {
			f.Fatal("pruning does not end")
		}
	}
}

func testPrune(f *fixture) {
	job := f.create("a", instances(0))
	p := f.plan(job, "x", f.at(-40), f.at(-30))
	p.Runs = append(p.Runs, f.newRun(job, "y", f.at(-30)))
	p.Ranges = []jobstore.Range{{First: f.at(-90), Last: f.at(-80), Count: 11, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace}}
	p.Due += 11
	runs := f.fire(9, p).Leased
	end := succeeded(runs[0])
	end.Output = &jobstore.Output{Head: []byte("x"), Size: 1}
	f.finish(end, retrying(runs[1], 0), failed(runs[2]))
	f.finish(succeeded(f.claim(9).Runs[0]))
	f.pruneAll(f.at(3600))

	b := f.balanced()["a"]
	if b.Due != 13 || b.Pruned != 13 {
		f.Errorf("ledger is %+v", b)
	}
	if got := f.job("a"); !got.PrunedThrough.Equal(f.at(-30)) || got.Pruned != 13 {
		f.Errorf("job is %+v", got)
	}
	left, err := f.b.Runs(f.ctx, jobstore.RunFilter{})
	f.ok(err)
	if len(left) != 0 {
		f.Errorf("left: %v", keysOf(left))
	}
	f.same("output", f.output(runs[0].ID, 0), jobstore.Output{})
	if f.target(job, "x").LastState != jobstore.Succeeded {
		f.Error("the target forgot its last outcome")
	}
}

func testPruneYoung(f *fixture) {
	f.finish(succeeded(f.start(f.create("a"), f.at(-10))))
	f.fire(0, jobstore.Firing{
		JobID: f.job("a").ID, Version: f.job("a").Version, LastPlanned: f.at(-1), Due: 1,
		Ranges: []jobstore.Range{{First: f.at(-1), Last: f.at(-1), Count: 1, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace}},
	})
	before := f.job("a")
	if calls := f.pruneAll(f.at(-5)); calls != 1 { // after its fire time, before its end
		f.Errorf("%d calls", calls)
	}
	f.same("job", f.job("a"), before)
	if b := f.balanced()["a"]; b.Pruned != 0 || b.Due != 2 {
		f.Errorf("ledger is %+v", b)
	}
}

func testPruneOpen(f *fixture) {
	job := f.create("a", instances(0))
	runs := f.fire(2, f.plan(job, "", f.at(-40), f.at(-30), f.at(-20))).Leased
	f.finish(succeeded(runs[0]), retrying(runs[1], time.Hour))
	f.pruneAll(f.at(3600))
	if got := f.job("a"); !got.PrunedThrough.Equal(f.at(-40)) || got.Pruned != 1 {
		f.Errorf("job is %+v", got)
	}
	f.wants(jobstore.Key("a", "", f.at(-20)), jobstore.Pending, "")
	f.wants(runs[1].Key, jobstore.Retrying, "")
}

func testPruneRange(f *fixture) {
	job := f.create("a", overlap(jobstore.OverlapQueue, jobstore.CoalesceEarliest))
	p := f.plan(job, "", f.at(-40))
	p.Due, p.LastPlanned = 31, f.at(-10)
	p.Ranges = []jobstore.Range{{
		First: f.at(-39), Last: f.at(-10), Count: 30, Outcome: jobstore.OutcomeCoalesced, Reason: jobstore.ReasonCoalesced, Into: f.at(-40),
	}}
	run := f.fire(1, p).Leased[0]
	f.pruneAll(f.at(3600))
	if got := f.job("a"); !got.PrunedThrough.IsZero() {
		f.Errorf("pruned through %v while the run is open", got.PrunedThrough)
	}
	f.finish(succeeded(run))
	open := f.start(job, f.at(-5))
	f.pruneAll(f.at(3600))
	if got := f.job("a"); !got.PrunedThrough.Equal(f.at(-10)) || got.Pruned != 31 {
		f.Errorf("job is %+v", got)
	}
	f.wants(open.Key, jobstore.Running, "")

	// An open run in the middle of a range holds all of it.
	job = f.create("b", instances(0))
	p = f.plan(job, "", f.at(-50), f.at(-35), f.at(-30))
	p.Due, p.LastPlanned = 13, f.at(-20)
	p.Ranges = []jobstore.Range{{First: f.at(-40), Last: f.at(-20), Count: 10, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace}}
	leased := f.fire(3, p).Leased
	f.finish(succeeded(leased[0]), succeeded(leased[1]))
	f.pruneAll(f.at(3600))
	if got := f.job("b"); !got.PrunedThrough.Equal(f.at(-50)) || got.Pruned != 1 {
		f.Errorf("job is %+v", got)
	}
}

func testPruneBatches(f *fixture) {
	const n = 2500
	job := f.create("a", instances(0))
	var at []time.Time
	for i := range n {
		at = append(at, f.at(-n+i))
	}
	var ends []jobstore.End
	for _, run := range f.fire(n, f.plan(job, "", at...)).Leased {
		ends = append(ends, succeeded(run))
	}
	f.finish(ends...)
	last := int64(0)
	for more, calls := true, 0; more; calls++ {
		var err error
		more, err = f.a.Prune(f.ctx, f.at(3600), f.at(3600))
		f.ok(err)
		b := f.balanced()["a"]
		if b.Pruned-last > 1500 {
			f.Fatalf("one call took %d rows", b.Pruned-last)
		}
		if more && b.Pruned == last && calls > 10 {
			f.Fatal("pruning stands still")
		}
		last = b.Pruned
	}
	if last != n {
		f.Errorf("pruned %d of %d", last, n)
	}
}

func testPruneWide(f *fixture) {
	const n = 2500
	job := f.create("a")
	p := f.plan(job, named(0), f.at(-10))
	for i := 1; i < n; i++ {
		p.Runs = append(p.Runs, f.newRun(job, named(i), f.at(-10)))
	}
	var ends []jobstore.End
	leased := f.fire(n, p).Leased
	for _, run := range leased[1:] {
		ends = append(ends, succeeded(run))
	}
	f.finish(ends...)
	f.pruneAll(f.at(3600))
	if runs, err := f.b.Runs(f.ctx, jobstore.RunFilter{}); err != nil || len(runs) != n {
		f.Fatalf("%d of %d runs left while one of them is open, %v", len(runs), n, err)
	}
	f.finish(succeeded(leased[0]))
	f.pruneAll(f.at(3600))
	runs, err := f.b.Runs(f.ctx, jobstore.RunFilter{})
	f.ok(err)
	if b := f.balanced()["a"]; len(runs) != 0 || b.Pruned != 1 {
		f.Errorf("%d runs are left, the ledger is %+v", len(runs), b)
	}
}

func testPruneManual(f *fixture) {
	job := f.create("a", instances(0))
	open := f.start(job, f.at(-10)) // holds the mark, but no manual run
	done := f.trigger("a", "done")
	f.claim(9)
	f.finish(succeeded(f.run(done.Key)))
	waits := f.trigger("a", "waits")
	f.pruneAll(f.at(3600))
	runs, err := f.b.Runs(f.ctx, jobstore.RunFilter{})
	f.ok(err)
	f.same("left", keysOf(runs), []string{waits.Key, open.Key})
	if got := f.job("a"); got.Pruned != 0 || !got.PrunedThrough.IsZero() {
		f.Errorf("job is %+v", got)
	}
}

func testPruneOutput(f *fixture) {
	out := jobstore.Output{Head: []byte("x"), Size: 1}
	done, open := f.start(f.create("a"), f.at(-10)), f.start(f.create("b"), f.at(-10))
	end := succeeded(done)
	end.Output = &out
	f.finish(end)
	f.ok(f.a.Report(f.ctx, []jobstore.RunOutput{{Lease: leaseOf(open), Output: out}}))
	prune := func(runs, output time.Time) {
		f.Helper()
		if more, err := f.a.Prune(f.ctx, runs, output); err != nil || more {
			f.Fatalf("more %v, %v", more, err)
		}
	}
	prune(f.at(-60), f.at(-60))
	f.same("young output", f.output(done.ID, 0), out)
	prune(f.at(-60), f.at(3600))
	f.same("old output", f.output(done.ID, 0), jobstore.Output{})
	f.same("of an open run", f.output(open.ID, 0), out)
	f.wants(done.Key, jobstore.Succeeded, "")
}

func testPruneRemoved(f *fixture) {
	done, open := f.create("done", windowed), f.create("open")
	f.finish(succeeded(f.start(done, f.at(-10))))
	run := f.start(open, f.at(-10))
	f.create("kept")
	f.sync(jobstore.Changes{Remove: []int64{done.ID, open.ID}})
	f.pruneAll(f.at(-60))
	if jobs := f.sync(jobstore.Changes{}).Jobs; len(jobs) != 3 {
		f.Errorf("jobs are %v", jobNames(jobs))
	}
	f.pruneAll(f.at(3600))
	f.same("jobs", jobNames(f.sync(jobstore.Changes{}).Jobs), []string{"kept", "open"})
	f.finish(succeeded(run))
	f.pruneAll(f.at(3600))
	f.same("jobs", jobNames(f.sync(jobstore.Changes{}).Jobs), []string{"kept"})
	if again := f.create("done", windowed); again.ID == done.ID || again.Due != 0 {
		f.Errorf("a new job of that name is the old one: %+v", again)
	}
	f.fire(0, f.plan(f.job("done"), "", f.at(-5)))
	if got := f.target(f.job("done"), "").Watermark; !got.Equal(f.base.Add(-time.Hour)) {
		f.Errorf("and has its watermark: %v", got)
	}
}
