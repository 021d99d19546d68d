package storetest

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func claimTests() []test {
	return []test{
		{"runs are claimed in the order of their starts, as many as asked for", testClaimOrder},
		{"a claimed run is leased once", testClaimOnce},
		{"what is not for this node is left alone, and hides nothing behind it", testClaimRefuses},
		{"a paused job's pending runs stay, its retries go on", testClaimPaused},
		{"a run that waited past its deadline is missed", testClaimMissed},
		{"a run that another has covered is skipped where the job uses its window", testClaimCovered},
		{"a retry of another definition fails for review", testClaimFingerprint},
		{"a run whose lease has ended is taken over", testClaimTakeover},
		{"a node does not take its own run over", testClaimHeld},
		{"a run that loses its worker five times in a row fails for review", testClaimLosses},
		{"a takeover of a run to be canceled ends it", testClaimCanceled},
		{"next is when a retry or the end of a lease comes up", testClaimNext},
	}
}

func testClaimOrder(f *fixture) {
	for i, seconds := range []int{-10, -30, -20} {
		f.fire(0, f.plan(f.create(named(i)), "", f.at(seconds)))
	}
	first := f.claim(2)
	f.same("first", keysOf(first.Runs), []string{jobstore.Key(named(1), "", f.at(-30)), jobstore.Key(named(2), "", f.at(-20))})
	run := first.Runs[0]
	if run.State != jobstore.Running || run.Node != "n2" || run.Attempt != 1 || !run.ClaimAt.Equal(first.Now.Add(lease)) {
		f.Errorf("claimed as %+v", run)
	}
	f.same("stored", f.run(run.Key), run)
	f.same("rest", keysOf(f.claim(2).Runs), []string{jobstore.Key(named(0), "", f.at(-10))})
	if none := f.claim(0); len(none.Runs) != 0 || none.Now.IsZero() {
		f.Errorf("without slots: %+v", none)
	}
}

func testClaimOnce(f *fixture) {
	f.fire(0, f.plan(f.create("a"), "", f.at(-10)))
	if got := f.claim(9); len(got.Runs) != 1 || len(got.Lost)+len(got.Settled) != 0 {
		f.Fatalf("claimed %+v", got)
	}
	if got := f.claim(9); len(got.Runs) != 0 {
		f.Errorf("claimed again: %+v", got)
	}
}

func testClaimRefuses(f *fixture) {
	stray := f.create("stray", overlap(jobstore.OverlapAllow, jobstore.CoalesceAll), instances(0))
	other := f.create("other")
	excluded := f.create("excluded", overlap(jobstore.OverlapAllow, jobstore.CoalesceAll), instances(0))
	mine := f.create("mine")
	var many []time.Time
	for i := range 300 {
		many = append(many, f.at(-1000+i))
	}
	f.fire(0, f.plan(stray, "", many...), f.plan(excluded, "", many...), f.plan(other, "", f.at(-20)), f.plan(mine, "", f.at(-10)))
	asked := map[int64]int{}
	got, err := f.b.Claim(f.ctx, jobstore.ClaimRequest{
		Node: "n2", Lease: lease, Limit: 1, Exclude: []int64{excluded.ID},
		Accept: func(id int64, hash string) bool {
			if id == stray.ID && hash != "hash-stray" || id == excluded.ID {
				f.Errorf("asked for job %d with hash %s", id, hash)
			}
			asked[id]++
			return id == mine.ID
		},
	})
	f.ok(err)
	f.same("claimed", keysOf(got.Runs), []string{jobstore.Key("mine", "", f.at(-10))})
	f.same("refused", got.Refused, []int64{stray.ID, other.ID})
	f.wants(jobstore.Key("stray", "", many[0]), jobstore.Pending, "")
	f.wants(jobstore.Key("excluded", "", many[0]), jobstore.Pending, "")
}

