package scheduler

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Executor does the work of a job. It is one of the scheduler's two seams; the
// kinds of work are in internal/executor. An Executor is safe for concurrent
// use.
type Executor interface {
	// Execute makes one attempt and returns when nothing of it is left running.
	// When ctx ends it stops the work as soon as it can; context.Cause(ctx) is
	// then one of the errors below. It never panics on bad input, and never
	// retries by itself.
	Execute(ctx context.Context, try Try) Result
}

// Why an attempt is stopped before its end: causes of the context of Execute.
var (
	ErrTimeout   = errors.New("timed out")
	ErrCanceled  = errors.New("canceled by request")
	ErrLeaseLost = errors.New("lease lost: another attempt may have begun")
	ErrShutdown  = errors.New("daemon is shutting down")
)

// Try is what an attempt knows of its run.
type Try struct {
	Key         string
	Job         string
	Target      string
	ScheduledAt time.Time // the fire time
	Attempt     int       // from 1
	LogicalRun  int
	WindowFrom  time.Time // both zero where the job has no windows
	WindowTo    time.Time
	Coalesced   int64 // fire times that it covers beside its own
	// Abort is closed when a stopped attempt has no time left to end in order.
	Abort <-chan struct{}
	// Installation tells this store's runs from those of another one with the
	// same jobs on the same host.
	Installation string
	// Output takes what the work says, for people to read: kept bounded, first
	// and last part. Safe for concurrent use; never fails.
	Output io.Writer
}

// Result is how an attempt ended. The zero value is success.
type Result struct {
	Err        error         // nil: success. Its text is kept with the run, and holds no secret
	Transient  bool          // worth a retry (semantics 5); else the run fails at once, for review
	ExitCode   *int          // exit code, 128 + signal, or HTTP status, where there is one
	RetryAfter time.Duration // what the other side asked for; 0: nothing
}

// Outcome names how the attempt ended, given why it was stopped (nil: it was not).
func (r Result) Outcome(cause error) jobstore.AttemptOutcome {
	switch {
	case r.Err == nil:
		return jobstore.AttemptSucceeded
	case errors.Is(cause, ErrTimeout):
		return jobstore.AttemptTimedOut
	case errors.Is(cause, ErrCanceled):
		return jobstore.AttemptCanceled
	case errors.Is(cause, ErrLeaseLost):
		return jobstore.AttemptLost
	case errors.Is(cause, ErrShutdown):
		return jobstore.AttemptHandedBack
	}
	return jobstore.AttemptFailed
}
