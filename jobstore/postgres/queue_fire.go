package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

const selectDue = `
SELECT id, version, name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed,
       uses_window, watermark_start, file_paused, last_planned, counts_from, next_fire, due, pruned, pruned_through,
       paused_at, paused_until, pause_reason, paused_by, resumed_at, resume_policy, created_at, removed_at
FROM tidemark_jobs
WHERE wake_at <= now() AND id <> ALL ($1::bigint[])
ORDER BY wake_at
LIMIT $2::bigint`

const selectNextDue = `
SELECT now(), min(wake_at) FROM tidemark_jobs WHERE wake_at > now() AND id <> ALL ($1::bigint[])`

// Due implements jobstore.Queue.
func (s *Store) Due(ctx context.Context, req jobstore.DueRequest) (due jobstore.Due, err error) {
	exclude := append([]int64{}, req.Exclude...)
	b := &pgx.Batch{}
	b.Queue(selectDue, exclude, req.Limit+1).Query(collect(&due.Jobs, jobColumns))
	b.Queue(selectNextDue, exclude).QueryRow(func(row pgx.Row) error {
		return row.Scan((*instant)(&due.Now), (*instant)(&due.Next))
	})
	if err := s.run(ctx, "look for due jobs", b); err != nil {
		return jobstore.Due{}, err
	}
	if len(due.Jobs) > req.Limit {
		due.Jobs, due.Next = due.Jobs[:req.Limit], due.Now
	}
	return due, nil
}

// wakeAt is when the planner must look at a job: at its next fire time or, for
// one that is paused, at the end of the pause, so that what the pause passed
// over is recorded at once, however far the next fire time is. Zero: not at all.
func wakeAt(job *jobstore.Job, now time.Time) time.Time {
	end, over := job.Pause.End(now)
	switch {
	case !job.RemovedAt.IsZero():
		return time.Time{}
	case over:
		return end
	case !job.Pause.At.IsZero():
		return job.Pause.Until
	}
	return job.NextFire
}

// Fire implements jobstore.Queue. It takes two round trips, and one more where
// a run would have to wait for another, or may exist already.
func (s *Store) Fire(ctx context.Context, req jobstore.FireRequest) (out jobstore.Fired, err error) {
	wary := false
	err = s.transact(ctx, "record plans", func(ctx context.Context, t *txn) error {
		f := newFiring(req)
		f.wary = wary
		if err := f.decide(ctx, t); err != nil {
			return err
		}
		b := t.pipeline()
		f.queueWrites(b)
		if err := t.commit(ctx, b); err != nil {
			if taken(err) && !wary {
				wary = true
				return errChanged
			}
			return err
		}
		out = f.fired()
		return nil
	})
	return out, err
}

// firing is one call of Fire, or what reconciling does of it.
type firing struct {
	req     jobstore.FireRequest
	closing bool // what old definitions owe is recorded of paused jobs too
	wary    bool // runs of the plans may exist already
	lanes   *lanes
	known   known

	plans    []firedPlan
	incoming map[laneKey][]jobstore.Run
	added    []*jobstore.Run // in the order given
	changed  []jobstore.Run  // waiting ones that were there before
	left     bool
}

// firedPlan is a plan that won the race for its job.
type firedPlan struct {
	*jobstore.Firing
	job *jobstore.Job
	due int64 // instants that are news
}

func newFiring(req jobstore.FireRequest) *firing {
	return &firing{req: req, lanes: newLanes(), known: newKnown(), incoming: map[laneKey][]jobstore.Run{}}
}

// The jobs that are as they were when they were planned. Who waits here for
// another node sees the version that it left behind, and gets nothing.
const lockPlanned = `
SELECT j.id, j.version, j.name, j.hash, j.fingerprint, j.overlap, j.coalesce, j.max_instances, j.windowed,
       j.uses_window, j.watermark_start, j.last_planned, j.pruned_through, j.paused_at, j.paused_until, j.resumed_at,
       j.removed_at
FROM tidemark_jobs j
JOIN unnest($1::bigint[], $2::bigint[]) AS p (id, version) ON p.id = j.id AND p.version = j.version
WHERE j.removed_at IS NULL
ORDER BY j.id
FOR NO KEY UPDATE OF j`