func testClaimPaused(f *fixture) {
	pending, retry := f.create("pending"), f.create("retry")
	f.fire(0, f.plan(pending, "", f.at(-10)))
	run := f.start(retry, f.at(-10))
	f.finish(retrying(run, 0))
	for _, name := range []string{"pending", "retry"} {
		_, err := f.a.Pause(f.ctx, name, jobstore.Pause{})
		f.ok(err)
	}
	f.trigger("pending", "by-hand")
	f.same("claimed", keysOf(f.claim(9).Runs), []string{run.Key})
	_, err := f.a.Unpause(f.ctx, "pending", "")
	f.ok(err)
	f.same("after the pause", keysOf(f.claim(9).Runs), []string{jobstore.Key("pending", "", f.at(-10))})
}

func testClaimMissed(f *fixture) {
	job := f.create("a", windowed)
	p := f.plan(job, "", f.at(-30))
	p.Runs[0].Deadline = f.at(-20)
	f.fire(0, p)
	f.fire(0, f.plan(f.job("a"), "other", f.at(-10))) // has no deadline
	got := f.claim(9)
	f.same("settled", keysOf(got.Settled), []string{p.Runs[0].Key})
	f.same("claimed", keysOf(got.Runs), []string{jobstore.Key("a", "other", f.at(-10))})
	run := f.wants(p.Runs[0].Key, jobstore.Missed, jobstore.ReasonDeadline)
	f.same("settled as stored", got.Settled[0], run)
	if run.Attempt != 0 || run.FinishedAt.IsZero() || !run.ClaimAt.IsZero() {
		f.Errorf("missed run is %+v", run)
	}
	if target := f.target(job, ""); target.LastState != jobstore.Missed || !target.Watermark.Equal(job.LastPlanned) {
		f.Errorf("target is %+v", target)
	}
	// A deadline is for the first start alone.
	p = f.plan(f.job("a"), "", f.at(-5))
	p.Runs[0].Deadline = f.at(3600)
	f.finish(retrying(f.fire(1, p).Leased[0], 0))
	f.same("retried", keysOf(f.claim(9).Runs), []string{p.Runs[0].Key})
}

func testClaimCovered(f *fixture) {
	for _, c := range []struct {
		name  string
		edit  edit
		state jobstore.State
	}{{"uses", uses, jobstore.Skipped}, {"has", windowed, jobstore.Running}} {
		job := f.create(c.name, c.edit)
		f.fire(0, f.plan(job, "", f.at(-30)))
		// A run that reaches further succeeds first.
		manual := f.trigger(c.name, "m")
		first := f.claim(1).Runs[0]
		f.finish(succeeded(first))
		f.claim(9)
		f.finish(succeeded(f.run(manual.Key)))
		f.fire(9, f.plan(f.job(c.name), "", f.at(-10)))
		f.claim(9)
		run := f.run(jobstore.Key(c.name, "", f.at(-10)))
		if run.State != c.state {
			f.Fatalf("a covered run of a job that %s its window is %s", c.name, run.State)
		}
		if c.state == jobstore.Skipped && (run.Reason != jobstore.ReasonCovered || run.CoalescedInto != manual.Key) {
			f.Errorf("skipped as %+v", run)
		}
		if c.state == jobstore.Running && !run.WindowFrom.Equal(run.WindowTo) {
			f.Errorf("its window is [%v, %v)", run.WindowFrom, run.WindowTo)
		}
	}
}

func testClaimFingerprint(f *fixture) {
	job := f.create("a")
	run := f.start(job, f.at(-10))
	f.finish(retrying(run, 0))
	u := update(f.job("a"))
	u.Fingerprint = "another"
	f.sync(jobstore.Changes{Update: []jobstore.JobUpdate{u}})
	got := f.claim(9)
	f.same("settled", keysOf(got.Settled), []string{run.Key})
	if run := f.wants(run.Key, jobstore.Failed, jobstore.ReasonFingerprint); !run.Review {
		f.Error("it is not for review")
	}
	if !f.target(job, "").Review {
		f.Error("its target is not for review")
	}
}

