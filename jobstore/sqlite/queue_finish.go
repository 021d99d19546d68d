package sqlite

import (
	"context"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Finish implements jobstore.Queue.
func (s *Store) Finish(ctx context.Context, ends []jobstore.End) (out []jobstore.Ended, err error) {
	if len(ends) == 0 {
		return nil, nil
	}
	err = s.write(ctx, func(t *tx) error {
		out, err = t.finish(ends)
		return err
	})
	if err != nil {
		return nil, wrap("record ended attempts", err)
	}
	return out, nil
}

func (t *tx) finish(ends []jobstore.End) ([]jobstore.Ended, error) {
	ids := make([]int64, len(ends))
	for i := range ends {
		ids[i] = ends[i].RunID
	}
	lanes := newLanes(t)
	if err := lanes.ofRuns(ids); err != nil {
		return nil, err
	}
	out := make([]jobstore.Ended, len(ends))
	for i := range ends {
		end := &ends[i]
		out[i].Lease = end.Lease
		e := lanes.runs[end.RunID]
		if e == nil || e.Attempt != end.Attempt || e.State != jobstore.Running {
			out[i].Stale = true
			continue
		}
		if err := t.end(lanes.lane(e.JobID, e.Target), e, end); err != nil {
			return nil, err
		}
		out[i].Run = e.Run
	}
	for _, lane := range lanes.all {
		lane.promote(t)
	}
	return out, lanes.store()
}

// end applies one end to its run, which is running under that attempt.
func (t *tx) end(lane *lane, e *entry, end *jobstore.End) error {
	if end.Output != nil {
		if err := t.storeOutput(end.Lease, end.Output); err != nil {
			return err
		}
	}
	run := e.Run
	if end.Failure {
		run.Failures++
	}
	run.State, run.ExitCode, run.Review = end.State, end.ExitCode, end.Review
	if run.CancelRequested && run.State == jobstore.Retrying {
		run.State = jobstore.Canceled // reason and message are the request's
	} else {
		run.Reason, run.Message = end.Reason, end.Message
	}
	if run.State == jobstore.Retrying {
		run.ClaimAt = jobstore.Instant(t.now.Add(end.RetryIn))
		lane.set(e, run)
		return t.storeAttempt(&run, end.Outcome)
	}
	run.ClaimAt, run.FinishedAt = time.Time{}, t.now
	lane.end(e, run)
	return nil
}
