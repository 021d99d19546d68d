package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	pruneRows = 1000 // of a kind that one call takes, more or less
	pruneJobs = 100  // that one transaction looks at
)

// Prune implements jobstore.History. Of each job it forgets a beginning of its
// time line: up to a mark before which every instant has ended long enough ago,
// so that what is behind the mark is a count and what is after it is whole. Open
// runs stay, and all after them; a failure for review goes like any other run
// once it is old enough. Manual runs are in no ledger and go by their own age.
// Jobs that another node is pruning are left to it.
func (s *Store) Prune(ctx context.Context, runsBefore, outputBefore time.Time) (more bool, err error) {
	left, after := pruneRows, int64(0)
	for left > 0 {
		p := pruning{before: jobstore.Instant(runsBefore)}
		err := s.transact(ctx, "prune", func(ctx context.Context, t *txn) error {
			p = pruning{before: p.before}
			return p.page(ctx, t, after, left)
		})
		if err != nil {
			return false, err
		}
		if len(p.jobs) == 0 {
			break
		}
		left -= p.gone
		more = more || p.cut && p.gone > 0
		after = p.jobs[len(p.jobs)-1]
	}
	outputs, err := s.pruneOutputs(ctx, outputBefore)
	return more || left <= 0 || outputs, err
}

// pruning is one transaction of Prune.
type pruning struct {
	before time.Time
	jobs   []int64
	lines  map[int64]*timeLine
	cut    bool // there is more of some job's time line than was looked at
	gone   int  // rows
}

// timeLine is the oldest part of a job's history, oldest first.
type timeLine struct {
	runs   []oldRun
	ranges []jobstore.Range
}

type oldRun struct {
	id             int64
	fire, finished time.Time
	manual         bool
}

const lockPrunable = `
SELECT j.id
FROM tidemark_jobs j
WHERE j.id > $1 AND (
    EXISTS (SELECT FROM tidemark_runs r WHERE r.job_id = j.id AND r.fire_time < $2)
    OR EXISTS (SELECT FROM tidemark_ranges g WHERE g.job_id = j.id AND g.last < $2)
    OR j.removed_at < $2)
ORDER BY j.id
LIMIT $3::bigint
FOR NO KEY UPDATE SKIP LOCKED`

// All runs of a fire time or none: they go together.
const selectOldRuns = `
SELECT r.job_id, r.id, r.fire_time, r.finished_at, r.trigger = 'manual'
FROM unnest($1::bigint[]) AS j (id)
CROSS JOIN LATERAL (
    SELECT * FROM tidemark_runs o
    WHERE o.job_id = j.id AND o.fire_time < $2
    ORDER BY o.fire_time FETCH FIRST ($3::bigint) ROWS WITH TIES
) r
ORDER BY r.job_id, r.fire_time`

const selectOldRanges = `
SELECT g.id, g.job_id, g.first, g.last, g.count, g.outcome, g.reason, g.into_fire, g.recorded_at
FROM unnest($1::bigint[]) AS j (id)
CROSS JOIN LATERAL (
    SELECT * FROM tidemark_ranges o
    WHERE o.job_id = j.id AND o.first < $2
    ORDER BY o.first FETCH FIRST ($3::bigint) ROWS WITH TIES
) g
ORDER BY g.job_id, g.first`

// page looks at the next jobs after the given one, and takes about limit rows.
func (p *pruning) page(ctx context.Context, t *txn, after int64, limit int) error {
	b := t.pipeline()
	b.Queue(lockPrunable, after, stamp(p.before), pruneJobs).Query(collect(&p.jobs, only))
	if err := t.send(ctx, b); err != nil || len(p.jobs) == 0 {
		return err
	}
	p.lines = make(map[int64]*timeLine, len(p.jobs))
	for _, id := range p.jobs {
		p.lines[id] = &timeLine{}
	}
	share := max(1, limit/len(p.jobs))
	b = t.pipeline()
	b.Queue(selectOldRuns, p.jobs, stamp(p.before), share).Query(p.takeRuns)
	b.Queue(selectOldRanges, p.jobs, stamp(p.before), share).Query(func(rows pgx.Rows) error {
		return each(rows, rangeColumns, func(r *jobstore.Range) {
			p.lines[r.JobID].ranges = append(p.lines[r.JobID].ranges, *r)
		})
	})
	if err := t.send(ctx, b); err != nil {
		return err
	}
	b = t.pipeline()
	p.queueDeletes(b, share)
	return t.commit(ctx, b)
}

func (p *pruning) takeRuns(rows pgx.Rows) error {
	var job int64
	var run oldRun
	dest := []any{&job, &run.id, (*instant)(&run.fire), (*instant)(&run.finished), &run.manual}
	_, err := pgx.ForEachRow(rows, dest, func() error {
		p.lines[job].runs = append(p.lines[job].runs, run)
		return nil
	})
	return err
}

// forgotten is what goes of one job.
type forgotten struct {
	job    int64
	mark   time.Time // zero: nothing of the ledger
	count  int64     // instants that are only a count from now on
	runs   []int64
	ranges []int64
}