func testClaimTakeover(f *fixture) {
	job := f.create("a", windowed)
	run := f.startLost(job, f.at(-10))
	got := f.claim(9)
	f.same("claimed", keysOf(got.Runs), []string{run.Key})
	f.same("lost", got.Lost, []jobstore.Run{run})
	taken := got.Runs[0]
	if taken.Attempt != 2 || taken.Node != "n2" || !taken.StartedAt.Equal(run.StartedAt) || !taken.WindowFrom.Equal(run.WindowFrom) || taken.Failures != 0 {
		f.Errorf("taken over as %+v", taken)
	}
	attempts := f.attempts(run.Key)
	if len(attempts) != 1 {
		f.Fatalf("attempts are %+v", attempts)
	}
	if a := attempts[0]; a.Attempt != 1 || a.Node != node || a.Outcome != jobstore.AttemptLost ||
		!a.StartedAt.Equal(run.AttemptStartedAt) || !a.FinishedAt.Equal(got.Now) {
		f.Errorf("the lost attempt is %+v", a)
	}
	if late := f.finish(succeeded(run))[0]; !late.Stale {
		f.Errorf("the lost attempt's result was taken: %+v", late)
	}
	if own := f.finish(succeeded(taken))[0]; own.Stale || own.Run.State != jobstore.Succeeded {
		f.Errorf("the new attempt ended as %+v", own)
	}
}

func testClaimHeld(f *fixture) {
	mine, other := f.startLost(f.create("a"), f.at(-10)), f.startLost(f.create("b"), f.at(-10))
	got, err := f.a.Claim(f.ctx, jobstore.ClaimRequest{Node: node, Lease: lease, Limit: 9, Held: []int64{mine.ID}})
	f.ok(err)
	f.same("taken over", keysOf(got.Runs), []string{other.Key})
	f.wants(mine.Key, jobstore.Running, "")
}

func testClaimLosses(f *fixture) {
	run := f.startLost(f.create("a"), f.at(-10))
	lose := func() jobstore.Claimed {
		got, err := f.b.Claim(f.ctx, jobstore.ClaimRequest{Node: "n2", Lease: ended, Limit: 9})
		f.ok(err)
		return got
	}
	for range 3 {
		lose()
	}
	// One that ended otherwise in between: the count begins anew.
	taken := f.claim(9).Runs[0]
	f.finish(jobstore.End{Lease: leaseOf(taken), State: jobstore.Retrying, Outcome: jobstore.AttemptHandedBack})
	for i := range jobstore.MaxLosses {
		if got := lose(); len(got.Runs) != 1 {
			f.Fatalf("after %d losses: %+v", i, got)
		}
	}
	got := f.claim(9)
	f.same("settled", keysOf(got.Settled), []string{run.Key})
	if r := f.wants(run.Key, jobstore.Failed, jobstore.ReasonLosses); !r.Review || len(got.Runs) != 0 {
		f.Errorf("it ended as %+v", r)
	}
}

func testClaimCanceled(f *fixture) {
	run := f.startLost(f.create("a"), f.at(-10))
	_, err := f.a.Cancel(f.ctx, run.Key, "ops")
	f.ok(err)
	got := f.claim(9)
	f.same("settled", keysOf(got.Settled), []string{run.Key})
	if run := f.wants(run.Key, jobstore.Canceled, jobstore.ReasonCanceled); run.Message == "" {
		f.Error("nothing says by whom")
	}
}

func testClaimNext(f *fixture) {
	a := f.start(f.create("a"), f.at(-10))
	got := f.claim(9)
	if !got.Next.Equal(a.ClaimAt) {
		f.Errorf("next %v, the lease ends %v", got.Next, a.ClaimAt)
	}
	b := f.start(f.create("b"), f.at(-10))
	f.finish(retrying(b, 5*time.Second))
	if got := f.claim(9); !got.Next.Equal(f.run(b.Key).ClaimAt) {
		f.Errorf("next %v, the retry comes %v", got.Next, f.run(b.Key).ClaimAt)
	}
}

func leaseTests() []test {
	return []test{
		{"a lease is renewed when a third of it is spent", testExtend},
		{"a lease that ended is renewed while nobody took over", testExtendLate},
		{"lost leases and wishes to cancel are told", testExtendSignals},
		{"output of a running attempt is kept, of a stale one not", testReport},
	}
}

func (f *fixture) extend(ttl time.Duration, leases ...jobstore.Lease) jobstore.Signals {
	f.Helper()
	out, err := f.a.Extend(f.ctx, jobstore.ExtendRequest{Node: node, Lease: ttl, Leases: leases})
	f.ok(err)
	return out
}

