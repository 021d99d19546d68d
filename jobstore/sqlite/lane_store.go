package sqlite

import "fmt"

// store writes what has changed.
func (l *lanes) store() error {
	for _, n := range l.all {
		if n.clear {
			if _, err := l.t.exec(sqlClearReview, n.target.JobID, n.target.Target); err != nil {
				return err
			}
		}
		for _, e := range n.runs {
			if !e.dirty {
				continue
			}
			if err := l.t.storeRun(e); err != nil {
				return err
			}
		}
		if n.dirty {
			if err := l.t.storeTarget(n); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	sqlClearReview = `UPDATE tidemark_runs SET review = 0 WHERE job_id = ?1 AND target = ?2 AND review`

	sqlInsertRun = `INSERT INTO tidemark_runs (
	key, job_id, target, fire_time, trigger, logical_run,
	state, reason, review, coalesced_into, covers, not_before, claim_at, deadline,
	attempt, failures, node, created_at, started_at, attempt_started_at, finished_at,
	window_from, window_to, own_window, fingerprint, cancel_requested, exit_code, message
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// Only from the state and attempt that the transaction has read.
	sqlUpdateRun = `UPDATE tidemark_runs SET
	state = ?, reason = ?, review = ?, coalesced_into = ?, covers = ?, claim_at = ?,
	attempt = ?, failures = ?, node = ?, started_at = ?, attempt_started_at = ?, finished_at = ?,
	window_from = ?, window_to = ?, fingerprint = ?, cancel_requested = ?, exit_code = ?, message = ?
WHERE id = ? AND state = ? AND attempt = ?`
)

func (t *tx) storeRun(e *entry) error {
	r := &e.Run
	e.dirty = false
	if e.stored {
		res, err := t.exec(sqlUpdateRun,
			string(r.State), r.Reason, r.Review, r.CoalescedInto, r.Covers, micros(r.ClaimAt),
			r.Attempt, r.Failures, r.Node, micros(r.StartedAt), micros(r.AttemptStartedAt), micros(r.FinishedAt),
			micros(r.WindowFrom), micros(r.WindowTo), r.Fingerprint, r.CancelRequested, number(r.ExitCode), r.Message,
			r.ID, string(e.state), e.attempt)
		if err != nil {
			return err
		}
		e.state, e.attempt = r.State, r.Attempt
		return one(res, "run", r.ID)
	}
	res, err := t.exec(sqlInsertRun, r.Key, r.JobID, r.Target, micros(r.FireTime), string(r.Trigger), r.LogicalRun,
		string(r.State), r.Reason, r.Review, r.CoalescedInto, r.Covers, micros(r.NotBefore), micros(r.ClaimAt), micros(r.Deadline),
		r.Attempt, r.Failures, r.Node, micros(r.CreatedAt), micros(r.StartedAt), micros(r.AttemptStartedAt), micros(r.FinishedAt),
		micros(r.WindowFrom), micros(r.WindowTo), r.OwnWindow, r.Fingerprint, r.CancelRequested, number(r.ExitCode), r.Message)
	if err != nil {
		return err
	}
	r.ID, err = res.LastInsertId()
	e.stored, e.state, e.attempt = true, r.State, r.Attempt
	return err
}

const (
	sqlInsertTarget = `INSERT INTO tidemark_targets (
	watermark, last_state, last_finished_at, last_success_at, last_success_fire, last_success_key, review, job_id, target
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	sqlUpdateTarget = `UPDATE tidemark_targets SET
	watermark = ?, last_state = ?, last_finished_at = ?, last_success_at = ?, last_success_fire = ?, last_success_key = ?, review = ?
WHERE job_id = ? AND target = ?`
)

func (t *tx) storeTarget(n *lane) error {
	query, g := sqlInsertTarget, &n.target
	if n.stored {
		query = sqlUpdateTarget
	}
	n.dirty, n.stored = false, true
	res, err := t.exec(query, micros(g.Watermark), string(g.LastState), micros(g.LastFinishedAt),
		micros(g.LastSuccessAt), micros(g.LastSuccessFire), g.LastSuccessKey, g.Review, g.JobID, g.Target)
	if err != nil {
		return err
	}
	return one(res, "a target of job", g.JobID)
}

// one makes sure that a statement changed the row that it expected.
func one(res interface{ RowsAffected() (int64, error) }, what string, id int64) error {
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("%s %d changed in the middle of a transaction", what, id)
	}
	return err
}
