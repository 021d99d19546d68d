package storetest

import (
	"github.com/tidemarkd/tidemark/jobstore"
)

func overlapTests() []test {
	return []test{
		{"queue, latest: one waits, an older one is coalesced into the newer", testQueueLatest},
		{"queue, earliest: one waits, a newer one is coalesced into the older", testQueueEarliest},
		{"queue_all: every run waits its turn, oldest first", testQueueAll},
		{"allow: nothing waits without a bound, and beyond one it does", testAllow},
		{"targets do not wait for one another", testTargetsApart},
		{"a retrying run keeps its slot, and failing for good frees it", testRetryKeepsSlot},
		{"a manual run waits and is not coalesced", testManualWaits},
		{"one scheduled run waits under queue, however many manual ones wait before it", testQueueInCrowd},
	}
}

func testQueueLatest(f *fixture) {
	job := f.create("a", windowed)
	first := f.start(job, f.at(-30))
	f.fire(9, f.plan(f.job("a"), "", f.at(-20)))
	fired := f.fire(9, f.plan(f.job("a"), "", f.at(-10)))
	k20, k10 := jobstore.Key("a", "", f.at(-20)), jobstore.Key("a", "", f.at(-10))
	f.same("coalesced", keysOf(fired.Coalesced), []string{k20})
	gone := f.wants(k20, jobstore.Coalesced, jobstore.ReasonOverlap)
	if gone.CoalescedInto != k10 || gone.FinishedAt.IsZero() {
		f.Errorf("coalesced run is %+v", gone)
	}
	if kept := f.wants(k10, jobstore.Pending, ""); kept.Covers != 2 || !kept.ClaimAt.IsZero() {
		f.Errorf("kept run is %+v", kept)
	}
	// Two in one plan, beside what waits.
	f.fire(9, f.plan(f.job("a"), "", f.at(-9), f.at(-8)))
	if kept := f.wants(jobstore.Key("a", "", f.at(-8)), jobstore.Pending, ""); kept.Covers != 4 {
		f.Errorf("covers %d", kept.Covers)
	}
	f.finish(succeeded(first))
	next := f.claim(9).Runs
	f.same("next", keysOf(next), []string{jobstore.Key("a", "", f.at(-8))})
	if !next[0].WindowFrom.Equal(f.at(-30)) || !next[0].WindowTo.Equal(f.at(-8)) {
		f.Errorf("window [%v, %v)", next[0].WindowFrom, next[0].WindowTo)
	}
	f.balanced()
}

func testQueueEarliest(f *fixture) {
	job := f.create("a", windowed, overlap(jobstore.OverlapQueue, jobstore.CoalesceEarliest))
	first := f.start(job, f.at(-30))
	f.fire(9, f.plan(f.job("a"), "", f.at(-20)))
	fired := f.fire(9, f.plan(f.job("a"), "", f.at(-10)))
	k20, k10 := jobstore.Key("a", "", f.at(-20)), jobstore.Key("a", "", f.at(-10))
	f.same("coalesced", keysOf(fired.Coalesced), []string{k10})
	if gone := f.wants(k10, jobstore.Coalesced, jobstore.ReasonOverlap); gone.CoalescedInto != k20 {
		f.Errorf("coalesced run is %+v", gone)
	}
	f.finish(succeeded(first))
	next := f.claim(9).Runs
	f.same("next", keysOf(next), []string{k20})
	if next[0].Covers != 2 || !next[0].WindowTo.Equal(f.at(-10)) {
		f.Errorf("the kept run is %+v", next[0])
	}
}

