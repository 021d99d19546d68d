package scheduler

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Observer is told what happens; it is the scheduler's other seam. Its methods
// are called concurrently, and must return at once.
type Observer interface {
	// Planned: this node recorded a plan of the job.
	Planned(job string, firing *jobstore.Firing, took time.Duration)
	// Started: this node began an attempt, that long after the run's instant
	// plus jitter (meaningful for a first attempt).
	Started(run *jobstore.Run, delay time.Duration)
	// Attempted: an attempt on this node ended, and the store knows.
	Attempted(job string, outcome jobstore.AttemptOutcome)
	// Ended: a run came to its end by this node's hand.
	Ended(run *jobstore.Run)
	// Leases: that many leases of this node were lost, or taken over by it.
	Leases(lost, taken int)
	// StoreFailed: an operation on the store failed.
	StoreFailed(op string)
}
