package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Claim implements jobstore.Queue.
func (s *Store) Claim(ctx context.Context, req jobstore.ClaimRequest) (out jobstore.Claimed, err error) {
	err = s.write(ctx, func(t *tx) error {
		c := claim{t: t, req: req, jobs: map[int64]*jobstore.Job{}, refused: map[int64]bool{}, idle: map[int64]bool{}}
		out, err = c.claim()
		return err
	})
	if err != nil {
		return jobstore.Claimed{}, wrap("claim runs", err)
	}
	return out, nil
}

// claim is one call of Claim.
type claim struct {
	t       *tx
	req     jobstore.ClaimRequest
	jobs    map[int64]*jobstore.Job
	refused map[int64]bool // jobs of which nothing may be taken
	idle    map[int64]bool // jobs that are paused: only what has started
	asked   []int64        // in the order in which Accept refused them
	take    []int64        // runs to be begun
	held    map[int64]bool // runs that the node works on
}

const (
	// Beyond the limit, so that a page has something to lease behind what will
	// be settled or is not for this node.
	claimSpare = 100

	sqlNextClaim = `SELECT min(claim_at) FROM tidemark_runs WHERE claim_at > ?1`
)

func (c *claim) claim() (out jobstore.Claimed, err error) {
	out.Now = c.t.now
	c.held = map[int64]bool{}
	for _, id := range c.req.Held {
		c.held[id] = true
	}
	more := false
	if c.req.Limit > 0 {
		if more, err = c.choose(); err != nil {
			return out, err
		}
	}
	out.Refused = c.asked
	lanes := newLanes(c.t)
	if len(c.take) > 0 {
		if err := lanes.ofRuns(c.take); err != nil {
			return out, err
		}
		let, err := c.begin(lanes, &out)
		if err != nil {
			return out, err
		}
		more = more || let
		if err := lanes.store(); err != nil {
			return out, err
		}
	}
	if more && len(out.Runs) < c.req.Limit {
		out.Next = c.t.now
		return out, nil
	}
	return out, c.t.queryRow(sqlNextClaim, micros(c.t.now)).Scan((*at)(&out.Next))
}

type candidate struct {
	id, job int64
	state   jobstore.State
	claimAt time.Time
}

func scanCandidate(rows *sql.Rows, c *candidate) error {
	return rows.Scan(&c.id, &c.job, (*string)(&c.state), (*at)(&c.claimAt))
}

const sqlCandidates = `SELECT r.id, r.job_id, r.state, r.claim_at FROM tidemark_runs AS r
WHERE r.claim_at <= ?1 AND (r.claim_at, r.id) > (?2, ?3)
  AND r.job_id NOT IN (SELECT value FROM json_each(?4))
  AND (r.state <> 'pending' OR r.job_id NOT IN (SELECT value FROM json_each(?5)))
ORDER BY r.claim_at, r.id LIMIT ?6`

// choose looks for runs to begin, page by page: a job that is not for this
// node, or paused, is met once and left out of the pages after. It reports
// whether there may be more to take.
func (c *claim) choose() (more bool, err error) {
	for _, id := range c.req.Exclude {
		c.refused[id] = true
	}
	page := c.req.Limit + claimSpare
	last := candidate{claimAt: time.UnixMicro(-1 << 62)}
	for len(c.take) < page {
		refused, idle, err := c.left()
		if err != nil {
			return false, err
		}
		found, err := collect(scanCandidate)(c.t.query(sqlCandidates,
			micros(c.t.now), last.claimAt.UnixMicro(), last.id, refused, idle, page))
		if err != nil {
			return false, err
		}
		if err := c.know(found); err != nil {
			return false, err
		}
		for _, r := range found {
			if c.mayTake(r) {
				c.take = append(c.take, r.id)
			}
		}
		if len(found) < page {
			return false, nil
		}
		last = found[len(found)-1]
	}
	return true, nil
}

func (c *claim) left() (refused, idle string, err error) {
	if refused, err = list(keys(c.refused)); err != nil {
		return "", "", err
	}
	idle, err = list(keys(c.idle))
	return refused, idle, err
}

