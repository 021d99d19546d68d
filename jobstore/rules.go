package jobstore

import "time"

// Run is the run that a plan asked for, before it is admitted, its times as a
// store keeps them.
func (n NewRun) Run(job Job, now time.Time) Run {
	return Run{
		Key: n.Key, JobID: job.ID, Job: job.Name, Target: n.Target, FireTime: Instant(n.FireTime),
		Trigger: n.Trigger, LogicalRun: 1, State: Pending, Covers: n.Covers,
		NotBefore: Instant(n.NotBefore), Deadline: Instant(n.Deadline), WindowTo: Instant(n.WindowTo), CreatedAt: now,
	}
}

// Admission is what becomes of new runs of one (job, target).
type Admission struct {
	Insert    []Run // the new runs: claimable, waiting, or coalesced already
	Update    []Run // waiting runs that were there before, as they now are
	Contended bool  // others were in the way: decide again under the target's lock
}

// Admit decides what becomes of incoming runs of one (job, target), oldest
// first, given its open runs. It is the overlap rule (semantics 4), in one
// place for all backends, and pure. Runs that are active or may be claimed
// occupy an instance; a run that finds none free waits, and has no ClaimAt.
func Admit(def Definition, open, incoming []Run, now time.Time) Admission {
	adm := Admission{Insert: append([]Run(nil), incoming...)}
	old := append([]Run(nil), open...)
	changed := make([]bool, len(old))

	occupied := 0
	var waiting *Run // the scheduled run that waits, under overlap: queue
	waits := func(r *Run) {
		adm.Contended = true
		if r.Trigger != TriggerManual {
			waiting = r
		}
	}
	for i := range old {
		if old[i].Waiting() {
			waits(&old[i])
		} else {
			occupied++
		}
	}
	for i := range adm.Insert {
		run := &adm.Insert[i]
		switch {
		case def.MaxInstances == 0 || occupied < def.MaxInstances:
			run.ClaimAt = run.NotBefore
			occupied++
		case def.Overlap == OverlapQueue && run.Trigger != TriggerManual && waiting != nil:
			if def.Coalesce == CoalesceEarliest {
				fold(waiting, run, now)
			} else {
				fold(run, waiting, now)
				waiting = run
			}
			for j := range old {
				changed[j] = changed[j] || old[j].Key == run.CoalescedInto || old[j].CoalescedInto == run.Key
			}
		default:
			waits(run)
		}
	}
	for i := range old {
		if changed[i] {
			adm.Update = append(adm.Update, old[i])
		}
	}
	return adm
}

// fold coalesces gone into kept.
func fold(kept, gone *Run, now time.Time) {
	kept.Covers += gone.Covers
	if kept.WindowTo.Before(gone.WindowTo) {
		kept.WindowTo = gone.WindowTo
	}
	gone.State, gone.Reason, gone.CoalescedInto = Coalesced, ReasonOverlap, kept.Key
	gone.ClaimAt, gone.FinishedAt = time.Time{}, now
}

// MaxLosses is how many attempts in a row may lose their worker before the run
// fails for review: it may be the run that kills it (semantics 5).
const MaxLosses = 5

// Begin decides what becomes of a run that a node is about to lease, and
// returns it as it then is: running under a new attempt, or ended without
// starting (semantics 3 and 5). It is pure. A retry and a takeover are not new
// starts: only the fingerprint is judged again for them.
func Begin(run Run, def Definition, target Target, node string, now time.Time, lease time.Duration) Run {
	first := run.StartedAt.IsZero()
	if first && !run.OwnWindow && def.Windowed {
		run.WindowFrom = target.Watermark
	}
	covered := first && !run.OwnWindow && def.Windowed && !run.WindowTo.After(run.WindowFrom)
	if covered {
		run.WindowFrom = run.WindowTo
	}
	switch {
	case run.CancelRequested:
		return settle(run, Canceled, run.Reason, now)
	case run.State == Running && run.Losses+1 >= MaxLosses:
		run.Review, run.Message = true, ReasonLeaseLost
		return settle(run, Failed, ReasonLosses, now)
	case first && !run.Deadline.IsZero() && run.Deadline.Before(now):
		return settle(run, Missed, ReasonDeadline, now)
	case covered && def.UsesWindow:
		run.CoalescedInto = target.LastSuccessKey
		return settle(run, Skipped, ReasonCovered, now)
	case !first && run.Fingerprint != def.Fingerprint:
		run.Review = true
		if run.State == Running {
			run.Message = ReasonLeaseLost
		}
		return settle(run, Failed, ReasonFingerprint, now)
	}
	if first {
		run.StartedAt, run.Fingerprint = now, def.Fingerprint
	}
	run.State, run.Reason, run.Message, run.ExitCode = Running, "", "", nil
	run.Attempt++
	run.Node, run.AttemptStartedAt, run.ClaimAt = node, now, now.Add(lease)
	return run
}

func settle(run Run, state State, reason string, now time.Time) Run {
	run.State, run.Reason, run.ClaimAt, run.FinishedAt = state, reason, time.Time{}, now
	return run
}

// Promote returns which waiting runs of one (job, target) may be claimed now,
// given its open runs oldest first. It is pure.
func Promote(def Definition, open []Run, now time.Time) []Run {
	occupied := 0
	for i := range open {
		if !open[i].Waiting() {
			occupied++
		}
	}
	var out []Run
	for _, run := range open {
		if !run.Waiting() || def.MaxInstances != 0 && occupied >= def.MaxInstances {
			continue
		}
		run.ClaimAt = now
		if run.NotBefore.After(now) {
			run.ClaimAt = run.NotBefore
		}
		out = append(out, run)
		occupied++
	}
	return out
}

// Ended returns target after run has ended in it: the watermark moves to the
// window's end with a success whose window begins at it, and at no other time
// (semantics 3, "Windows make coalescing lossless"). It is pure.
func (t Target) Ended(run Run, windowed bool) Target {
	if run.FinishedAt.IsZero() {
		return t
	}
	t.LastState, t.LastFinishedAt = run.State, run.FinishedAt
	switch run.State {
	case Failed:
		t.Review = t.Review || run.Review
	case Succeeded:
		t.Review = false
		t.LastSuccessAt = run.FinishedAt
		if fire := run.covered(); fire.After(t.LastSuccessFire) {
			t.LastSuccessFire, t.LastSuccessKey = fire, run.Key
		}
		if windowed && !run.OwnWindow && run.WindowFrom.Equal(t.Watermark) && run.WindowTo.After(t.Watermark) {
			t.Watermark = run.WindowTo
		}
	}
	return t
}

// covered is the newest instant that the run stands for.
func (r *Run) covered() time.Time {
	if !r.OwnWindow && r.WindowTo.After(r.FireTime) {
		return r.WindowTo
	}
	return r.FireTime
}
