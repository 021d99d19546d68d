package jobstore

import (
	"slices"
	"time"
)

// State is where a run stands.
type State string

// The states of a run; doc.go has the diagram.
const (
	Pending   State = "pending"
	Running   State = "running"
	Retrying  State = "retrying"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Canceled  State = "canceled"
	Missed    State = "missed"
	Skipped   State = "skipped"
	Coalesced State = "coalesced"
)

// States lists all states in the order of a run's life.
func States() []State {
	return []State{Pending, Running, Retrying, Succeeded, Failed, Canceled, Missed, Skipped, Coalesced}
}

// Open reports whether a run in this state has not ended.
func (s State) Open() bool { return s == Pending || s == Running || s == Retrying }

// Valid reports whether s is a state.
func (s State) Valid() bool { return slices.Contains(States(), s) }

// Trigger says why a run exists.
type Trigger string

// The triggers.
const (
	TriggerSchedule Trigger = "schedule"
	TriggerCatchUp  Trigger = "catch_up" // planned more than a second after its instant
	TriggerManual   Trigger = "manual"
)

// Run is one (job, target, fire time).
type Run struct {
	ID         int64
	Key        string
	JobID      int64
	Job        string // the job's name now (the key keeps the name at creation)
	Target     string
	FireTime   time.Time // a manual run's is the moment of the request
	Trigger    Trigger
	LogicalRun int

	State         State
	Reason        string
	Review        bool
	CoalescedInto string // key of the run that covers this one (coalesced, covered)
	Covers        int64  // fire times that it stands for, its own included

	NotBefore time.Time // fire time plus jitter: the earliest start
	ClaimAt   time.Time // see doc.go
	Deadline  time.Time // fire time plus grace; zero: none

	Attempt          int // counts attempts; the fencing token of the current one
	Failures         int // attempts that failed, as the retry policy counts
	Losses           int // attempts lost in a row before the current one; known in a takeover only
	Node             string
	CreatedAt        time.Time
	StartedAt        time.Time // of the first attempt
	AttemptStartedAt time.Time // of the latest attempt
	FinishedAt       time.Time

	WindowFrom  time.Time // fixed when the run first starts
	WindowTo    time.Time
	OwnWindow   bool // given by the caller: never covered, moves no watermark
	Fingerprint string

	CancelRequested bool
	ExitCode        *int // exit code or HTTP status of the latest attempt
	Message         string
}

// Active reports whether the run occupies one of its job's instances.
func (r *Run) Active() bool { return r.State == Running || r.State == Retrying }

// Waiting reports whether the run waits behind another of its (job, target).
func (r *Run) Waiting() bool { return r.State == Pending && r.ClaimAt.IsZero() }

// Attempt is one ended try that was not a run's last.
type Attempt struct {
	Attempt    int
	Node       string
	StartedAt  time.Time
	FinishedAt time.Time
	Outcome    AttemptOutcome
	ExitCode   *int
	Message    string
}

// AttemptOutcome is how an attempt ended.
type AttemptOutcome string

// The outcomes of an attempt.
const (
	AttemptSucceeded  AttemptOutcome = "succeeded"
	AttemptFailed     AttemptOutcome = "failed"
	AttemptTimedOut   AttemptOutcome = "timed_out"
	AttemptCanceled   AttemptOutcome = "canceled"
	AttemptLost       AttemptOutcome = "lost"        // its lease ended: the node died or hung
	AttemptHandedBack AttemptOutcome = "handed_back" // the daemon was stopped
)

// Output is what an attempt wrote: its first and its last part.
type Output struct {
	Head []byte
	Tail []byte // what came after Head, or the end of it
	Size int64  // bytes written in all; more than Head and Tail hold where cut
}
