package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

// lane is one (job, target) in a transaction: its row and its open runs, oldest
// first. The rules of jobstore are applied to it in memory.
type lane struct {
	job    *jobstore.Job
	target jobstore.Target
	stored bool // the target has its row
	held   bool // and the transaction has locked it
	dirty  bool // and it has to be written
	clear  bool // earlier failures need no person any more
	keep   []int64
	open   []jobstore.Run
}

type laneKey struct {
	job    int64
	target string
}

func (k laneKey) compare(o laneKey) int {
	return cmp.Or(cmp.Compare(k.job, o.job), cmp.Compare(k.target, o.target))
}

// lanes are those that a transaction works on.
type lanes struct {
	now   time.Time
	jobs  map[int64]*jobstore.Job
	byKey map[laneKey]*lane
}

func newLanes() *lanes {
	return &lanes{jobs: map[int64]*jobstore.Job{}, byKey: map[laneKey]*lane{}}
}

// lane is that of the job and target, begun if need be.
func (l *lanes) lane(key laneKey) *lane {
	n := l.byKey[key]
	if n == nil {
		n = &lane{target: jobstore.Target{JobID: key.job, Target: key.target}}
		l.byKey[key] = n
	}
	if n.job == nil {
		n.job = l.jobs[key.job]
	}
	return n
}

func (l *lanes) keys() []laneKey {
	keys := make([]laneKey, 0, len(l.byKey))
	for key := range l.byKey {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, laneKey.compare)
	return keys
}

// Rules of jobs, as a transaction that holds no lock on them sees them.
const selectRules = `
SELECT id, version, name, hash, fingerprint, overlap, coalesce, max_instances, windowed, uses_window,
       watermark_start, last_planned, pruned_through, paused_at, paused_until, resumed_at, removed_at
FROM tidemark_jobs
WHERE id = ANY ($1::bigint[])`

func (l *lanes) queueRules(b *pgx.Batch, ids []int64) {
	b.Queue(selectRules, ids).Query(l.takeRules)
}

func (l *lanes) takeRules(rows pgx.Rows) error {
	return each(rows, ruleColumns, l.takeJob)
}

func (l *lanes) takeJob(row *jobstore.Job) {
	job := *row
	l.jobs[job.ID] = &job
}

// As much of it as letting runs go takes.
const selectBounds = `
SELECT id, name, max_instances, windowed
FROM tidemark_jobs
WHERE id = ANY ($1::bigint[])`

func (l *lanes) queueBounds(b *pgx.Batch, ids []int64) {
	b.Queue(selectBounds, ids).Query(func(rows pgx.Rows) error {
		return each(rows, func(job *jobstore.Job) []any {
			return []any{&job.ID, &job.Name, &job.MaxInstances, &job.Windowed}
		}, l.takeJob)
	})
}

const selectTargets = `
SELECT t.job_id, t.target, t.watermark, t.last_state, t.last_finished_at, t.last_success_at,
       t.last_success_fire, t.last_success_key, t.review
FROM unnest($1::bigint[], $2::text[]) AS l (job_id, target)
JOIN tidemark_targets t ON t.job_id = l.job_id AND t.target = l.target`

// In the order of their keys, so that two transactions never wait for each other.
const lockTargets = `
SELECT t.job_id, t.target, t.watermark, t.last_state, t.last_finished_at, t.last_success_at,
       t.last_success_fire, t.last_success_key, t.review
FROM unnest($1::bigint[], $2::text[]) AS l (job_id, target)
JOIN tidemark_targets t ON t.job_id = l.job_id AND t.target = l.target
ORDER BY t.job_id, t.target
FOR NO KEY UPDATE OF t`

func (l *lanes) queueTargets(b *pgx.Batch, sql string, keys []laneKey) {
	jobs, targets := split(keys)
	b.Queue(sql, jobs, targets).Query(func(rows pgx.Rows) error {
		return l.takeTargets(rows, sql != selectTargets)
	})
}

func (l *lanes) takeTargets(rows pgx.Rows, held bool) error {
	return each(rows, targetColumns, func(row *jobstore.Target) {
		n := l.lane(laneKey{row.JobID, row.Target})
		n.target, n.stored, n.held = *row, true, held
	})
}

