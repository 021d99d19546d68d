package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Finish implements jobstore.Queue. It takes three round trips, however many
// the ends.
func (s *Store) Finish(ctx context.Context, ends []jobstore.End) (out []jobstore.Ended, err error) {
	if len(ends) == 0 {
		return nil, nil
	}
	err = s.transact(ctx, "record ended attempts", func(ctx context.Context, t *txn) error {
		f := finish{t: t, ends: ends, lanes: newLanes(), runs: make(map[jobstore.Lease]jobstore.Run, len(ends))}
		if err := f.update(ctx); err != nil {
			return err
		}
		if out, err = f.apply(); err != nil {
			return err
		}
		return f.write(ctx)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// finish is one call of Finish.
type finish struct {
	t     *txn
	ends  []jobstore.End
	lanes *lanes
	runs  map[jobstore.Lease]jobstore.Run // whose end was news, as they now are

	attempts []endedAttempt
	outputs  []jobstore.RunOutput
	wake     bool
}

const lockTargetsOfRuns = `
SELECT t.job_id, t.target, t.watermark, t.last_state, t.last_finished_at, t.last_success_at,
       t.last_success_fire, t.last_success_key, t.review
FROM (SELECT DISTINCT job_id, target FROM tidemark_runs WHERE id = ANY ($1::bigint[])) AS l
JOIN tidemark_targets t ON t.job_id = l.job_id AND t.target = l.target
ORDER BY t.job_id, t.target
FOR NO KEY UPDATE OF t`

// A try that was to be repeated is not, where somebody wants the run canceled.
const finishRuns = `
UPDATE tidemark_runs r SET
    state       = CASE WHEN e.again AND r.cancel_requested THEN 'canceled' ELSE e.state END,
    reason      = CASE WHEN e.again AND r.cancel_requested THEN r.reason ELSE e.reason END,
    review      = e.review AND NOT (e.again AND r.cancel_requested),
    claim_at    = CASE WHEN e.again AND NOT r.cancel_requested THEN now() + e.retry_in * interval '1 microsecond' END,
    finished_at = CASE WHEN e.again AND NOT r.cancel_requested THEN NULL ELSE now() END,
    failures    = r.failures + e.failure::int,
    exit_code   = e.exit_code,
    message     = CASE WHEN r.cancel_requested AND (e.again OR e.message = '') THEN r.message ELSE e.message END
FROM (SELECT *, state = 'retrying' AS again
      FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::boolean[], $6::bigint[], $7::boolean[],
                  $8::integer[], $9::text[])
          AS v (id, attempt, state, reason, review, retry_in, failure, exit_code, message)) AS e
WHERE r.id = e.id AND r.attempt = e.attempt AND r.state = 'running'
RETURNING r.id, r.key, r.job_id, '', r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message`

// update ends the runs under the locks of their targets, and reads what is
// needed to let others go.
func (f *finish) update(ctx context.Context) error {
	b := f.t.pipeline()
	b.Queue(lockTargetsOfRuns, column(f.ends, func(e *jobstore.End) int64 { return e.RunID })).
		Query(func(rows pgx.Rows) error { return f.lanes.takeTargets(rows, true) })
	queueNow(b, &f.lanes.now)
	if err := f.t.send(ctx, b); err != nil {
		return err
	}
	keys := f.lanes.keys()
	var jobs []int64
	for i, key := range keys {
		if i == 0 || key.job != keys[i-1].job {
			jobs = append(jobs, key.job)
		}
	}
	b = f.t.pipeline()
	f.lanes.queueBounds(b, jobs)
	f.queueUpdate(b)
	f.lanes.queueOpen(b, selectWaiting, keys)
	return f.t.send(ctx, b)
}

func (f *finish) queueUpdate(b *pgx.Batch) {
	ends := make([]jobstore.End, 0, len(f.ends)) // the first of each attempt
	seen := make(map[jobstore.Lease]bool, len(f.ends))
	for _, end := range f.ends {
		if !seen[end.Lease] {
			seen[end.Lease] = true
			ends = append(ends, end)
		}
	}
	b.Queue(finishRuns,
		column(ends, func(e *jobstore.End) int64 { return e.RunID }),
		column(ends, func(e *jobstore.End) int32 { return int32(e.Attempt) }),
		column(ends, func(e *jobstore.End) string { return string(e.State) }),
		column(ends, func(e *jobstore.End) string { return text(e.Reason) }),
		column(ends, func(e *jobstore.End) bool { return e.Review }),
		column(ends, func(e *jobstore.End) int64 { return e.RetryIn.Microseconds() }),
		column(ends, func(e *jobstore.End) bool { return e.Failure }),
		column(ends, func(e *jobstore.End) pgtype.Int4 { return code(e.ExitCode) }),
		column(ends, func(e *jobstore.End) string { return text(e.Message) }),
	).Query(func(rows pgx.Rows) error {
		return each(rows, runColumns, func(run *jobstore.Run) {
			f.runs[jobstore.Lease{RunID: run.ID, Attempt: run.Attempt}] = *run
		})
	})
}

// apply says what the ends mean for the targets, in the order given.
func (f *finish) apply() ([]jobstore.Ended, error) {
	out := make([]jobstore.Ended, len(f.ends))
	for i := range f.ends {
		end := &f.ends[i]
		out[i].Lease = end.Lease
		run, ok := f.runs[end.Lease]
		if !ok {
			out[i].Stale = true
			continue
		}
		delete(f.runs, end.Lease)
		n := f.lanes.lane(laneKey{run.JobID, run.Target})
		if !n.held || n.job == nil {
			return nil, fmt.Errorf("%w: run %s has no target or no job", jobstore.ErrDamaged, run.Key)
		}
		run.Job = n.job.Name
		out[i].Run = run
		if end.Output != nil {
			f.outputs = append(f.outputs, jobstore.RunOutput{Lease: end.Lease, Output: *end.Output})
		}
		if run.State == jobstore.Retrying {
			f.wake = f.wake || end.RetryIn <= 0
			f.attempts = append(f.attempts, endedAttempt{run, end.Outcome, end.ExitCode, text(end.Message)})
			continue
		}
		n.end(run)
	}
	return out, nil
}

const upsertOutputs = `
INSERT INTO tidemark_outputs (run_id, attempt, head, tail, size, updated_at)
SELECT o.run_id, o.attempt, o.head, o.tail, o.size, now()
FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::bytea[], $5::bigint[])
    AS o (run_id, attempt, head, tail, size)
ORDER BY o.run_id
ON CONFLICT (run_id, attempt) DO UPDATE SET
    head = excluded.head, tail = excluded.tail, size = excluded.size, updated_at = excluded.updated_at`

// write records what follows from the ends, and lets waiting runs go.
func (f *finish) write(ctx context.Context) error {
	let := f.lanes.promote()
	b := f.t.pipeline()
	f.lanes.queueTargetWrites(b)
	queueAttempts(b, f.attempts)
	queueOutputs(b, upsertOutputs, f.outputs)
	queueUpdateRuns(b, let)
	if len(let) > 0 || f.wake {
		b.Queue(notify)
	}
	return f.t.commit(ctx, b)
}
