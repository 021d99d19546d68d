package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Claim implements jobstore.Queue. It waits for nobody: what another
// transaction holds is left to it. So it may lock runs before targets, which
// all others do the other way round.
func (s *Store) Claim(ctx context.Context, req jobstore.ClaimRequest) (out jobstore.Claimed, err error) {
	err = s.transact(ctx, "claim runs", func(ctx context.Context, t *txn) error {
		c := claim{
			req: req, t: t, lanes: newLanes(),
			exclude: append([]int64{}, req.Exclude...), seen: append([]int64{}, req.Held...),
		}
		for more := true; more; {
			var err error
			if more, err = c.round(ctx); err != nil {
				return err
			}
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		if err := c.write(ctx); err != nil {
			return err
		}
		out = c.out
		return nil
	})
	return out, err
}

// claim is one call of Claim.
type claim struct {
	req     jobstore.ClaimRequest
	t       *txn
	lanes   *lanes
	exclude []int64 // jobs to look past
	seen    []int64 // runs to look past: the node's own, and those that the transaction has locked
	rounds  int

	was     map[int64]jobstore.Run // as they were, by id
	begun   []jobstore.Run
	settled []jobstore.Run
	more    bool // there may be more to claim at once
	out     jobstore.Claimed
}

// The transaction's own locks do not make it skip a row, hence $2.
const lockClaimable = `
SELECT r.id, r.key, r.job_id, j.name, r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM tidemark_runs r
JOIN tidemark_jobs j ON j.id = r.job_id
WHERE r.claim_at <= now() AND r.job_id <> ALL ($1::bigint[]) AND r.id <> ALL ($2::bigint[])
  AND (r.state <> 'pending' OR j.removed_at IS NOT NULL OR j.paused_at IS NULL OR j.resumed_at IS NOT NULL
       OR j.paused_until <= now())
ORDER BY r.claim_at
LIMIT $3::bigint
FOR NO KEY UPDATE OF r SKIP LOCKED`

const maxRounds = 10

// round locks what may be claimable and decides about it. It reports whether
// another round is of use: a job that this node refuses is met once, and looked
// past from then on.
func (c *claim) round(ctx context.Context) (again bool, err error) {
	limit := c.req.Limit - len(c.begun)
	if limit <= 0 && c.rounds > 0 {
		return false, nil
	}
	c.rounds++
	var found []jobstore.Run
	b := c.t.pipeline()
	queueNow(b, &c.lanes.now)
	b.Queue(lockClaimable, c.exclude, c.seen, limit).Query(collect(&found, runColumns))
	if err := c.t.send(ctx, b); err != nil || len(found) == 0 {
		return false, err
	}
	if err := c.know(ctx, found); err != nil {
		return false, err
	}
	refused := len(c.out.Refused)
	settled := len(c.settled)
	for _, run := range found {
		c.seen = append(c.seen, run.ID)
		c.consider(run)
	}
	full := len(found) == limit
	c.more = full && (len(c.begun) == c.req.Limit || c.rounds == maxRounds)
	return full && c.rounds < maxRounds && (len(c.out.Refused) > refused || len(c.settled) > settled), nil
}

// know reads the rules and targets of runs. Hash and fingerprint come from one
// snapshot: what the node accepts is what the run will say it ran.
func (c *claim) know(ctx context.Context, found []jobstore.Run) error {
	var ids []int64
	var keys []laneKey
	for _, run := range found {
		if c.lanes.jobs[run.JobID] == nil {
			c.lanes.jobs[run.JobID] = &jobstore.Job{}
			ids = append(ids, run.JobID)
		}
		key := laneKey{run.JobID, run.Target}
		if c.lanes.byKey[key] == nil {
			c.lanes.byKey[key] = &lane{target: jobstore.Target{JobID: key.job, Target: key.target}}
			keys = append(keys, key)
		}
	}
	b := c.t.pipeline()
	c.lanes.queueRules(b, ids)
	c.lanes.queueTargets(b, selectTargets, keys)
	queueLosses(b, found)
	return c.t.send(ctx, b)
}

// The attempts that were lost in a row, the newest ones, by run.
const selectLosses = `
SELECT a.run_id, count(*)
FROM tidemark_attempts a
WHERE a.run_id = ANY ($1::bigint[]) AND a.outcome = 'lost'
  AND NOT EXISTS (SELECT FROM tidemark_attempts o
                  WHERE o.run_id = a.run_id AND o.attempt > a.attempt AND o.outcome <> 'lost')
GROUP BY a.run_id`

// queueLosses reads how often runs that are to be taken over were lost before.
func queueLosses(b *pgx.Batch, found []jobstore.Run) {
	lost := map[int64]*jobstore.Run{}
	var ids []int64
	for i := range found {
		if r := &found[i]; r.State == jobstore.Running && r.Attempt >= jobstore.MaxLosses {
			lost[r.ID] = r
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(selectLosses, ids).Query(func(rows pgx.Rows) error {
		var id int64
		var n int
		_, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error {
			lost[id].Losses = n
			return nil
		})
		return err
	})
}

// consider decides about one run that the transaction has locked.
func (c *claim) consider(run jobstore.Run) {
	n := c.lanes.lane(laneKey{run.JobID, run.Target})
	for _, id := range c.out.Refused {
		if id == run.JobID {
			return
		}
	}
	if n.job.RemovedAt.IsZero() && c.req.Accept != nil && !c.req.Accept(run.JobID, n.job.Hash) {
		c.out.Refused = append(c.out.Refused, run.JobID)
		c.exclude = append(c.exclude, run.JobID)
		return
	}
	if c.was == nil {
		c.was = map[int64]jobstore.Run{}
	}
	c.was[run.ID] = run
	if next := c.next(run, n); next.State == jobstore.Running {
		c.begun = append(c.begun, next)
	} else {
		c.settled = append(c.settled, next)
	}
}

// next is what becomes of the run.
func (c *claim) next(run jobstore.Run, n *lane) jobstore.Run {
	if n.job.RemovedAt.IsZero() {
		return jobstore.Begin(run, n.job.Definition, n.target, c.req.Node, c.lanes.now, c.req.Lease)
	}
	run.Reason, run.ClaimAt, run.FinishedAt = jobstore.ReasonRemoved, time.Time{}, c.lanes.now
	if run.State == jobstore.Pending {
		run.State = jobstore.Skipped
	} else {
		run.State = jobstore.Canceled
	}
	return run
}

const lockFreeTargets = `
SELECT t.job_id, t.target, t.watermark, t.last_state, t.last_finished_at, t.last_success_at,
       t.last_success_fire, t.last_success_key, t.review
FROM unnest($1::bigint[], $2::text[]) AS l (job_id, target)
JOIN tidemark_targets t ON t.job_id = l.job_id AND t.target = l.target
FOR NO KEY UPDATE OF t SKIP LOCKED`

// settle ends runs that may not start any more, and lets the next ones go. A
// run whose target is held by another is left for the next claim.
func (c *claim) settle(ctx context.Context) error {
	if len(c.settled) == 0 {
		return nil
	}
	seen := map[laneKey]bool{}
	var keys []laneKey
	for _, run := range c.settled {
		if key := (laneKey{run.JobID, run.Target}); !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	b := c.t.pipeline()
	c.lanes.queueTargets(b, lockFreeTargets, keys)
	if err := c.t.send(ctx, b); err != nil {
		return err
	}
	found := c.settled
	c.settled = nil
	for _, run := range found {
		n := c.lanes.lane(laneKey{run.JobID, run.Target})
		if !n.held {
			c.more = true
			continue
		}
		if next := c.next(c.was[run.ID], n); next.State == jobstore.Running {
			c.begun = append(c.begun, next)
		} else {
			c.settled = append(c.settled, next)
			n.end(next)
		}
	}
	b = c.t.pipeline()
	queueUpdateRuns(b, c.settled)
	c.lanes.queueOpen(b, selectCrowd, keys)
	return c.t.send(ctx, b)
}

const insertAttempts = `
INSERT INTO tidemark_attempts (run_id, attempt, node, started_at, finished_at, outcome, exit_code, message)
SELECT run_id, attempt, node, started_at, now(), outcome, exit_code, message
FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::timestamptz[], $5::text[], $6::integer[], $7::text[])
    AS v (run_id, attempt, node, started_at, outcome, exit_code, message)
ON CONFLICT (run_id, attempt) DO NOTHING`

// endedAttempt is an attempt that was not its run's last.
type endedAttempt struct {
	run     jobstore.Run // while it ran
	outcome jobstore.AttemptOutcome
	code    *int
	message string
}

func queueAttempts(b *pgx.Batch, attempts []endedAttempt) {
	if len(attempts) == 0 {
		return
	}
	b.Queue(insertAttempts,
		column(attempts, func(a *endedAttempt) int64 { return a.run.ID }),
		column(attempts, func(a *endedAttempt) int32 { return int32(a.run.Attempt) }),
		column(attempts, func(a *endedAttempt) string { return a.run.Node }),
		column(attempts, func(a *endedAttempt) pgtype.Timestamptz { return stamp(a.run.AttemptStartedAt) }),
		column(attempts, func(a *endedAttempt) string { return string(a.outcome) }),
		column(attempts, func(a *endedAttempt) pgtype.Int4 { return code(a.code) }),
		column(attempts, func(a *endedAttempt) string { return a.message }))
}

const selectNextClaim = `SELECT min(claim_at) FROM tidemark_runs WHERE claim_at > now()`

func (c *claim) write(ctx context.Context) error {
	c.out.Now, c.out.Runs, c.out.Settled = c.lanes.now, c.begun, c.settled
	let := c.lanes.promote()
	var lost []endedAttempt
	for _, run := range c.begun {
		if was := c.was[run.ID]; was.State == jobstore.Running {
			c.out.Lost = append(c.out.Lost, was)
			lost = append(lost, endedAttempt{run: was, outcome: jobstore.AttemptLost, message: jobstore.ReasonLeaseLost})
		}
	}
	b := c.t.pipeline()
	queueUpdateRuns(b, append(c.begun[:len(c.begun):len(c.begun)], let...))
	queueAttempts(b, lost)
	c.lanes.queueTargetWrites(b)
	if len(let) > 0 {
		b.Queue(notify)
	}
	b.Queue(selectNextClaim).QueryRow(func(row pgx.Row) error { return row.Scan((*instant)(&c.out.Next)) })
	if err := c.t.commit(ctx, b); err != nil {
		return err
	}
	if c.more || len(let) > 0 {
		c.out.Next = c.out.Now
	}
	return nil
}
