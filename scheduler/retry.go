package scheduler

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Delay is how long to wait before the next attempt after that many failures:
// random, 0 <= random < 1, of a bound that grows by Multiplier from Initial to
// Max ("full jitter"). It is pure.
func (r Retry) Delay(failures int, random float64) time.Duration {
	bound := float64(r.Initial) * math.Pow(math.Max(r.Multiplier, 1), float64(max(failures-1, 0)))
	if r.Max > 0 {
		bound = math.Min(bound, float64(r.Max))
	}
	return time.Duration(bound * random)
}

// Conclude decides what a run becomes after an attempt (semantics 5): cause is
// why the attempt was stopped, nil if it was not. It is pure.
func (j *Job) Conclude(run *jobstore.Run, res Result, cause error, random float64) jobstore.End {
	end := jobstore.End{
		Lease:    jobstore.Lease{RunID: run.ID, Attempt: run.Attempt},
		State:    jobstore.Failed,
		Outcome:  res.Outcome(cause),
		ExitCode: res.ExitCode,
	}
	if res.Err != nil {
		end.Message = res.Err.Error()
	}
	switch end.Outcome {
	case jobstore.AttemptSucceeded:
		end.State = jobstore.Succeeded
	case jobstore.AttemptCanceled:
		end.State, end.Reason = jobstore.Canceled, jobstore.ReasonCanceled
	case jobstore.AttemptHandedBack:
		end.State, end.Reason = jobstore.Retrying, jobstore.ReasonHandedBack
	default:
		j.concludeFailure(run, res, &end, random)
	}
	return end
}

func (j *Job) concludeFailure(run *jobstore.Run, res Result, end *jobstore.End, random float64) {
	end.Failure = true
	if end.Outcome == jobstore.AttemptTimedOut {
		end.Reason = jobstore.ReasonTimeout
	}
	switch failures := run.Failures + 1; {
	case !res.Transient:
		end.Review = true
	case failures < j.Retry.MaxAttempts:
		end.State = jobstore.Retrying
		end.RetryIn = max(j.Retry.Delay(failures, random), res.RetryAfter)
	}
}

// stopCause is why the work was told to stop, nil if it was not.
func stopCause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	for _, known := range []error{ErrTimeout, ErrCanceled, ErrLeaseLost, ErrShutdown} {
		if errors.Is(cause, known) {
			return known
		}
	}
	return ErrShutdown
}