func keys(set map[int64]bool) []int64 {
	out := make([]int64, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	return out
}

// know reads the candidates' jobs.
func (c *claim) know(found []candidate) error {
	var ids []int64
	for _, r := range found {
		if c.jobs[r.job] == nil {
			ids = append(ids, r.job)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	arg, err := list(ids)
	if err != nil {
		return err
	}
	jobs, err := collect(scanJob)(c.t.query(sqlJobsByID, arg))
	for i := range jobs {
		c.jobs[jobs[i].ID] = &jobs[i]
	}
	return err
}

// mayTake decides by the run's job. What a removed job has left is taken by
// anybody, to be ended.
func (c *claim) mayTake(r candidate) bool {
	job := c.jobs[r.job]
	switch {
	case job == nil || c.refused[r.job] || c.held[r.id]:
		return false
	case !job.RemovedAt.IsZero():
		return true
	case c.req.Accept != nil && !c.req.Accept(job.ID, job.Hash):
		c.refused[r.job] = true
		c.asked = append(c.asked, job.ID)
		return false
	case r.state == jobstore.Pending && job.Pause.Active(c.t.now):
		c.idle[r.job] = true
		return false
	}
	return true
}

const sqlInsertAttempt = `INSERT INTO tidemark_attempts (run_id, attempt, node, started_at, finished_at, outcome, exit_code, message)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

func (t *tx) storeAttempt(r *jobstore.Run, outcome jobstore.AttemptOutcome) error {
	_, err := t.exec(sqlInsertAttempt, r.ID, r.Attempt, r.Node, micros(r.AttemptStartedAt), micros(t.now),
		string(outcome), number(r.ExitCode), r.Message)
	return err
}

// begin leases what was chosen, as far as the limit goes, and settles what may
// not start any more. It reports whether claimable runs are left.
func (c *claim) begin(lanes *lanes, out *jobstore.Claimed) (left bool, err error) {
	for _, id := range c.take {
		if len(out.Runs) >= c.req.Limit {
			return true, nil
		}
		e := lanes.runs[id]
		lane := lanes.lane(e.JobID, e.Target)
		was := e.Run
		if was.Losses, err = c.t.losses(&was); err != nil {
			return left, err
		}
		run := c.next(&was, lane)
		if run.State != jobstore.Running {
			lane.end(e, run)
			left = len(lane.promote(c.t)) > 0 || left
			out.Settled = append(out.Settled, run)
			continue
		}
		if was.State == jobstore.Running {
			out.Lost = append(out.Lost, was)
			was.Message = jobstore.ReasonLeaseLost
			if err := c.t.storeAttempt(&was, jobstore.AttemptLost); err != nil {
				return left, err
			}
		}
		lane.set(e, run)
		out.Runs = append(out.Runs, run)
	}
	return left, nil
}

// The attempts that were lost in a row, the newest ones.
const sqlLosses = `SELECT count(*) FROM tidemark_attempts AS a
WHERE a.run_id = ?1 AND a.outcome = 'lost'
  AND NOT EXISTS (SELECT 1 FROM tidemark_attempts AS o
                  WHERE o.run_id = ?1 AND o.attempt > a.attempt AND o.outcome <> 'lost')`

// losses is how often a run that is to be taken over was lost before.
func (t *tx) losses(run *jobstore.Run) (n int, err error) {
	if run.State != jobstore.Running || run.Attempt < jobstore.MaxLosses {
		return 0, nil
	}
	err = t.queryRow(sqlLosses, run.ID).Scan(&n)
	return n, err
}

// next is what becomes of the run.
func (c *claim) next(run *jobstore.Run, lane *lane) jobstore.Run {
	if lane.job.RemovedAt.IsZero() {
		return jobstore.Begin(*run, lane.job.Definition, lane.target, c.req.Node, c.t.now, c.req.Lease)
	}
	ended := *run
	ended.State, ended.Reason = jobstore.Canceled, jobstore.ReasonRemoved
	if run.State == jobstore.Pending {
		ended.State = jobstore.Skipped
	}
	ended.ClaimAt, ended.FinishedAt = time.Time{}, c.t.now
	return ended
}

// held is what Extend needs to know of a run.
type held struct {
	jobstore.Lease
	until  time.Time
	cancel bool
}

func scanHeld(rows *sql.Rows, h *held) error {
	return rows.Scan(&h.RunID, &h.Attempt, (*at)(&h.until), &h.cancel)
}

const (
	sqlHeld = `SELECT id, attempt, claim_at, cancel_requested FROM tidemark_runs
WHERE id IN (SELECT value FROM json_each(?1)) AND state = 'running' AND node = ?2`

	sqlRenew = `UPDATE tidemark_runs SET claim_at = ?
WHERE id = ? AND attempt = ? AND node = ? AND state = 'running'`
)

// Extend implements jobstore.Queue. It writes only when a lease is a third
// spent.
func (s *Store) Extend(ctx context.Context, req jobstore.ExtendRequest) (out jobstore.Signals, err error) {
	if len(req.Leases) == 0 {
		return jobstore.Signals{Now: now()}, nil
	}
	var renew []jobstore.Lease
	err = s.read(ctx, func(t *tx) error {
		out, renew, err = t.signals(req)
		return err
	})
	if err == nil && len(renew) > 0 {
		err = s.write(ctx, func(t *tx) error {
			if out, renew, err = t.signals(req); err != nil {
				return err
			}
			for _, l := range renew {
				res, err := t.exec(sqlRenew, micros(t.now.Add(req.Lease)), l.RunID, l.Attempt, req.Node)
				if err != nil {
					return err
				}
				if err := one(res, "run", l.RunID); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return jobstore.Signals{}, wrap("renew leases", err)
	}
	return out, nil
}

func (t *tx) signals(req jobstore.ExtendRequest) (out jobstore.Signals, renew []jobstore.Lease, err error) {
	ids := make([]int64, len(req.Leases))
	for i, l := range req.Leases {
		ids[i] = l.RunID
	}
	arg, err := list(ids)
	if err != nil {
		return out, nil, err
	}
	rows, err := collect(scanHeld)(t.query(sqlHeld, arg, req.Node))
	if err != nil {
		return out, nil, err
	}
	have := map[jobstore.Lease]held{}
	for _, h := range rows {
		have[h.Lease] = h
	}
	out.Now = t.now
	for _, l := range req.Leases {
		h, ok := have[l]
		if !ok {
			out.Lost = append(out.Lost, l)
			continue
		}
		if h.cancel {
			out.Cancel = append(out.Cancel, l)
		}
		if h.until.Sub(t.now) < req.Lease*2/3 {
			renew = append(renew, l)
		}
	}
	return out, renew, nil
}

const sqlReport = `INSERT INTO tidemark_outputs (run_id, attempt, head, tail, size, updated_at)
SELECT r.id, r.attempt, ?3, ?4, ?5, ?6 FROM tidemark_runs AS r
WHERE r.id = ?1 AND r.attempt = ?2 AND r.state = 'running'
ON CONFLICT (run_id, attempt) DO UPDATE SET
	head = excluded.head, tail = excluded.tail, size = excluded.size, updated_at = excluded.updated_at`

// Report implements jobstore.Queue. The output of an attempt that is not its
// run's current one any more is dropped.
func (s *Store) Report(ctx context.Context, outputs []jobstore.RunOutput) error {
	if len(outputs) == 0 {
		return nil
	}
	err := s.write(ctx, func(t *tx) error {
		for i := range outputs {
			if err := t.storeOutput(outputs[i].Lease, &outputs[i].Output); err != nil {
				return err
			}
		}
		return nil
	})
	return wrap("store output", err)
}

func (t *tx) storeOutput(l jobstore.Lease, o *jobstore.Output) error {
	_, err := t.exec(sqlReport, l.RunID, l.Attempt, blob(o.Head), blob(o.Tail), o.Size, micros(t.now))
	return err
}
