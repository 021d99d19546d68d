package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	sqlJobByName = `SELECT ` + jobColumns + ` FROM tidemark_jobs AS j WHERE j.name = ?1`

	sqlRunByKey = `SELECT ` + runColumns + `, j.name FROM tidemark_runs AS r
JOIN tidemark_jobs AS j ON j.id = r.job_id WHERE r.key = ?1`
)

// jobNamed is the job, or ErrNotFound.
func (t *tx) jobNamed(name string) (*jobstore.Job, error) {
	jobs, err := collect(scanJob)(t.query(sqlJobByName, name))
	if err == nil && (len(jobs) == 0 || !jobs[0].RemovedAt.IsZero()) {
		err = fmt.Errorf("job %s: %w", name, jobstore.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return &jobs[0], nil
}

// runOf is the run of that key, if there is one.
func (t *tx) runOf(key string) (*jobstore.Run, error) {
	runs, err := collect(scanRun)(t.query(sqlRunByKey, key))
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return &runs[0], nil
}

// Trigger implements jobstore.Operations.
func (s *Store) Trigger(ctx context.Context, req jobstore.TriggerRequest) (run jobstore.Run, created bool, err error) {
	what := "trigger job " + req.Job
	own := !req.WindowFrom.IsZero() || !req.WindowTo.IsZero()
	if own && (req.WindowFrom.IsZero() || req.WindowTo.Before(req.WindowFrom)) {
		return run, false, fmt.Errorf("%s: %w: a window needs a beginning and, no earlier, an end", what, jobstore.ErrState)
	}
	err = s.write(ctx, func(t *tx) error {
		old, err := t.runOf(req.Key)
		if err != nil {
			return err
		}
		if old != nil {
			run, created = *old, false
			return sameRequest(old, &req, own)
		}
		job, err := t.jobNamed(req.Job)
		if err != nil {
			return err
		}
		created = true
		run, err = t.trigger(job, &req, own)
		return err
	})
	if err != nil {
		return jobstore.Run{}, false, wrap(what, err)
	}
	return run, created, nil
}

func sameRequest(old *jobstore.Run, req *jobstore.TriggerRequest, own bool) error {
	from, to := jobstore.Instant(req.WindowFrom), jobstore.Instant(req.WindowTo)
	same := old.Job == req.Job && old.Target == req.Target && old.Trigger == jobstore.TriggerManual && old.OwnWindow == own &&
		(!own || old.WindowFrom.Equal(from) && old.WindowTo.Equal(to))
	if !same {
		return fmt.Errorf("run %s: %w", old.Key, jobstore.ErrConflict)
	}
	return nil
}

func (t *tx) trigger(job *jobstore.Job, req *jobstore.TriggerRequest, own bool) (jobstore.Run, error) {
	lanes := newLanes(t)
	lane, err := lanes.forManual(job, req.Target)
	if err != nil {
		return jobstore.Run{}, err
	}
	run := jobstore.NewRun{
		Key: req.Key, Target: req.Target, FireTime: t.now, Trigger: jobstore.TriggerManual, NotBefore: t.now, Covers: 1,
	}.Run(*job, t.now)
	switch {
	case own:
		run.OwnWindow, run.WindowFrom, run.WindowTo = true, jobstore.Instant(req.WindowFrom), jobstore.Instant(req.WindowTo)
	case job.Windowed:
		run.WindowTo = t.now
	}
	added := lane.admit([]jobstore.Run{run}, t)
	err = lanes.store()
	return added[0].Run, err
}

// Cancel implements jobstore.Operations.
func (s *Store) Cancel(ctx context.Context, key, by string) (run jobstore.Run, err error) {
	err = s.write(ctx, func(t *tx) error {
		old, err := t.runOf(key)
		switch {
		case err != nil:
			return err
		case old == nil:
			return jobstore.ErrNotFound
		case !old.State.Open():
			return fmt.Errorf("%w: it is %s", jobstore.ErrState, old.State)
		}
		lanes := newLanes(t)
		if err := lanes.ofRuns([]int64{old.ID}); err != nil {
			return err
		}
		lane, e := lanes.lane(old.JobID, old.Target), lanes.runs[old.ID]
		run = e.Run
		if run.CancelRequested {
			return nil
		}
		run.CancelRequested, run.Reason, run.Message = true, jobstore.ReasonCanceled, "canceled by "+by
		if run.State == jobstore.Running {
			lane.set(e, run)
			return lanes.store()
		}
		run.State, run.ClaimAt, run.FinishedAt = jobstore.Canceled, time.Time{}, t.now
		lane.end(e, run)
		lane.promote(t)
		return lanes.store()
	})
	if err != nil {
		return jobstore.Run{}, wrap("cancel run "+key, err)
	}
	return run, nil
}

// Pause implements jobstore.Operations.
func (s *Store) Pause(ctx context.Context, name string, pause jobstore.Pause) (jobstore.Job, error) {
	job, err := s.changeJob(ctx, name, func(job *jobstore.Job, now time.Time) error {
		job.Pause = job.Pause.Replace(pause, job.FilePaused, now)
		return nil
	})
	return job, wrap("pause job "+name, err)
}

// Unpause implements jobstore.Operations.
func (s *Store) Unpause(ctx context.Context, name string, policy jobstore.ResumePolicy) (jobstore.Job, error) {
	job, err := s.changeJob(ctx, name, func(job *jobstore.Job, now time.Time) error {
		pause, err := job.Pause.Unpause(policy, job.FilePaused, now)
		job.Pause = pause
		return err
	})
	return job, wrap("unpause job "+name, err)
}

func (s *Store) changeJob(ctx context.Context, name string, change func(*jobstore.Job, time.Time) error) (out jobstore.Job, err error) {
	err = s.write(ctx, func(t *tx) error {
		job, err := t.jobNamed(name)
		if err != nil {
			return err
		}
		if err := change(job, t.now); err != nil {
			return err
		}
		if err := t.storeJob(job); err != nil {
			return err
		}
		out = *job
		return nil
	})
	return out, err
}
