package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkd/tidemark/jobstore"
)

// The three listings differ in their order and in the index that leads to them.
// Values that do not narrow fold away when the statement is planned.
const selectRuns = `
SELECT r.id, r.key, r.job_id, j.name, r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM tidemark_runs r
JOIN tidemark_jobs j ON j.id = r.job_id
WHERE ($1::text IS NULL OR r.target = $1::text)
  AND (cardinality($2::text[]) = 0 OR r.state = ANY ($2::text[]))
ORDER BY r.id DESC
LIMIT $3::bigint`

const selectRunsBy = `
SELECT r.id, r.key, r.job_id, j.name, r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM tidemark_runs r
JOIN tidemark_jobs j ON j.id = r.job_id
WHERE ($1::text IS NULL OR r.target = $1::text)
  AND (cardinality($2::text[]) = 0 OR r.state = ANY ($2::text[]))
  AND ($4::text = '' OR r.job_id = (SELECT id FROM tidemark_jobs WHERE name = $4::text))
  AND (NOT $5::boolean OR r.review)
  AND ($6::timestamptz IS NULL OR r.fire_time >= $6::timestamptz)
ORDER BY r.fire_time DESC, r.id DESC
LIMIT $3::bigint`

const selectOpenRuns = `
SELECT r.id, r.key, r.job_id, j.name, r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM (
    SELECT * FROM tidemark_runs WHERE claim_at IS NOT NULL
    UNION ALL
    SELECT * FROM tidemark_runs WHERE claim_at IS NULL AND finished_at IS NULL
) r
JOIN tidemark_jobs j ON j.id = r.job_id
WHERE ($1::text IS NULL OR r.target = $1::text)
  AND (cardinality($2::text[]) = 0 OR r.state = ANY ($2::text[]))
  AND ($4::text = '' OR r.job_id = (SELECT id FROM tidemark_jobs WHERE name = $4::text))
  AND (NOT $5::boolean OR r.review)
  AND ($6::timestamptz IS NULL OR r.fire_time >= $6::timestamptz)
ORDER BY r.fire_time DESC, r.id DESC
LIMIT $3::bigint`

// Runs implements jobstore.History. What is asked for by no more than target
// and state is in the order of creation.
func (s *Store) Runs(ctx context.Context, filter jobstore.RunFilter) (runs []jobstore.Run, err error) {
	var limit *int64 // none
	if filter.Limit > 0 {
		n := int64(filter.Limit)
		limit = &n
	}
	target := filter.Target
	if target != nil {
		t := text(*target)
		target = &t
	}
	states := column(filter.States, func(s *jobstore.State) string { return string(*s) })
	open := len(filter.States) > 0
	for _, state := range filter.States {
		open = open && state.Open()
	}
	b := &pgx.Batch{}
	switch {
	case open:
		b.Queue(selectOpenRuns, target, states, limit, text(filter.Job), filter.Review, stamp(filter.Since))
	case filter.Job == "" && !filter.Review && filter.Since.IsZero():
		b.Queue(selectRuns, target, states, limit)
	default:
		b.Queue(selectRunsBy, target, states, limit, text(filter.Job), filter.Review, stamp(filter.Since))
	}
	b.QueuedQueries[0].Query(collect(&runs, runColumns))
	err = s.run(ctx, "list runs", b)
	return runs, err
}

const selectAttempts = `
SELECT a.attempt, a.node, a.started_at, a.finished_at, a.outcome, a.exit_code, a.message
FROM tidemark_attempts a
JOIN tidemark_runs r ON r.id = a.run_id
WHERE r.key = $1
ORDER BY a.attempt`

// Run implements jobstore.History.
func (s *Store) Run(ctx context.Context, key string) (run jobstore.Run, attempts []jobstore.Attempt, err error) {
	var found []jobstore.Run
	b := &pgx.Batch{}
	queueRun(b, key, &found)
	b.Queue(selectAttempts, text(key)).Query(collect(&attempts, attemptColumns))
	if err := s.run(ctx, "read run "+key, b); err != nil {
		return run, nil, err
	}
	if len(found) == 0 {
		return run, nil, fmt.Errorf("read run %s: %w", key, jobstore.ErrNotFound)
	}
	return found[0], attempts, nil
}

func attemptColumns(a *jobstore.Attempt) []any {
	return []any{
		&a.Attempt, &a.Node, (*instant)(&a.StartedAt), (*instant)(&a.FinishedAt), (*string)(&a.Outcome),
		&a.ExitCode, &a.Message,
	}
}

const selectOutput = `
SELECT head, tail, size
FROM tidemark_outputs
WHERE run_id = $1 AND ($2::integer = 0 OR attempt = $2::integer)
ORDER BY attempt DESC
LIMIT 1`

// Output implements jobstore.History. Where nothing was written, or is kept no
// longer, it is empty.
func (s *Store) Output(ctx context.Context, runID int64, attempt int) (out jobstore.Output, err error) {
	b := &pgx.Batch{}
	b.Queue(selectOutput, runID, attempt).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&out.Head, &out.Tail, &out.Size}, func() error { return nil })
		return err
	})
	err = s.run(ctx, fmt.Sprintf("read output of run %d", runID), b)
	return out, err
}

const selectRanges = `
SELECT id, job_id, first, last, count, outcome, reason, into_fire, recorded_at
FROM tidemark_ranges
WHERE job_id = $1 AND last >= $2 AND first <= $3
ORDER BY first, id`

// Ranges implements jobstore.History.
func (s *Store) Ranges(ctx context.Context, jobID int64, from, to time.Time) (ranges []jobstore.Range, err error) {
	b := &pgx.Batch{}
	b.Queue(selectRanges, jobID, from.UTC(), to.UTC()).Query(collect(&ranges, rangeColumns))
	err = s.run(ctx, fmt.Sprintf("list ranges of job %d", jobID), b)
	return ranges, err
}

const selectLedger = `
SELECT j.name, j.due, j.pruned,
       (SELECT count(DISTINCT r.fire_time) FROM tidemark_runs r WHERE r.job_id = j.id AND r.trigger <> 'manual'),
       (SELECT coalesce(sum(g.count), 0)::bigint FROM tidemark_ranges g WHERE g.job_id = j.id)
FROM tidemark_jobs j
ORDER BY j.name`

// Ledger implements jobstore.History.
func (s *Store) Ledger(ctx context.Context) (balances []jobstore.Balance, err error) {
	backlog := map[string]map[jobstore.State]int64{}
	b := &pgx.Batch{}
	b.Queue(selectLedger).Query(collect(&balances, func(b *jobstore.Balance) []any {
		return []any{&b.Job, &b.Due, &b.Pruned, &b.Runs, &b.Ranges}
	}))
	queueBacklog(b, backlog)
	if err := s.run(ctx, "read the ledger", b); err != nil {
		return nil, err
	}
	for i := range balances {
		balances[i].Open = backlog[balances[i].Job]
	}
	return balances, nil
}