func testExtend(f *fixture) {
	run := f.start(f.create("a"), f.at(-10))
	got := f.extend(lease, leaseOf(run))
	if len(got.Lost)+len(got.Cancel) != 0 || got.Now.IsZero() {
		f.Errorf("signals %+v", got)
	}
	if now := f.run(run.Key).ClaimAt; !now.Equal(run.ClaimAt) {
		f.Errorf("a fresh lease was renewed from %v to %v", run.ClaimAt, now)
	}
	got = f.extend(2*lease, leaseOf(run)) // of which less than two thirds are left
	if now := f.run(run.Key).ClaimAt; !now.Equal(got.Now.Add(2 * lease)) {
		f.Errorf("renewed at %v until %v", got.Now, now)
	}
}

func testExtendLate(f *fixture) {
	run := f.startLost(f.create("a"), f.at(-10))
	if got := f.extend(lease, leaseOf(run)); len(got.Lost) != 0 {
		f.Errorf("signals %+v", got)
	}
	if got := f.claim(9); len(got.Runs) != 0 {
		f.Errorf("a renewed lease was taken: %v", keysOf(got.Runs))
	}
}

func testExtendSignals(f *fixture) {
	lost := f.startLost(f.create("lost"), f.at(-10))
	f.claim(9)
	done := f.start(f.create("done"), f.at(-10))
	f.finish(succeeded(done))
	cancel := f.start(f.create("cancel"), f.at(-10))
	_, err := f.b.Cancel(f.ctx, cancel.Key, "ops")
	f.ok(err)
	fine := f.start(f.create("fine"), f.at(-10))
	unknown := jobstore.Lease{RunID: 1 << 40, Attempt: 1}
	got := f.extend(lease, leaseOf(lost), leaseOf(done), leaseOf(cancel), leaseOf(fine), unknown)
	f.same("lost", got.Lost, []jobstore.Lease{leaseOf(lost), leaseOf(done), unknown})
	f.same("cancel", got.Cancel, []jobstore.Lease{leaseOf(cancel)})
	other, err := f.b.Extend(f.ctx, jobstore.ExtendRequest{Node: "other", Lease: lease, Leases: []jobstore.Lease{leaseOf(fine)}})
	f.ok(err)
	f.same("another node's", other.Lost, []jobstore.Lease{leaseOf(fine)})
}

func testReport(f *fixture) {
	run := f.startLost(f.create("a"), f.at(-10))
	first := jobstore.Output{Head: []byte("a\x00\xff\xfe"), Size: 4}
	f.ok(f.a.Report(f.ctx, []jobstore.RunOutput{{Lease: leaseOf(run), Output: first}}))
	f.same("output", f.output(run.ID, 0), first)
	more := jobstore.Output{Head: first.Head, Tail: []byte("the end \xc3"), Size: 1 << 33}
	f.ok(f.a.Report(f.ctx, []jobstore.RunOutput{{Lease: leaseOf(run), Output: more}}))
	f.same("output", f.output(run.ID, 1), more)

	taken := f.claim(9).Runs[0]
	late := jobstore.Output{Head: []byte("late"), Size: 4}
	f.ok(f.a.Report(f.ctx, []jobstore.RunOutput{{Lease: leaseOf(run), Output: late}}))
	f.same("of the lost attempt", f.output(run.ID, 1), more)
	f.same("of its successor", f.output(run.ID, 2), jobstore.Output{})
	f.ok(f.a.Report(f.ctx, []jobstore.RunOutput{{Lease: leaseOf(taken), Output: late}}))
	f.same("of the latest attempt", f.output(run.ID, 0), late)
	f.same("of one that wrote nothing", f.output(run.ID, 7), jobstore.Output{})
}

func (f *fixture) output(runID int64, attempt int) jobstore.Output {
	f.Helper()
	out, err := f.b.Output(f.ctx, runID, attempt)
	f.ok(err)
	if len(out.Head) == 0 {
		out.Head = nil
	}
	if len(out.Tail) == 0 {
		out.Tail = nil
	}
	return out
}
