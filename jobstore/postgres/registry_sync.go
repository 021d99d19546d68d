package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Whoever reconciles takes this row first: two that create the same job would
// find no job row to wait for.
const lockRevision = `SELECT revision FROM tidemark_meta FOR NO KEY UPDATE`

const lockAllJobs = `
SELECT id, version, name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed,
       uses_window, watermark_start, file_paused, last_planned, counts_from, next_fire, due, pruned, pruned_through,
       paused_at, paused_until, pause_reason, paused_by, resumed_at, resume_policy, created_at, removed_at
FROM tidemark_jobs
ORDER BY id
FOR NO KEY UPDATE`

// Later than now(), by what the locks took: no plan in between is judged by an
// older clock than the one that made it.
const selectClock = `SELECT clock_timestamp()`

// Tens of thousands of jobs may be written at once, and no loop waits for it:
// Sync takes so many times as long as other calls may.
const syncTimeouts = 4

// Sync implements jobstore.Registry.
func (s *Store) Sync(ctx context.Context, decide func(jobstore.SyncState) (jobstore.Changes, error)) (out jobstore.SyncState, err error) {
	patient := Store{pool: s.pool, timeout: syncTimeouts * s.timeout}
	err = patient.transact(ctx, "reconcile jobs", func(ctx context.Context, t *txn) error {
		y := reconciling{t: t, jobs: map[int64]*jobstore.Job{}}
		if err := y.read(ctx); err != nil {
			return err
		}
		changes, err := decide(y.state)
		if err != nil {
			return err
		}
		if err := y.apply(ctx, changes); err != nil {
			return err
		}
		b := t.pipeline()
		out = y.state
		if y.changed {
			queueState(b, &out)
		}
		return t.commit(ctx, b)
	})
	if err != nil {
		return jobstore.SyncState{}, err
	}
	slices.SortFunc(out.Jobs, func(a, b jobstore.Job) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func queueState(b *pgx.Batch, state *jobstore.SyncState) {
	b.Queue(lockRevision).QueryRow(func(row pgx.Row) error { return row.Scan(&state.Revision) })
	b.Queue(lockAllJobs).Query(collect(&state.Jobs, jobColumns))
}

// reconciling is one call of Sync.
type reconciling struct {
	t     *txn
	state jobstore.SyncState
	jobs  map[int64]*jobstore.Job // as they become

	changed bool
}

func (y *reconciling) read(ctx context.Context) error {
	b := y.t.pipeline()
	queueState(b, &y.state)
	b.Queue(selectClock).QueryRow(func(row pgx.Row) error { return row.Scan((*instant)(&y.state.Now)) })
	if err := y.t.send(ctx, b); err != nil {
		return err
	}
	for _, job := range y.state.Jobs {
		y.jobs[job.ID] = &job
	}
	return nil
}

const raiseRevision = `UPDATE tidemark_meta SET revision = $1 WHERE revision < $1`

func (y *reconciling) apply(ctx context.Context, c jobstore.Changes) error {
	if err := y.fire(ctx, c.Firings); err != nil {
		return err
	}
	b := y.t.pipeline()
	if c.Revision > y.state.Revision {
		b.Queue(raiseRevision, c.Revision)
	}
	wider, err := y.queueUpdates(b, c.Update)
	if err != nil {
		return err
	}
	y.queueCreates(b, c.Create)
	y.queueFinalNames(b, c.Update)
	removed := y.queueRemovals(b, c.Remove)
	if y.changed = len(c.Firings) > 0 || b.Len() > 0; b.Len() > 0 {
		if err := y.t.send(ctx, b); err != nil {
			return err
		}
	}
	if err := y.skipPending(ctx, removed); err != nil {
		return err
	}
	return y.letGo(ctx, wider)
}

// fire records what the old definitions still owe, and takes over how that
// leaves their jobs.
func (y *reconciling) fire(ctx context.Context, firings []jobstore.Firing) error {
	if len(firings) == 0 {
		return nil
	}
	f := newFiring(jobstore.FireRequest{Firings: firings})
	f.closing, f.wary = true, true
	if err := f.decide(ctx, y.t); err != nil {
		return err
	}
	b := y.t.pipeline()
	f.queueWrites(b)
	if err := y.t.send(ctx, b); err != nil {
		return err
	}
	for _, p := range f.plans {
		job := y.jobs[p.JobID]
		job.Version++
		job.LastPlanned, job.NextFire = p.LastPlanned, p.NextFire
		if end := p.pauseEnd(f.lanes.now); end.After(job.CountsFrom) {
			job.CountsFrom = end
		}
	}
	return nil
}

// A job's own name never holds a slash, so the name in between is nobody's: a
// name may pass from one job to another in any order.
const updateJobs = `
UPDATE tidemark_jobs j SET
    version = j.version + 1, name = CASE WHEN j.name = v.name THEN v.name ELSE '/' || v.id END,
    definition = v.definition, hash = v.hash, schedule = v.schedule,
    fingerprint = v.fingerprint, overlap = v.overlap, coalesce = v.coalesce, max_instances = v.max_instances,
    windowed = v.windowed, uses_window = v.uses_window, watermark_start = v.watermark_start,
    file_paused = v.file_paused, last_planned = v.last_planned, counts_from = v.counts_from,
    next_fire = v.next_fire, wake_at = v.wake_at,
    paused_at = v.paused_at, paused_until = v.paused_until, pause_reason = v.pause_reason, paused_by = v.paused_by,
    resumed_at = v.resumed_at, resume_policy = v.resume_policy, removed_at = v.removed_at
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::integer[], $10::boolean[], $11::boolean[], $12::timestamptz[], $13::boolean[], $14::timestamptz[],
            $15::timestamptz[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[],
            $20::text[], $21::text[], $22::timestamptz[], $23::text[], $24::timestamptz[], $25::bigint[])
    AS v (id, name, definition, hash, schedule, fingerprint, overlap, coalesce,
          max_instances, windowed, uses_window, watermark_start, file_paused, last_planned,
          next_fire, wake_at, counts_from, paused_at, paused_until,
          pause_reason, paused_by, resumed_at, resume_policy, removed_at, version)
WHERE j.id = v.id AND j.version = v.version`

// queueUpdates replaces definitions, and returns the jobs whose waiting runs
// may have got room.
func (y *reconciling) queueUpdates(b *pgx.Batch, updates []jobstore.JobUpdate) (wider []int64, err error) {
	var jobs []jobstore.Job
	for i := range updates {
		u := &updates[i]
		job := y.jobs[u.ID]
		if job == nil {
			return nil, fmt.Errorf("update job %s: %w", u.Name, jobstore.ErrNotFound)
		}
		if job.MaxInstances != u.MaxInstances {
			wider = append(wider, job.ID)
		}
		job.Definition, job.Pause, job.RemovedAt = u.Definition, u.Pause, time.Time{}
		if u.Reschedule {
			job.LastPlanned, job.CountsFrom, job.NextFire = u.LastPlanned, u.LastPlanned, u.NextFire
		}
		jobs = append(jobs, *job)
	}
	queueJobs(b, updateJobs, jobs, y.state.Now)
	return wider, nil
}

// queueJobs binds whole jobs for the statements that write them.
func queueJobs(b *pgx.Batch, sql string, jobs []jobstore.Job, now time.Time) {
	if len(jobs) == 0 {
		return
	}
	type job = jobstore.Job
	type stamptz = pgtype.Timestamptz
	b.Queue(sql,
		column(jobs, func(j *job) int64 { return j.ID }),
		column(jobs, func(j *job) string { return j.Name }),
		column(jobs, func(j *job) string { return string(j.JSON) }),
		column(jobs, func(j *job) string { return j.Hash }),
		column(jobs, func(j *job) string { return string(j.Schedule) }),
		column(jobs, func(j *job) string { return j.Fingerprint }),
		column(jobs, func(j *job) string { return string(j.Overlap) }),
		column(jobs, func(j *job) string { return string(j.Coalesce) }),
		column(jobs, func(j *job) int32 { return int32(j.MaxInstances) }),
		column(jobs, func(j *job) bool { return j.Windowed }),
		column(jobs, func(j *job) bool { return j.UsesWindow }),
		column(jobs, func(j *job) stamptz { return stamp(j.WatermarkStart) }),
		column(jobs, func(j *job) bool { return j.FilePaused }),
		column(jobs, func(j *job) stamptz { return stamp(j.LastPlanned) }),
		column(jobs, func(j *job) stamptz { return stamp(j.NextFire) }),
		column(jobs, func(j *job) stamptz { return stamp(wakeAt(j, now)) }),
		column(jobs, func(j *job) stamptz { return stamp(j.CountsFrom) }),
		column(jobs, func(j *job) stamptz { return stamp(j.Pause.At) }),
		column(jobs, func(j *job) stamptz { return stamp(j.Pause.Until) }),
		column(jobs, func(j *job) string { return text(j.Pause.Reason) }),
		column(jobs, func(j *job) string { return text(j.Pause.By) }),
		column(jobs, func(j *job) stamptz { return stamp(j.Pause.ResumedAt) }),
		column(jobs, func(j *job) string { return string(j.Pause.Policy) }),
		column(jobs, func(j *job) stamptz { return stamp(j.RemovedAt) }),
		column(jobs, func(j *job) int64 { return j.Version }))
}

const insertJobs = `
INSERT INTO tidemark_jobs (
    name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed, uses_window,
    watermark_start, file_paused, last_planned, next_fire, wake_at, counts_from, paused_at, paused_until, pause_reason,
    paused_by, resumed_at, resume_policy, created_at)
SELECT name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed, uses_window,
       watermark_start, file_paused, last_planned, next_fire, wake_at, counts_from, paused_at, paused_until, pause_reason,
       paused_by, resumed_at, resume_policy, now()
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::integer[], $10::boolean[], $11::boolean[], $12::timestamptz[], $13::boolean[], $14::timestamptz[],
            $15::timestamptz[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[],
            $20::text[], $21::text[], $22::timestamptz[], $23::text[], $24::timestamptz[], $25::bigint[])
    WITH ORDINALITY
    AS v (id, name, definition, hash, schedule, fingerprint, overlap, coalesce,
          max_instances, windowed, uses_window, watermark_start, file_paused, last_planned,
          next_fire, wake_at, counts_from, paused_at, paused_until,
          pause_reason, paused_by, resumed_at, resume_policy, removed_at, version, place)
ORDER BY place`

func (y *reconciling) queueCreates(b *pgx.Batch, creates []jobstore.NewJob) {
	jobs := make([]jobstore.Job, len(creates))
	for i, n := range creates {
		jobs[i] = jobstore.Job{
			Definition: n.Definition, LastPlanned: n.LastPlanned, CountsFrom: n.LastPlanned, NextFire: n.NextFire,
			Pause: n.Pause,
		}
	}
	queueJobs(b, insertJobs, jobs, y.state.Now)
}

const renameJobs = `
UPDATE tidemark_jobs j SET name = v.name
FROM unnest($1::bigint[], $2::text[]) AS v (id, name)
WHERE j.id = v.id AND j.name <> v.name`

// queueFinalNames gives jobs that were renamed their names, which are free now.
func (y *reconciling) queueFinalNames(b *pgx.Batch, updates []jobstore.JobUpdate) {
	was := map[int64]string{}
	for _, job := range y.state.Jobs {
		was[job.ID] = job.Name
	}
	var ids []int64
	var names []string
	for i := range updates {
		if u := &updates[i]; was[u.ID] != u.Name {
			ids, names = append(ids, u.ID), append(names, u.Name)
		}
	}
	if len(ids) > 0 {
		b.Queue(renameJobs, ids, names)
	}
}

const removeJobs = `
UPDATE tidemark_jobs SET version = version + 1, removed_at = $2, next_fire = NULL, wake_at = NULL
WHERE id = ANY ($1::bigint[]) AND removed_at IS NULL`

func (y *reconciling) queueRemovals(b *pgx.Batch, ids []int64) (removed []int64) {
	for _, id := range ids {
		if job := y.jobs[id]; job != nil && job.RemovedAt.IsZero() {
			removed = append(removed, id)
		}
	}
	if len(removed) > 0 {
		b.Queue(removeJobs, removed, stamp(y.state.Now))
	}
	return removed
}

const lockTargetsOfJobs = `
SELECT t.job_id, t.target, t.watermark, t.last_state, t.last_finished_at, t.last_success_at,
       t.last_success_fire, t.last_success_key, t.review
FROM tidemark_targets t
WHERE t.job_id = ANY ($1::bigint[])
ORDER BY t.job_id, t.target
FOR NO KEY UPDATE`

const skipPendingRuns = `
UPDATE tidemark_runs SET state = 'skipped', reason = 'removed', claim_at = NULL, finished_at = $2
WHERE state = 'pending' AND id IN (
    SELECT id FROM tidemark_runs WHERE job_id = ANY ($1::bigint[]) AND claim_at IS NOT NULL
    UNION ALL
    SELECT id FROM tidemark_runs WHERE job_id = ANY ($1::bigint[]) AND claim_at IS NULL AND finished_at IS NULL)`

// skipPending ends what removed jobs have waiting. That says nothing about the
// work, so it is not their targets' last outcome.
func (y *reconciling) skipPending(ctx context.Context, jobs []int64) error {
	if len(jobs) == 0 {
		return nil
	}
	b := y.t.pipeline()
	b.Queue(lockTargetsOfJobs, jobs)
	b.Queue(skipPendingRuns, jobs, stamp(y.state.Now))
	return y.t.send(ctx, b)
}

const selectWaitingLanes = `
SELECT DISTINCT job_id, target FROM tidemark_runs
WHERE job_id = ANY ($1::bigint[]) AND claim_at IS NULL AND finished_at IS NULL`

// letGo lets waiting runs go where another bound gives them room.
func (y *reconciling) letGo(ctx context.Context, jobs []int64) error {
	if len(jobs) == 0 {
		return nil
	}
	var keys []laneKey
	b := y.t.pipeline()
	b.Queue(selectWaitingLanes, jobs).Query(collect(&keys, func(k *laneKey) []any { return []any{&k.job, &k.target} }))
	if err := y.t.send(ctx, b); err != nil || len(keys) == 0 {
		return err
	}
	slices.SortFunc(keys, laneKey.compare)
	l := newLanes()
	l.now, l.jobs = y.state.Now, y.jobs
	b = y.t.pipeline()
	l.queueTargets(b, lockTargets, keys)
	l.queueOpen(b, selectCrowd, keys)
	if err := y.t.send(ctx, b); err != nil {
		return err
	}
	if let := l.promote(); len(let) > 0 {
		b = y.t.pipeline()
		queueUpdateRuns(b, let)
		b.Queue(notify)
		return y.t.send(ctx, b)
	}
	return nil
}