// decide locks and reads, and applies the plans in memory.
func (f *firing) decide(ctx context.Context, t *txn) error {
	b := t.pipeline()
	keys := f.laneKeys()
	b.Queue(lockPlanned,
		column(f.req.Firings, func(p *jobstore.Firing) int64 { return p.JobID }),
		column(f.req.Firings, func(p *jobstore.Firing) int64 { return p.Version }),
	).Query(f.lanes.takeRules)
	queueNow(b, &f.lanes.now)
	if len(keys) > 0 {
		// Each statement sees the state at its own start. In this order a run that
		// ends in between is either still seen, and looked at again under the
		// lock, or its watermark is seen too.
		f.lanes.queueOpen(b, selectOpen, keys)
		f.lanes.queueTargets(b, selectTargets, keys)
	}
	if err := t.send(ctx, b); err != nil {
		return err
	}
	if len(keys) > 0 && (f.wary || f.looksBack()) {
		b := t.pipeline()
		f.known.queue(b, f.req.Firings)
		if err := t.send(ctx, b); err != nil {
			return err
		}
	}
	f.choose()
	contended := f.admit(nil)
	if len(contended) > 0 {
		b := t.pipeline()
		f.lanes.queueTargets(b, lockTargets, contended)
		f.lanes.queueOpen(b, selectCrowd, contended)
		if err := t.send(ctx, b); err != nil {
			return err
		}
		f.admit(contended)
	}
	f.lease()
	return nil
}

// looksBack reports whether a plan goes over instants that were planned before.
// Others are news: whoever planned them would have moved the job on.
func (f *firing) looksBack() bool {
	for i := range f.req.Firings {
		p := &f.req.Firings[i]
		job := f.lanes.jobs[p.JobID]
		for j := range p.Runs {
			if job != nil && !p.Runs[j].FireTime.After(job.LastPlanned) {
				return true
			}
		}
	}
	return false
}

