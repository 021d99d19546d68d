package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// pruneBatch is how many rows of a kind one call of Prune takes at most.
const pruneBatch = 1000

// Prune implements jobstore.History. Of each job it forgets a beginning of its
// time line: up to a mark before which every instant has ended long enough
// ago, so that what is behind the mark is a count and what is after it is
// whole. Open runs stay, and all after them; a failure for review goes like
// any other run once it is old enough. Manual runs are in no ledger and go by
// their own age.
func (s *Store) Prune(ctx context.Context, runsBefore, outputBefore time.Time) (more bool, err error) {
	left, after := pruneBatch, int64(0)
	for left > 0 {
		ids, err := s.pruneCandidates(ctx, after, runsBefore)
		if err != nil {
			return false, wrap("prune", err)
		}
		if len(ids) == 0 {
			break
		}
		after = ids[len(ids)-1]
		err = s.write(ctx, func(t *tx) error {
			p := pruning{t: t, before: runsBefore, left: left}
			if err := p.jobs(ids); err != nil {
				return err
			}
			left = p.left
			return nil
		})
		if err != nil {
			return false, wrap("prune", err)
		}
	}
	outputs, err := s.pruneOutputs(ctx, outputBefore)
	return left <= 0 || outputs, wrap("prune output", err)
}

const sqlPruneCandidates = `SELECT j.id FROM tidemark_jobs AS j
WHERE j.id > ?1 AND (
	EXISTS (SELECT 1 FROM tidemark_runs AS r WHERE r.job_id = j.id AND r.fire_time < ?2)
	OR EXISTS (SELECT 1 FROM tidemark_ranges AS g WHERE g.job_id = j.id AND g.last < ?2)
	OR j.removed_at < ?2)
ORDER BY j.id LIMIT 100`

func (s *Store) pruneCandidates(ctx context.Context, after int64, before time.Time) (ids []int64, err error) {
	err = s.read(ctx, func(t *tx) error {
		ids, err = collect(scanID)(t.query(sqlPruneCandidates, after, before.UnixMicro()))
		return err
	})
	return ids, err
}

// pruning is one transaction of Prune.
type pruning struct {
	t      *tx
	before time.Time
	left   int // rows that may still go
}

func (p *pruning) jobs(ids []int64) error {
	for _, id := range ids {
		if p.left <= 0 {
			return nil
		}
		if err := p.timeLine(id); err != nil {
			return err
		}
		if err := p.manual(id); err != nil {
			return err
		}
		if err := p.removed(id); err != nil {
			return err
		}
	}
	return nil
}

type prunedRun struct {
	id        int64
	fire, end time.Time
}

func scanPrunedRun(rows *sql.Rows, r *prunedRun) error {
	return rows.Scan(&r.id, (*at)(&r.fire), (*at)(&r.end))
}

const (
	sqlOldestRuns = `SELECT r.id, r.fire_time, r.finished_at FROM tidemark_runs AS r
WHERE r.job_id = ?1 AND r.trigger <> 'manual' ORDER BY r.fire_time, r.id LIMIT ?2`

	sqlOldestRanges = `SELECT id, job_id, first, last, count, outcome, reason, into_fire, recorded_at FROM tidemark_ranges
WHERE job_id = ?1 ORDER BY last, id LIMIT ?2`

	sqlStays = `SELECT count(*) FROM tidemark_runs AS r
WHERE r.job_id = ?1 AND r.fire_time = ?2 AND r.trigger <> 'manual' AND (r.finished_at IS NULL OR r.finished_at >= ?3)`

	sqlPruned = `UPDATE tidemark_jobs SET pruned = pruned + ?2, pruned_through = max(coalesce(pruned_through, ?3), ?3) WHERE id = ?1`
)

// timeLine moves a job's mark as far as it goes.
func (p *pruning) timeLine(id int64) error {
	runs, err := collect(scanPrunedRun)(p.t.query(sqlOldestRuns, id, p.left+1))
	if err != nil {
		return err
	}
	ranges, err := collect(scanRange)(p.t.query(sqlOldestRanges, id, p.left+1))
	if err != nil {
		return err
	}
	goRuns, goRanges, mark := beginning(runs, ranges, p.before, p.left)
	if mark.IsZero() {
		return p.wide(id, runs, ranges)
	}
	count, last := int64(0), time.Time{}
	var ids []int64
	for _, r := range goRuns {
		if !r.fire.Equal(last) {
			count, last = count+1, r.fire
		}
		ids = append(ids, r.id)
	}
	if err := p.forget(ids); err != nil {
		return err
	}
	ids = ids[:0]
	for _, r := range goRanges {
		count += r.Count
		ids = append(ids, r.ID)
	}
	if err := p.drop(sqlDropRanges, ids); err != nil {
		return err
	}
	p.left -= len(goRanges)
	_, err = p.t.exec(sqlPruned, id, count, micros(mark))
	return err
}

