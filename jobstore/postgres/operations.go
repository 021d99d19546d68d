package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkd/tidemark/jobstore"
)

const lockJob = `
SELECT id, version, name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed,
       uses_window, watermark_start, file_paused, last_planned, counts_from, next_fire, due, pruned, pruned_through,
       paused_at, paused_until, pause_reason, paused_by, resumed_at, resume_policy, created_at, removed_at
FROM tidemark_jobs
WHERE name = $1
FOR NO KEY UPDATE`

const selectRun = `
SELECT r.id, r.key, r.job_id, j.name, r.target, r.fire_time, r.trigger, r.logical_run, r.state, r.reason, r.review,
       r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline, r.attempt, r.failures, r.node, r.created_at,
       r.started_at, r.attempt_started_at, r.finished_at, r.window_from, r.window_to, r.own_window, r.fingerprint,
       r.cancel_requested, r.exit_code, r.message
FROM tidemark_runs r
JOIN tidemark_jobs j ON j.id = r.job_id
WHERE r.key = $1`

func queueRun(b *pgx.Batch, key string, into *[]jobstore.Run) {
	b.Queue(selectRun, text(key)).Query(collect(into, runColumns))
}

// Trigger implements jobstore.Operations. A key that exists is answered even
// when its job has been removed since.
func (s *Store) Trigger(ctx context.Context, req jobstore.TriggerRequest) (run jobstore.Run, created bool, err error) {
	what := "trigger job " + req.Job
	req.WindowFrom, req.WindowTo = jobstore.Instant(req.WindowFrom), jobstore.Instant(req.WindowTo)
	own := !req.WindowFrom.IsZero() || !req.WindowTo.IsZero()
	if own && (req.WindowFrom.IsZero() || req.WindowTo.Before(req.WindowFrom)) {
		return run, false, fmt.Errorf("%s: %w: a window needs a beginning and, no earlier, an end", what, jobstore.ErrState)
	}
	err = s.transact(ctx, what, func(ctx context.Context, t *txn) error {
		l := newLanes()
		var jobs []jobstore.Job
		var old []jobstore.Run
		b := t.pipeline()
		queueNow(b, &l.now)
		b.Queue(lockJob, text(req.Job)).Query(collect(&jobs, jobColumns))
		queueRun(b, req.Key, &old)
		if err := t.send(ctx, b); err != nil {
			return err
		}
		if len(old) > 0 {
			run, created = old[0], false
			return sameRequest(&run, &req, own)
		}
		if len(jobs) == 0 || !jobs[0].RemovedAt.IsZero() {
			return jobstore.ErrNotFound
		}
		l.jobs[jobs[0].ID] = &jobs[0]
		created = true
		run, err = trigger(ctx, t, l, newManual(&jobs[0], &req, l.now))
		return err
	})
	if err != nil {
		return jobstore.Run{}, false, err
	}
	return run, created, nil
}

func sameRequest(old *jobstore.Run, req *jobstore.TriggerRequest, own bool) error {
	same := old.Job == req.Job && old.Target == req.Target && old.Trigger == jobstore.TriggerManual &&
		old.OwnWindow == own && (!own || old.WindowFrom.Equal(req.WindowFrom) && old.WindowTo.Equal(req.WindowTo))
	if !same {
		return fmt.Errorf("run %s: %w", old.Key, jobstore.ErrConflict)
	}
	return nil
}

func newManual(job *jobstore.Job, req *jobstore.TriggerRequest, now time.Time) jobstore.Run {
	run := jobstore.NewRun{
		Key: req.Key, Target: req.Target, FireTime: now, Trigger: jobstore.TriggerManual, NotBefore: now, Covers: 1,
	}.Run(*job, now)
	switch {
	case !req.WindowTo.IsZero():
		run.OwnWindow, run.WindowFrom, run.WindowTo = true, req.WindowFrom, req.WindowTo
	case job.Windowed:
		run.WindowTo = now
	}
	return run
}

// trigger admits a manual run under the lock of its job, and then its target's.
func trigger(ctx context.Context, t *txn, l *lanes, run jobstore.Run) (jobstore.Run, error) {
	keys := []laneKey{{run.JobID, run.Target}}
	b := t.pipeline()
	l.queueTargets(b, lockTargets, keys)
	l.queueOpen(b, selectCrowd, keys)
	if err := t.send(ctx, b); err != nil {
		return jobstore.Run{}, err
	}
	n := l.lane(keys[0])
	n.enter()
	adm := jobstore.Admit(n.job.Definition, n.open, []jobstore.Run{run}, l.now)
	run = adm.Insert[0]
	b = t.pipeline()
	l.queueTargetWrites(b)
	queueInsertRuns(b, []*jobstore.Run{&run})
	b.Queue(notify)
	return run, t.commit(ctx, b)
}