func testQueueAll(f *fixture) {
	job := f.create("a", overlap(jobstore.OverlapQueueAll, jobstore.CoalesceAll))
	fired := f.fire(9, f.plan(job, "", f.at(-40), f.at(-30), f.at(-20)))
	f.same("leased", keysOf(fired.Leased), []string{jobstore.Key("a", "", f.at(-40))})
	if fired.Left {
		f.Error("runs that wait are nothing to start")
	}
	run := fired.Leased[0]
	for _, seconds := range []int{-30, -20} {
		if got := f.claim(9); len(got.Runs) != 0 {
			f.Fatalf("claimed %v while one is active", keysOf(got.Runs))
		}
		f.finish(failed(run))
		got := f.claim(9)
		f.same("next", keysOf(got.Runs), []string{jobstore.Key("a", "", f.at(seconds))})
		run = got.Runs[0]
	}
	f.finish(succeeded(run))
	f.balanced()
}

func testAllow(f *fixture) {
	free := f.create("free", overlap(jobstore.OverlapAllow, jobstore.CoalesceAll), instances(0))
	if got := f.fire(9, f.plan(free, "", f.at(-40), f.at(-30), f.at(-20))); len(got.Leased) != 3 {
		f.Errorf("leased %v", keysOf(got.Leased))
	}
	two := f.create("two", overlap(jobstore.OverlapAllow, jobstore.CoalesceAll), instances(2))
	got := f.fire(9, f.plan(two, "", f.at(-40), f.at(-30), f.at(-20)))
	f.same("leased", keysOf(got.Leased), []string{jobstore.Key("two", "", f.at(-40)), jobstore.Key("two", "", f.at(-30))})
	f.finish(succeeded(got.Leased[1]))
	f.same("next", keysOf(f.claim(9).Runs), []string{jobstore.Key("two", "", f.at(-20))})
}

func testTargetsApart(f *fixture) {
	job := f.create("a")
	f.start(job, f.at(-30))
	got := f.fire(9, f.plan(f.job("a"), "x", f.at(-20)))
	f.same("leased", keysOf(got.Leased), []string{jobstore.Key("a", "x", f.at(-20))})
}

func testRetryKeepsSlot(f *fixture) {
	job := f.create("a")
	run := f.start(job, f.at(-30))
	f.fire(9, f.plan(f.job("a"), "", f.at(-20)))
	f.finish(retrying(run, 0))
	again := f.claim(9).Runs
	f.same("claimed", keysOf(again), []string{run.Key})
	f.finish(failed(again[0]))
	f.same("next", keysOf(f.claim(9).Runs), []string{jobstore.Key("a", "", f.at(-20))})
}

func testManualWaits(f *fixture) {
	job := f.create("a")
	run := f.start(job, f.at(-30))
	manual := f.trigger("a", "one")
	if !manual.ClaimAt.IsZero() {
		f.Errorf("a second process was let go: %+v", manual)
	}
	f.trigger("a", "two")
	f.fire(9, f.plan(f.job("a"), "", f.at(-20)))
	f.fire(9, f.plan(f.job("a"), "", f.at(-10)))
	f.wants(jobstore.Key("a", "", f.at(-20)), jobstore.Coalesced, jobstore.ReasonOverlap)

	var order []string
	for range 3 {
		f.finish(succeeded(run))
		got := f.claim(9).Runs
		if len(got) != 1 {
			f.Fatalf("claimed %v", keysOf(got))
		}
		run = got[0]
		order = append(order, run.Key)
	}
	f.same("order", order, []string{
		jobstore.Key("a", "", f.at(-10)), jobstore.ManualKey("a", "", "one"), jobstore.ManualKey("a", "", "two"),
	})
}

func testQueueInCrowd(f *fixture) {
	run := f.start(f.create("a"), f.at(-30))
	for i := range 4 {
		f.trigger("a", named(i))
	}
	f.fire(9, f.plan(f.job("a"), "", f.at(3600)))
	fired := f.fire(9, f.plan(f.job("a"), "", f.at(3610)))
	f.same("coalesced", keysOf(fired.Coalesced), []string{jobstore.Key("a", "", f.at(3600))})
	f.finish(succeeded(run))
	f.same("next", keysOf(f.claim(9).Runs), []string{jobstore.ManualKey("a", "", named(0))})
}
