package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// The listings of runs differ in the index that leads to them. Each takes the
// whole filter: ?1 job, ?2 target, ?3 states, ?4 review, ?5 since, ?6 limit.
const (
	runsWhere = `
  AND (?1 = '' OR j.name = ?1)
  AND (?2 IS NULL OR r.target = ?2)
  AND (?3 IS NULL OR r.state IN (SELECT value FROM json_each(?3)))
  AND (NOT ?4 OR r.review)
  AND (?5 IS NULL OR r.fire_time >= ?5)`

	sqlRuns = `SELECT ` + runColumns + `, j.name
FROM tidemark_runs AS r CROSS JOIN tidemark_jobs AS j
WHERE j.id = r.job_id` + runsWhere + `
ORDER BY r.id DESC LIMIT ?6`

	sqlRunsOfJob = `SELECT ` + runColumns + `, j.name
FROM tidemark_jobs AS j CROSS JOIN tidemark_runs AS r
WHERE j.name = ?1 AND r.job_id = j.id` + runsWhere + `
ORDER BY r.fire_time DESC, r.id DESC LIMIT ?6`

	sqlRunsSince = `SELECT ` + runColumns + `, j.name
FROM tidemark_jobs AS j CROSS JOIN tidemark_runs AS r
WHERE r.job_id = j.id AND r.fire_time >= ?5` + runsWhere + `
ORDER BY r.fire_time DESC, r.id DESC LIMIT ?6`

	sqlRunsOpen = `SELECT ` + runColumns + `, j.name
FROM tidemark_runs AS r CROSS JOIN tidemark_jobs AS j
WHERE r.id IN (` + openRuns + `) AND j.id = r.job_id` + runsWhere + `
ORDER BY r.fire_time DESC, r.id DESC LIMIT ?6`

	// What has its turn, and what waits for it: each by its index.
	openRuns = `
	SELECT id FROM tidemark_runs WHERE claim_at IS NOT NULL UNION ALL
	SELECT id FROM tidemark_runs WHERE claim_at IS NULL AND finished_at IS NULL`

	sqlRunsReview = `SELECT ` + runColumns + `, j.name
FROM tidemark_runs AS r CROSS JOIN tidemark_jobs AS j
WHERE j.id = r.job_id AND r.review` + runsWhere + `
ORDER BY r.fire_time DESC, r.id DESC LIMIT ?6`
)

// Runs implements jobstore.History. What is asked for without a filter is in
// the order of creation.
func (s *Store) Runs(ctx context.Context, filter jobstore.RunFilter) (out []jobstore.Run, err error) {
	var target, states any
	if filter.Target != nil {
		target = *filter.Target
	}
	if len(filter.States) > 0 {
		if states, err = list(filter.States); err != nil {
			return nil, wrap("list runs", err)
		}
	}
	limit := -1
	if filter.Limit > 0 {
		limit = filter.Limit
	}
	err = s.read(ctx, func(t *tx) error {
		out, err = collect(scanRun)(t.query(runsQuery(&filter), filter.Job, target, states, filter.Review, micros(filter.Since), limit))
		return err
	})
	return out, wrap("list runs", err)
}

func runsQuery(filter *jobstore.RunFilter) string {
	open := len(filter.States) > 0
	for _, state := range filter.States {
		open = open && state.Open()
	}
	switch {
	case open:
		return sqlRunsOpen
	case filter.Review:
		return sqlRunsReview
	case filter.Job != "":
		return sqlRunsOfJob
	case !filter.Since.IsZero():
		return sqlRunsSince
	}
	return sqlRuns
}

const sqlAttempts = `SELECT attempt, node, started_at, finished_at, outcome, exit_code, message
FROM tidemark_attempts WHERE run_id = ?1 ORDER BY attempt`

// Run implements jobstore.History.
func (s *Store) Run(ctx context.Context, key string) (run jobstore.Run, attempts []jobstore.Attempt, err error) {
	err = s.read(ctx, func(t *tx) error {
		found, err := t.runOf(key)
		if err == nil && found == nil {
			err = jobstore.ErrNotFound
		}
		if err != nil {
			return err
		}
		run = *found
		attempts, err = collect(scanAttempt)(t.query(sqlAttempts, run.ID))
		return err
	})
	return run, attempts, wrap("read run "+key, err)
}

func scanAttempt(rows *sql.Rows, a *jobstore.Attempt) error {
	return rows.Scan(&a.Attempt, &a.Node, (*at)(&a.StartedAt), (*at)(&a.FinishedAt), (*string)(&a.Outcome), &a.ExitCode, &a.Message)
}

const sqlOutput = `SELECT head, tail, size FROM tidemark_outputs
WHERE run_id = ?1 AND (?2 = 0 OR attempt = ?2) ORDER BY attempt DESC LIMIT 1`

// Output implements jobstore.History. Where nothing was written, or is kept no
// longer, it is empty.
func (s *Store) Output(ctx context.Context, runID int64, attempt int) (out jobstore.Output, err error) {
	err = s.read(ctx, func(t *tx) error {
		err := t.queryRow(sqlOutput, runID, attempt).Scan(&out.Head, &out.Tail, &out.Size)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return out, wrap(fmt.Sprintf("read output of run %d", runID), err)
}

const sqlRanges = `SELECT id, job_id, first, last, count, outcome, reason, into_fire, recorded_at FROM tidemark_ranges
WHERE job_id = ?1 AND last >= ?2 AND first <= ?3 ORDER BY first, id`

// Ranges implements jobstore.History.
func (s *Store) Ranges(ctx context.Context, jobID int64, from, to time.Time) (out []jobstore.Range, err error) {
	err = s.read(ctx, func(t *tx) error {
		out, err = collect(scanRange)(t.query(sqlRanges, jobID, from.UnixMicro(), to.UnixMicro()))
		return err
	})
	return out, wrap(fmt.Sprintf("list ranges of job %d", jobID), err)
}

const sqlLedger = `SELECT j.name, j.due, j.pruned,
	(SELECT count(DISTINCT r.fire_time) FROM tidemark_runs AS r WHERE r.job_id = j.id AND r.trigger <> 'manual'),
	(SELECT coalesce(sum(g.count), 0) FROM tidemark_ranges AS g WHERE g.job_id = j.id)
FROM tidemark_jobs AS j ORDER BY j.name`

// Ledger implements jobstore.History.
func (s *Store) Ledger(ctx context.Context) (out []jobstore.Balance, err error) {
	err = s.read(ctx, func(t *tx) error {
		if out, err = collect(scanBalance)(t.query(sqlLedger)); err != nil {
			return err
		}
		backlog, err := t.backlog()
		for i := range out {
			out[i].Open = backlog[out[i].Job]
		}
		return err
	})
	return out, wrap("read the ledger", err)
}

func scanBalance(rows *sql.Rows, b *jobstore.Balance) error {
	return rows.Scan(&b.Job, &b.Due, &b.Pruned, &b.Runs, &b.Ranges)
}