// Of lanes that are there: the runs that have their turn, which are as many as
// their job allows at most, and one of those that wait, if any do.
const selectOpen = `
SELECT r.id, r.key, r.job_id, '', r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM unnest($1::bigint[], $2::text[]) AS l (job_id, target)
JOIN tidemark_targets t ON t.job_id = l.job_id AND t.target = l.target
CROSS JOIN LATERAL (
    (SELECT * FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NOT NULL
     LIMIT (SELECT max_instances FROM tidemark_jobs WHERE id = l.job_id))
    UNION ALL
    (SELECT * FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NULL AND o.finished_at IS NULL
     LIMIT 1)
) r`

// Of a crowd, what Admit and Promote need to see: as many that have their turn
// as the bound, as many of the oldest that wait (all, where there is no bound
// any more), and the scheduled one that waited last.
const selectCrowd = `
SELECT r.id, r.key, r.job_id, '', r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM unnest($1::bigint[], $2::text[]) AS l (job_id, target)
CROSS JOIN LATERAL (
    (SELECT o.id FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NOT NULL
     LIMIT (SELECT max_instances FROM tidemark_jobs WHERE id = l.job_id))
    UNION
    (SELECT o.id FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NULL AND o.finished_at IS NULL
     ORDER BY o.fire_time, o.id LIMIT (SELECT nullif(max_instances, 0) FROM tidemark_jobs WHERE id = l.job_id))
    UNION
    (SELECT o.id FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NULL AND o.finished_at IS NULL
       AND o.trigger <> 'manual'
     ORDER BY o.fire_time DESC, o.id DESC LIMIT 1)
) o
JOIN tidemark_runs r ON r.id = o.id`

// The same, of lanes in which some wait: mostly none.
const selectWaiting = `
SELECT r.id, r.key, r.job_id, '', r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM unnest($1::bigint[], $2::text[]) AS l (job_id, target)
CROSS JOIN LATERAL (
    SELECT FROM tidemark_runs o
    WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NULL AND o.finished_at IS NULL
    LIMIT 1
) AS waits
CROSS JOIN LATERAL (
    (SELECT o.id FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NOT NULL
     LIMIT (SELECT max_instances FROM tidemark_jobs WHERE id = l.job_id))
    UNION
    (SELECT o.id FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NULL AND o.finished_at IS NULL
     ORDER BY o.fire_time, o.id LIMIT (SELECT nullif(max_instances, 0) FROM tidemark_jobs WHERE id = l.job_id))
    UNION
    (SELECT o.id FROM tidemark_runs o
     WHERE o.job_id = l.job_id AND o.target = l.target AND o.claim_at IS NULL AND o.finished_at IS NULL
       AND o.trigger <> 'manual'
     ORDER BY o.fire_time DESC, o.id DESC LIMIT 1)
) o
JOIN tidemark_runs r ON r.id = o.id`

// queueOpen reads the lanes' open runs anew.
func (l *lanes) queueOpen(b *pgx.Batch, sql string, keys []laneKey) {
	jobs, targets := split(keys)
	b.Queue(sql, jobs, targets).Query(func(rows pgx.Rows) error {
		for _, key := range keys {
			l.lane(key).open = nil
		}
		err := each(rows, runColumns, func(run *jobstore.Run) {
			n := l.lane(laneKey{run.JobID, run.Target})
			if n.job != nil {
				run.Job = n.job.Name
			}
			n.open = append(n.open, *run)
		})
		for _, key := range keys {
			slices.SortFunc(l.lane(key).open, olderRun)
		}
		return err
	})
}

func split(keys []laneKey) (jobs []int64, targets []string) {
	return column(keys, func(k *laneKey) int64 { return k.job }),
		column(keys, func(k *laneKey) string { return k.target })
}

func olderRun(a, b jobstore.Run) int {
	return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.ID, b.ID))
}

