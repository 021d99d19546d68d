package storetest

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func historyTests() []test {
	return []test{
		{"runs are listed newest first, by every filter", testRuns},
		{"ranges that touch a stretch are listed, oldest first", testRanges},
		{"the ledger counts fire times, not runs", testLedger},
		{"times are kept to the microsecond", testMicroseconds},
	}
}

func testRuns(f *fixture) {
	a, b := f.create("a", instances(0)), f.create("b")
	p := f.plan(a, "x", f.at(-40), f.at(-30))
	p.Runs = append(p.Runs, f.newRun(a, "", f.at(-20)))
	leased := f.fire(9, p).Leased
	f.finish(succeeded(leased[0]), failed(leased[1]), retrying(leased[2], time.Hour))
	f.start(b, f.at(-10))
	f.fire(9, f.plan(f.job("b"), "", f.at(-5)))
	x, none := "x", ""
	a40, a30, a20 := jobstore.Key("a", "x", f.at(-40)), jobstore.Key("a", "x", f.at(-30)), jobstore.Key("a", "", f.at(-20))
	b10, b5 := jobstore.Key("b", "", f.at(-10)), jobstore.Key("b", "", f.at(-5))
	for _, c := range []struct {
		name   string
		filter jobstore.RunFilter
		want   []string
	}{
		{"all", jobstore.RunFilter{}, []string{b5, b10, a20, a30, a40}},
		{"limit", jobstore.RunFilter{Limit: 2}, []string{b5, b10}},
		{"job", jobstore.RunFilter{Job: "a"}, []string{a20, a30, a40}},
		{"job and limit", jobstore.RunFilter{Job: "a", Limit: 1}, []string{a20}},
		{"unknown job", jobstore.RunFilter{Job: "c"}, []string{}},
		{"target", jobstore.RunFilter{Target: &x}, []string{a30, a40}},
		{"the empty target", jobstore.RunFilter{Target: &none}, []string{b5, b10, a20}},
		{"open", jobstore.RunFilter{States: []jobstore.State{jobstore.Pending, jobstore.Running, jobstore.Retrying}}, []string{b5, b10, a20}},
		{"states", jobstore.RunFilter{States: []jobstore.State{jobstore.Succeeded, jobstore.Pending}}, []string{b5, a40}},
		{"review", jobstore.RunFilter{Review: true}, []string{a30}},
		{"since", jobstore.RunFilter{Since: f.at(-20)}, []string{b5, b10, a20}},
		{"since, of a job", jobstore.RunFilter{Job: "a", Since: f.at(-30)}, []string{a20, a30}},
		{"open, of a job and target", jobstore.RunFilter{Job: "a", Target: &none, States: []jobstore.State{jobstore.Retrying}}, []string{a20}},
		{"review, elsewhere", jobstore.RunFilter{Job: "b", Review: true}, []string{}},
	} {
		runs, err := f.b.Runs(f.ctx, c.filter)
		f.ok(err)
		f.same(c.name, keysOf(runs), c.want)
	}
	runs, err := f.b.Runs(f.ctx, jobstore.RunFilter{Job: "a", Limit: 1})
	f.ok(err)
	f.same("a listed run is whole", runs[0], f.run(a20))
}

func testRanges(f *fixture) {
	job := f.create("a")
	p := jobstore.Firing{JobID: job.ID, Version: job.Version, LastPlanned: f.at(-1), NextFire: f.at(60)}
	for _, s := range [][2]int{{-50, -41}, {-40, -31}, {-30, -30}, {-20, -11}} {
		n := int64(s[1] - s[0] + 1)
		p.Due += n
		p.Ranges = append(p.Ranges, jobstore.Range{
			First: f.at(s[0]), Last: f.at(s[1]), Count: n, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace,
		})
	}
	f.fire(0, p)
	for _, c := range []struct {
		from, to int
		want     []int
	}{
		{-99, 0, []int{-50, -40, -30, -20}},
		{-41, -40, []int{-50, -40}},
		{-35, -35, []int{-40}},
		{-30, -30, []int{-30}},
		{-29, -21, []int{}},
		{-10, 0, []int{}},
	} {
		ranges, err := f.b.Ranges(f.ctx, job.ID, f.at(c.from), f.at(c.to))
		f.ok(err)
		got := []int{}
		for _, r := range ranges {
			got = append(got, int(r.First.Sub(f.base)/time.Second))
		}
		f.same("ranges", got, c.want)
	}
	if b := f.balanced()["a"]; b.Ranges != 31 {
		f.Errorf("ledger is %+v", b)
	}
}

func testLedger(f *fixture) {
	job := f.create("a", overlap(jobstore.OverlapQueue, jobstore.CoalesceLatest))
	p := f.plan(job, "x", f.at(-40), f.at(-30))
	p.Runs = append(p.Runs, f.newRun(job, "y", f.at(-40)), f.newRun(job, "y", f.at(-30)))
	p.Ranges = []jobstore.Range{{First: f.at(-90), Last: f.at(-80), Count: 11, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace}}
	p.Due += 11
	f.fire(9, p)
	f.trigger("a", "k")
	f.create("idle")
	ledger := f.balanced()
	got := ledger["a"]
	f.same("open", got.Open, map[jobstore.State]int64{jobstore.Running: 2, jobstore.Pending: 3})
	if got.Due != 13 || got.Runs != 2 || got.Ranges != 11 || got.Pruned != 0 {
		f.Errorf("ledger is %+v", got)
	}
	if idle, ok := ledger["idle"]; !ok || idle.Due != 0 || len(idle.Open) != 0 {
		f.Errorf("a job that never fired: %+v", idle)
	}
	f.sync(jobstore.Changes{Remove: []int64{job.ID}})
	if got := f.balanced()["a"]; got.Due != 13 {
		f.Errorf("a removed job's ledger is %+v", got)
	}
}

func testMicroseconds(f *fixture) {
	job := f.create("a", windowed)
	at := f.at(-10).Add(123456*time.Microsecond + 789) // a store keeps no nanoseconds
	kept := jobstore.Instant(at)
	p := f.plan(job, "", kept)
	p.LastPlanned, p.NextFire = at, at.Add(time.Minute).In(time.FixedZone("elsewhere", 3600))
	p.Runs[0].NotBefore, p.Runs[0].Deadline = at, f.at(600).Add(999)
	fired := f.fire(1, p)
	run := f.run(p.Runs[0].Key)
	f.same("leased as stored", fired.Leased[0], run)
	for _, t := range []struct{ got, want time.Time }{
		{run.FireTime, kept},
		{run.NotBefore, kept},
		{run.WindowTo, kept},
		{run.Deadline, f.at(600)},
		{f.job("a").LastPlanned, kept},
		{f.job("a").NextFire, kept.Add(time.Minute)},
	} {
		if t.got != t.want { // location and all
			f.Errorf("got %v, want %v", t.got, t.want)
		}
	}
}