// errChanged asks transact for another try: what was read has changed before it
// was locked.
var errChanged = errors.New("changed meanwhile")

// Cancel implements jobstore.Operations.
func (s *Store) Cancel(ctx context.Context, key, by string) (run jobstore.Run, err error) {
	err = s.transact(ctx, "cancel run "+key, func(ctx context.Context, t *txn) error {
		var found []jobstore.Run
		l := newLanes()
		b := t.pipeline()
		queueNow(b, &l.now)
		queueRun(b, key, &found)
		if err := t.send(ctx, b); err != nil {
			return err
		}
		switch {
		case len(found) == 0:
			return jobstore.ErrNotFound
		case !found[0].State.Open():
			return fmt.Errorf("%w: it is %s", jobstore.ErrState, found[0].State)
		}
		run = found[0]
		if run.CancelRequested {
			return nil
		}
		run.CancelRequested, run.Reason, run.Message = true, jobstore.ReasonCanceled, "canceled by "+text(by)
		if run.State == jobstore.Running {
			return askToStop(ctx, t, run)
		}
		run.State, run.ClaimAt, run.FinishedAt = jobstore.Canceled, time.Time{}, l.now
		return cancelWaiting(ctx, t, l, run)
	})
	if err != nil {
		return jobstore.Run{}, err
	}
	return run, nil
}

// No target is locked here: who finishes the run holds that lock already.
const requestCancel = `
UPDATE tidemark_runs SET cancel_requested = true, reason = $3, message = $4
WHERE id = $1 AND attempt = $2 AND state = 'running'`

func askToStop(ctx context.Context, t *txn, run jobstore.Run) error {
	var changed int64
	b := t.pipeline()
	queueExec(b, &changed, requestCancel, run.ID, run.Attempt, run.Reason, run.Message)
	if err := t.send(ctx, b); err != nil {
		return err
	}
	if changed == 0 {
		return errChanged
	}
	b = t.pipeline()
	b.Queue(notify)
	return t.commit(ctx, b)
}

const cancelRun = `
UPDATE tidemark_runs SET state = 'canceled', claim_at = NULL, finished_at = now(), cancel_requested = true,
    reason = $3, message = $4
WHERE id = $1 AND attempt = $2 AND state IN ('pending', 'retrying')`

func cancelWaiting(ctx context.Context, t *txn, l *lanes, run jobstore.Run) error {
	key := laneKey{run.JobID, run.Target}
	var changed int64
	b := t.pipeline()
	l.queueBounds(b, []int64{run.JobID})
	l.queueTargets(b, lockTargets, []laneKey{key})
	queueExec(b, &changed, cancelRun, run.ID, run.Attempt, run.Reason, run.Message)
	l.queueOpen(b, selectCrowd, []laneKey{key})
	if err := t.send(ctx, b); err != nil {
		return err
	}
	if changed == 0 {
		return errChanged
	}
	l.lane(key).end(run)
	let := l.promote()
	b = t.pipeline()
	l.queueTargetWrites(b)
	queueUpdateRuns(b, let)
	if len(let) > 0 {
		b.Queue(notify)
	}
	return t.commit(ctx, b)
}

// Pause implements jobstore.Operations.
func (s *Store) Pause(ctx context.Context, name string, pause jobstore.Pause) (jobstore.Job, error) {
	return s.changeJob(ctx, "pause job "+name, name, func(job *jobstore.Job, now time.Time) error {
		job.Pause = job.Pause.Replace(pause, job.FilePaused, now)
		return nil
	})
}

// Unpause implements jobstore.Operations.
func (s *Store) Unpause(ctx context.Context, name string, policy jobstore.ResumePolicy) (jobstore.Job, error) {
	return s.changeJob(ctx, "unpause job "+name, name, func(job *jobstore.Job, now time.Time) error {
		pause, err := job.Pause.Unpause(policy, job.FilePaused, now)
		job.Pause = pause
		return err
	})
}

func (s *Store) changeJob(ctx context.Context, what, name string, change func(*jobstore.Job, time.Time) error) (out jobstore.Job, err error) {
	err = s.transact(ctx, what, func(ctx context.Context, t *txn) error {
		var now time.Time
		var jobs []jobstore.Job
		b := t.pipeline()
		queueNow(b, &now)
		b.Queue(lockJob, text(name)).Query(collect(&jobs, jobColumns))
		if err := t.send(ctx, b); err != nil {
			return err
		}
		if len(jobs) == 0 || !jobs[0].RemovedAt.IsZero() {
			return jobstore.ErrNotFound
		}
		if err := change(&jobs[0], now); err != nil {
			return err
		}
		b = t.pipeline()
		queueJobs(b, updateJobs, jobs, now)
		b.Queue(notify)
		out = jobs[0]
		out.Version++
		return t.commit(ctx, b)
	})
	if err != nil {
		return jobstore.Job{}, err
	}
	return out, nil
}