// forget decides what of a job's time line goes. each is how many runs, and how
// many ranges, were asked for: where as many came there are more. It is pure.
func (l *timeLine) forget(before time.Time, each int) (out forgotten, cut bool) {
	wall := l.wall(before, each)
	last := time.Time{}
	for _, r := range l.runs {
		ended := !r.finished.IsZero() && r.finished.Before(before)
		switch {
		case r.manual && ended:
			out.runs = append(out.runs, r.id)
		case !r.manual && r.fire.Before(wall):
			out.runs = append(out.runs, r.id)
			if !r.fire.Equal(last) {
				last, out.mark = r.fire, r.fire
				out.count++
			}
		}
	}
	for _, r := range l.ranges {
		if r.Last.Before(wall) {
			out.ranges = append(out.ranges, r.ID)
			out.count += r.Count
			if r.Last.After(out.mark) {
				out.mark = r.Last
			}
		}
	}
	return out, len(l.runs) >= each || len(l.ranges) >= each
}

// wall is the earliest instant that stays. It stands in no range.
func (l *timeLine) wall(before time.Time, each int) time.Time {
	wall := before
	lower := func(t time.Time) {
		if t.Before(wall) {
			wall = t
		}
	}
	for _, r := range l.runs {
		if !r.manual && (r.finished.IsZero() || !r.finished.Before(before)) {
			lower(r.fire)
		}
	}
	for _, r := range l.ranges {
		if !r.RecordedAt.Before(before) {
			lower(r.First)
		}
	}
	// Of what lies after the last that was read nothing is known.
	if n := len(l.runs); n >= each {
		lower(l.runs[n-1].fire.Add(time.Microsecond))
	}
	if n := len(l.ranges); n >= each {
		lower(l.ranges[n-1].First.Add(time.Microsecond))
	}
	for moved := true; moved; {
		moved = false
		for _, r := range l.ranges {
			if r.First.Before(wall) && !r.Last.Before(wall) {
				wall, moved = r.First, true
			}
		}
	}
	return wall
}

const (
	deleteOutputs  = `DELETE FROM tidemark_outputs WHERE run_id = ANY ($1::bigint[])`
	deleteAttempts = `DELETE FROM tidemark_attempts WHERE run_id = ANY ($1::bigint[])`
	deleteRuns     = `DELETE FROM tidemark_runs WHERE id = ANY ($1::bigint[]) AND finished_at IS NOT NULL`
	deleteRanges   = `DELETE FROM tidemark_ranges WHERE id = ANY ($1::bigint[])`
)

// Not a change that a plan has to know of: the version stays.
const updatePruned = `
UPDATE tidemark_jobs j SET pruned = j.pruned + v.count, pruned_through = greatest(j.pruned_through, v.mark)
FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) AS v (id, count, mark)
WHERE j.id = v.id`

// A removed job of which nothing is left goes with its watermarks.
const deleteRemoved = `
WITH gone AS (
    DELETE FROM tidemark_jobs j
    WHERE j.id = ANY ($1::bigint[]) AND j.removed_at < $2
      AND NOT EXISTS (SELECT FROM tidemark_runs r WHERE r.job_id = j.id)
      AND NOT EXISTS (SELECT FROM tidemark_ranges g WHERE g.job_id = j.id)
    RETURNING j.id
)
DELETE FROM tidemark_targets t USING gone WHERE t.job_id = gone.id`

func (p *pruning) queueDeletes(b *pgx.Batch, each int) {
	var marks []forgotten
	var runs, ranges []int64
	for _, id := range p.jobs {
		gone, cut := p.lines[id].forget(p.before, each)
		gone.job = id
		runs, ranges = append(runs, gone.runs...), append(ranges, gone.ranges...)
		p.cut = p.cut || cut
		if !gone.mark.IsZero() {
			marks = append(marks, gone)
		}
	}
	p.gone = len(runs) + len(ranges)
	if len(runs) > 0 {
		b.Queue(deleteOutputs, runs)
		b.Queue(deleteAttempts, runs)
		b.Queue(deleteRuns, runs)
	}
	if len(ranges) > 0 {
		b.Queue(deleteRanges, ranges)
	}
	if len(marks) > 0 {
		b.Queue(updatePruned,
			column(marks, func(f *forgotten) int64 { return f.job }),
			column(marks, func(f *forgotten) int64 { return f.count }),
			column(marks, func(f *forgotten) pgtype.Timestamptz { return stamp(f.mark) }))
	}
	b.Queue(deleteRemoved, p.jobs, stamp(p.before))
}

const deleteOldOutputs = `
DELETE FROM tidemark_outputs WHERE (run_id, attempt) IN (
    SELECT o.run_id, o.attempt
    FROM tidemark_outputs o
    JOIN tidemark_runs r ON r.id = o.run_id
    WHERE o.updated_at < $1 AND r.finished_at IS NOT NULL
    ORDER BY o.updated_at
    LIMIT $2::bigint
    FOR UPDATE OF o SKIP LOCKED)`

// pruneOutputs deletes a batch of old output of ended runs.
func (s *Store) pruneOutputs(ctx context.Context, before time.Time) (more bool, err error) {
	var changed int64
	b := &pgx.Batch{}
	queueExec(b, &changed, deleteOldOutputs, stamp(before), pruneRows)
	err = s.run(ctx, "prune output", b)
	return changed == pruneRows, err
}