// enter sees to the target's row: its watermark begins where the file says, or
// where planning stood before the plan that first saw it.
func (n *lane) enter() {
	n.dirty = n.dirty || !n.stored
	if n.unmarked() {
		n.target.Watermark = n.job.WatermarkStart
		if n.target.Watermark.IsZero() {
			n.target.Watermark = n.job.LastPlanned
		}
		n.dirty = true
	}
}

// unmarked reports whether the target lacks the watermark that it should have.
func (n *lane) unmarked() bool { return n.job.Windowed && n.target.Watermark.IsZero() }

// end notes what a run that has ended means for the target.
func (n *lane) end(run jobstore.Run) {
	review := n.target.Review
	n.target = n.target.Ended(run, n.job.Windowed)
	n.dirty = true
	if run.State == jobstore.Succeeded {
		n.clear, n.keep = n.clear || review, nil
	}
	if run.Review {
		n.keep = append(n.keep, run.ID)
	}
}

// promote returns the waiting runs that have their turn, in all lanes.
func (l *lanes) promote() (out []jobstore.Run) {
	for _, key := range l.keys() {
		n := l.byKey[key]
		if len(n.open) > 0 {
			out = append(out, jobstore.Promote(n.job.Definition, n.open, l.now)...)
		}
	}
	return out
}

const insertTargets = `
INSERT INTO tidemark_targets (job_id, target, watermark)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::timestamptz[])
ON CONFLICT (job_id, target) DO NOTHING`

const updateTargets = `
UPDATE tidemark_targets t SET
    watermark = v.watermark, last_state = v.last_state, last_finished_at = v.last_finished_at,
    last_success_at = v.last_success_at, last_success_fire = v.last_success_fire,
    last_success_key = v.last_success_key, review = v.review
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::text[], $5::timestamptz[], $6::timestamptz[],
            $7::timestamptz[], $8::text[], $9::boolean[])
    AS v (job_id, target, watermark, last_state, last_finished_at, last_success_at, last_success_fire,
          last_success_key, review)
WHERE t.job_id = v.job_id AND t.target = v.target`

// A success clears the failures before it.
const clearReview = `
UPDATE tidemark_runs r SET review = false
FROM unnest($1::bigint[], $2::text[]) AS l (job_id, target)
WHERE r.job_id = l.job_id AND r.target = l.target AND r.review AND r.id <> ALL ($3::bigint[])`

// queueTargetWrites writes the targets that have changed.
func (l *lanes) queueTargetWrites(b *pgx.Batch) {
	var added, changed []jobstore.Target
	var cleared []laneKey
	keep := []int64{}
	for _, key := range l.keys() {
		n := l.byKey[key]
		switch {
		case n.dirty && n.stored:
			changed = append(changed, n.target)
		case n.dirty:
			added = append(added, n.target)
		}
		if n.clear {
			cleared, keep = append(cleared, key), append(keep, n.keep...)
		}
	}
	if len(added) > 0 {
		b.Queue(insertTargets,
			column(added, func(t *jobstore.Target) int64 { return t.JobID }),
			column(added, func(t *jobstore.Target) string { return t.Target }),
			column(added, func(t *jobstore.Target) pgtype.Timestamptz { return stamp(t.Watermark) }))
	}
	if len(changed) > 0 {
		b.Queue(updateTargets,
			column(changed, func(t *jobstore.Target) int64 { return t.JobID }),
			column(changed, func(t *jobstore.Target) string { return t.Target }),
			column(changed, func(t *jobstore.Target) pgtype.Timestamptz { return stamp(t.Watermark) }),
			column(changed, func(t *jobstore.Target) string { return string(t.LastState) }),
			column(changed, func(t *jobstore.Target) pgtype.Timestamptz { return stamp(t.LastFinishedAt) }),
			column(changed, func(t *jobstore.Target) pgtype.Timestamptz { return stamp(t.LastSuccessAt) }),
			column(changed, func(t *jobstore.Target) pgtype.Timestamptz { return stamp(t.LastSuccessFire) }),
			column(changed, func(t *jobstore.Target) string { return t.LastSuccessKey }),
			column(changed, func(t *jobstore.Target) bool { return t.Review }))
	}
	if len(cleared) > 0 {
		jobs, targets := split(cleared)
		b.Queue(clearReview, jobs, targets, keep)
	}
}