func (f *firing) laneKeys() (keys []laneKey) {
	seen := map[laneKey]bool{}
	for i := range f.req.Firings {
		p := &f.req.Firings[i]
		for j := range p.Runs {
			key := laneKey{p.JobID, p.Runs[j].Target}
			if !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// choose picks the plans that hold, and of their runs those that are news.
func (f *firing) choose() {
	fired := map[int64]bool{}
	for i := range f.req.Firings {
		p := &f.req.Firings[i]
		job := f.lanes.jobs[p.JobID]
		if job == nil || job.Version != p.Version || fired[p.JobID] || job.Pause.Active(f.lanes.now) && !f.closing {
			continue
		}
		fired[p.JobID] = true
		news, old := f.known.news(job, p)
		for _, n := range news {
			key := laneKey{job.ID, n.Target}
			f.incoming[key] = append(f.incoming[key], n.Run(*job, f.lanes.now))
		}
		f.plans = append(f.plans, firedPlan{Firing: p, job: job, due: p.Due - old})
	}
}

// admit applies the overlap rule to the given lanes, which are locked, or to
// all, and returns those that have to be locked first.
func (f *firing) admit(locked []laneKey) (contended []laneKey) {
	keys := locked
	if keys == nil {
		for key := range f.incoming {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		n := f.lanes.lane(key)
		adm := jobstore.Admit(n.job.Definition, n.open, f.incoming[key], f.lanes.now)
		if locked == nil && n.stored && (adm.Contended || n.unmarked()) {
			contended = append(contended, key)
			continue
		}
		n.enter()
		f.incoming[key] = adm.Insert
		f.changed = append(f.changed, adm.Update...)
	}
	return contended
}

// lease gives the caller the new runs that may start at once, as far as its
// slots go. One that may not start any more is left for Claim to settle, which
// holds the target's lock.
func (f *firing) lease() {
	byKey := map[string]*jobstore.Run{}
	for _, runs := range f.incoming {
		for i := range runs {
			byKey[runs[i].Key] = &runs[i]
		}
	}
	slots := f.req.Slots
	for _, p := range f.plans {
		for i := range p.Runs {
			run := byKey[p.Runs[i].Key]
			if run == nil {
				continue
			}
			delete(byKey, run.Key)
			f.added = append(f.added, run)
			if run.State != jobstore.Pending || run.ClaimAt.IsZero() || run.ClaimAt.After(f.lanes.now) {
				continue
			}
			if slots > 0 && f.begin(run) {
				slots--
			} else {
				f.left = true
			}
		}
	}
}

// begin leases a run to the caller, if it may start.
func (f *firing) begin(run *jobstore.Run) bool {
	n := f.lanes.lane(laneKey{run.JobID, run.Target})
	begun := jobstore.Begin(*run, n.job.Definition, n.target, f.req.Node, f.lanes.now, f.req.Lease)
	if begun.State != jobstore.Running {
		return false
	}
	*run = begun
	return true
}

const updatePlanned = `
UPDATE tidemark_jobs j SET
    version = j.version + 1, last_planned = v.last_planned, next_fire = v.next_fire, wake_at = v.wake_at,
    due = j.due + v.due,
    counts_from   = greatest(j.counts_from, v.pause_end),
    paused_at     = CASE WHEN v.pause_end IS NOT NULL THEN NULL ELSE j.paused_at END,
    paused_until  = CASE WHEN v.pause_end IS NOT NULL THEN NULL ELSE j.paused_until END,
    pause_reason  = CASE WHEN v.pause_end IS NOT NULL THEN '' ELSE j.pause_reason END,
    paused_by     = CASE WHEN v.pause_end IS NOT NULL THEN '' ELSE j.paused_by END,
    resumed_at    = CASE WHEN v.pause_end IS NOT NULL THEN NULL ELSE j.resumed_at END,
    resume_policy = CASE WHEN v.pause_end IS NOT NULL THEN '' ELSE j.resume_policy END
FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::bigint[],
            $7::timestamptz[])
    AS v (id, version, last_planned, next_fire, wake_at, due, pause_end)
WHERE j.id = v.id AND j.version = v.version`

// queueWrites writes what decide decided.
func (f *firing) queueWrites(b *pgx.Batch) {
	if len(f.plans) == 0 {
		return
	}
	b.Queue(updatePlanned,
		column(f.plans, func(p *firedPlan) int64 { return p.JobID }),
		column(f.plans, func(p *firedPlan) int64 { return p.Version }),
		column(f.plans, func(p *firedPlan) pgtype.Timestamptz { return stamp(p.LastPlanned) }),
		column(f.plans, func(p *firedPlan) pgtype.Timestamptz { return stamp(p.NextFire) }),
		column(f.plans, func(p *firedPlan) pgtype.Timestamptz { return stamp(p.wakeAt(f.lanes.now)) }),
		column(f.plans, func(p *firedPlan) int64 { return p.due }),
		column(f.plans, func(p *firedPlan) pgtype.Timestamptz { return stamp(p.pauseEnd(f.lanes.now)) }))
	f.lanes.queueTargetWrites(b)
	queueInsertRuns(b, f.added)
	queueUpdateRuns(b, f.changed)
	f.queueRanges(b)
	if f.left {
		b.Queue(notify)
	}
}

// wakeAt is the job's after the plan.
func (p *firedPlan) wakeAt(now time.Time) time.Time {
	after := jobstore.Job{NextFire: p.NextFire, Pause: p.job.Pause}
	if p.EndPause {
		after.Pause = jobstore.Pause{}
	}
	return wakeAt(&after, now)
}

// pauseEnd is when the pause ended that the plan clears; zero: it clears none.
func (p *firedPlan) pauseEnd(now time.Time) time.Time {
	end, _ := p.job.Pause.End(now)
	if !p.EndPause || end.IsZero() {
		return time.Time{}
	}
	return end
}

const insertRanges = `
INSERT INTO tidemark_ranges (job_id, first, last, count, outcome, reason, into_fire, recorded_at)
SELECT *, now() FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[],
                            $7::timestamptz[])`

func (f *firing) queueRanges(b *pgx.Batch) {
	var ranges []jobstore.Range
	for _, p := range f.plans {
		for _, r := range p.Ranges {
			r.JobID = p.JobID
			ranges = append(ranges, r)
		}
	}
	if len(ranges) == 0 {
		return
	}
	b.Queue(insertRanges,
		column(ranges, func(r *jobstore.Range) int64 { return r.JobID }),
		column(ranges, func(r *jobstore.Range) pgtype.Timestamptz { return stamp(r.First) }),
		column(ranges, func(r *jobstore.Range) pgtype.Timestamptz { return stamp(r.Last) }),
		column(ranges, func(r *jobstore.Range) int64 { return r.Count }),
		column(ranges, func(r *jobstore.Range) string { return string(r.Outcome) }),
		column(ranges, func(r *jobstore.Range) string { return r.Reason }),
		column(ranges, func(r *jobstore.Range) pgtype.Timestamptz { return stamp(r.Into) }))
}

// fired is the answer, once all is written.
func (f *firing) fired() jobstore.Fired {
	out := jobstore.Fired{Now: f.lanes.now, Left: f.left}
	for _, p := range f.plans {
		out.Jobs = append(out.Jobs, p.JobID)
	}
	out.Leased = make([]jobstore.Run, 0, min(len(f.added), max(f.req.Slots, 0)))
	for _, run := range f.added {
		switch run.State {
		case jobstore.Running:
			out.Leased = append(out.Leased, *run)
		case jobstore.Coalesced:
			out.Coalesced = append(out.Coalesced, *run)
		}
	}
	for _, run := range f.changed {
		if run.State == jobstore.Coalesced {
			out.Coalesced = append(out.Coalesced, run)
		}
	}
	return out
}
