package scheduler

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Unlimited is the grace that expires nothing.
const Unlimited time.Duration = -1

// Job is a job as a node runs it: what the store keeps of its definition, and
// what only a running daemon needs. It is immutable once made.
type Job struct {
	jobstore.Definition
	Schedule   *Schedule
	Grace      time.Duration // misfire_grace_time; Unlimited expires nothing
	CatchupMax int           // catchup.max under coalesce: all; 0: unlimited
	Jitter     time.Duration
	Targets    []string // at least one; a job without targets has the empty one

	OnScheduleChange string // "supersede" or "finish"
	OnResume         jobstore.ResumePolicy
	RenamedFrom      string

	Timeout   time.Duration // of one attempt; 0: none
	KillGrace time.Duration // from being told to stop to being killed
	Retry     Retry
	Executor  Executor

	Description string
	Labels      map[string]string
}

// Retry is a job's retry policy (semantics 5). The zero value is one attempt.
type Retry struct {
	MaxAttempts int           // failed attempts allowed, the last one included; 0 counts as 1
	Initial     time.Duration // bound of the first delay
	Max         time.Duration // bound of every delay
	Multiplier  float64       // of the bound, per failure
}