// beginning decides what of a job's time line goes, given its oldest runs and
// ranges: all up to the mark. The zero mark: nothing.
func beginning(runs []prunedRun, ranges []jobstore.Range, before time.Time, limit int) (_ []prunedRun, _ []jobstore.Range, mark time.Time) {
	wall := time.Unix(1<<40, 0) // what is at it or after it stays
	for i, r := range runs {
		if i >= limit || r.end.IsZero() || !r.end.Before(before) {
			wall = r.fire
			break
		}
	}
	for i, r := range ranges {
		if (i >= limit || !r.RecordedAt.Before(before)) && r.First.Before(wall) {
			wall = r.First
		}
	}
	// The wall stands in no range.
	for moved := true; moved; {
		moved = false
		for _, r := range ranges {
			if r.First.Before(wall) && !r.Last.Before(wall) {
				wall, moved = r.First, true
			}
		}
	}
	n, m := 0, 0
	for n < len(runs) && runs[n].fire.Before(wall) {
		mark = runs[n].fire
		n++
	}
	for m < len(ranges) && ranges[m].Last.Before(wall) {
		if ranges[m].Last.After(mark) {
			mark = ranges[m].Last
		}
		m++
	}
	return runs[:n], ranges[:m], mark
}

// wide takes a batch of a fire time that has more runs than one call may
// forget. It counts among the runs until the last of them goes.
func (p *pruning) wide(id int64, runs []prunedRun, ranges []jobstore.Range) error {
	if len(runs) <= p.left || !runs[0].fire.Equal(runs[len(runs)-1].fire) {
		return nil
	}
	for _, r := range ranges {
		if !r.First.After(runs[0].fire) {
			return nil
		}
	}
	var stays int
	if err := p.t.queryRow(sqlStays, id, micros(runs[0].fire), micros(p.before)).Scan(&stays); err != nil || stays > 0 {
		return err
	}
	var ids []int64
	for _, r := range runs[:p.left] {
		ids = append(ids, r.id)
	}
	return p.forget(ids)
}

const (
	sqlDropOutputs  = `DELETE FROM tidemark_outputs WHERE run_id IN (SELECT value FROM json_each(?1))`
	sqlDropAttempts = `DELETE FROM tidemark_attempts WHERE run_id IN (SELECT value FROM json_each(?1))`
	sqlDropRuns     = `DELETE FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)) AND finished_at IS NOT NULL`
	sqlDropRanges   = `DELETE FROM tidemark_ranges WHERE id IN (SELECT value FROM json_each(?1))`
)

// forget deletes runs with all that hangs on them.
func (p *pruning) forget(ids []int64) error {
	for _, query := range [...]string{sqlDropOutputs, sqlDropAttempts, sqlDropRuns} {
		if err := p.drop(query, ids); err != nil {
			return err
		}
	}
	p.left -= len(ids)
	return nil
}

func (p *pruning) drop(query string, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	arg, err := list(ids)
	if err == nil {
		_, err = p.t.exec(query, arg)
	}
	return err
}

const sqlOldManual = `SELECT r.id FROM tidemark_runs AS r
WHERE r.job_id = ?1 AND r.fire_time < ?2 AND r.trigger = 'manual' AND r.finished_at < ?2
ORDER BY r.fire_time, r.id LIMIT ?3`

func (p *pruning) manual(id int64) error {
	ids, err := collect(scanID)(p.t.query(sqlOldManual, id, micros(p.before), max(p.left, 0)))
	if err != nil {
		return err
	}
	return p.forget(ids)
}

const (
	sqlDropRemoved = `DELETE FROM tidemark_jobs WHERE id = ?1 AND removed_at < ?2
  AND NOT EXISTS (SELECT 1 FROM tidemark_runs WHERE job_id = ?1)
  AND NOT EXISTS (SELECT 1 FROM tidemark_ranges WHERE job_id = ?1)`

	sqlDropTargets = `DELETE FROM tidemark_targets WHERE job_id = ?1`
)

// removed forgets a removed job of which nothing is left, watermarks and all.
func (p *pruning) removed(id int64) error {
	res, err := p.t.exec(sqlDropRemoved, id, micros(p.before))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	_, err = p.t.exec(sqlDropTargets, id)
	return err
}

const (
	sqlOldOutputs = `SELECT o.rowid FROM tidemark_outputs AS o CROSS JOIN tidemark_runs AS r
WHERE o.updated_at < ?1 AND r.id = o.run_id AND r.finished_at IS NOT NULL
ORDER BY o.updated_at LIMIT ?2`

	sqlDropOldOutputs = `DELETE FROM tidemark_outputs WHERE rowid IN (SELECT value FROM json_each(?1))`
)

// pruneOutputs deletes a batch of old output of ended runs.
func (s *Store) pruneOutputs(ctx context.Context, before time.Time) (more bool, err error) {
	var ids []int64
	err = s.read(ctx, func(t *tx) error {
		ids, err = collect(scanID)(t.query(sqlOldOutputs, before.UnixMicro(), pruneBatch))
		return err
	})
	if err != nil || len(ids) == 0 {
		return false, err
	}
	err = s.write(ctx, func(t *tx) error {
		p := pruning{t: t}
		return p.drop(sqlDropOldOutputs, ids)
	})
	return len(ids) == pruneBatch, err
}
