package jobstore

import (
	"fmt"
	"time"
)

// Overlap says what a due run does while as many runs of its (job, target) as
// are allowed are active (semantics 4).
type Overlap string

// The overlap policies.
const (
	OverlapQueue    Overlap = "queue"     // one waits; a further one is coalesced with it
	OverlapQueueAll Overlap = "queue_all" // every one waits its turn
	OverlapAllow    Overlap = "allow"     // no bound unless max_instances gives one
)

// Coalesce says which of several eligible instants becomes a run.
type Coalesce string

// The coalescing policies.
const (
	CoalesceLatest   Coalesce = "latest"
	CoalesceEarliest Coalesce = "earliest"
	CoalesceAll      Coalesce = "all"
)

// ResumePolicy says what becomes of the instants that a pause passed over.
type ResumePolicy string

// The resume policies.
const (
	ResumeSkip    ResumePolicy = "skip"     // recorded as skipped, reason "paused"
	ResumeCatchUp ResumePolicy = "catch_up" // treated as the planner treats downtime
)

// Definition is what the file says of a job, as far as the store keeps it. The
// values are as written: `${…}` is not expanded in them.
type Definition struct {
	Name        string
	JSON        []byte // the whole definition, canonical
	Hash        string // of JSON
	Schedule    []byte // the part that decides when it fires (scheduler.ScheduleSpec), canonical JSON
	Fingerprint string // hash of the work alone; target and window are the run's own columns

	Overlap      Overlap
	Coalesce     Coalesce
	MaxInstances int  // per (job, target); 0: no bound
	Windowed     bool // runs carry a window and move the watermark
	UsesWindow   bool // the work depends on its window: a covered run is skipped

	WatermarkStart time.Time // where a new target begins; zero: the job's last planned instant
	FilePaused     bool      // `paused: true` in the file
}

// Job is a job as the store has it.
type Job struct {
	ID      int64
	Version int64 // grows with every change to the row; what Fire compares
	Definition
	LastPlanned   time.Time
	CountsFrom    time.Time // since when the present schedule counts: made, changed, or resumed
	NextFire      time.Time // zero: never again
	Due           int64     // instants ever due (the ledger's left side)
	Pruned        int64     // of them, how many are only a count by now
	PrunedThrough time.Time
	Pause         Pause
	CreatedAt     time.Time
	RemovedAt     time.Time // zero: in the file
}

// Pause is a job's pause, current or just ended. The zero value is no pause.
type Pause struct {
	At        time.Time // since when
	Until     time.Time // zero: until somebody ends it
	Reason    string
	By        string
	ResumedAt time.Time    // ended by hand at; the next plan records what was passed over
	Policy    ResumePolicy // given with `unpause`; empty: the job's on_resume
}

// End is when the pause ended as seen at now; ok is false while there is no
// pause or it goes on.
func (p Pause) End(now time.Time) (end time.Time, ok bool) {
	switch {
	case p.At.IsZero():
		return time.Time{}, false
	case !p.ResumedAt.IsZero() && (p.Until.IsZero() || p.ResumedAt.Before(p.Until)):
		return p.ResumedAt, true
	case !p.Until.IsZero() && !p.Until.After(now):
		return p.Until, true
	}
	return time.Time{}, false
}

// Active reports whether the pause holds at now.
func (p Pause) Active(now time.Time) bool {
	_, ended := p.End(now)
	return !p.At.IsZero() && !ended
}

// Replace is the pause of a job that is paused again at now: since when it
// passes instants over stays, so that the plan after it still knows them. Where
// the file says `paused: true` no time ends it.
func (p Pause) Replace(next Pause, filePaused bool, now time.Time) Pause {
	out := Pause{At: now, Until: Instant(next.Until), Reason: next.Reason, By: next.By}
	if !p.At.IsZero() {
		out.At = p.At
	}
	if filePaused {
		out.Until = time.Time{}
	}
	return out
}

// PausedByFile is who pauses a job whose file says `paused: true`.
const PausedByFile = "file"

// FilePause is the pause that the file begins at now.
func FilePause(now time.Time) Pause {
	return Pause{At: now, Reason: "`paused: true` in the file", By: PausedByFile}
}

// Unpause is the pause after a person has ended theirs at now. The file's
// outlasts it: then a pause is still there. ErrState where there is none of a
// person's.
func (p Pause) Unpause(policy ResumePolicy, filePaused bool, now time.Time) (Pause, error) {
	switch {
	case filePaused && p.By == PausedByFile:
		return p, fmt.Errorf("%w: the file says `paused: true`", ErrState)
	case !p.Active(now):
		return p, fmt.Errorf("%w: it is not paused", ErrState)
	case filePaused:
		file := FilePause(now)
		file.At = p.At
		return file, nil
	}
	p.ResumedAt, p.Policy = now, policy
	return p, nil
}

// Target is the state of one (job, target).
type Target struct {
	JobID     int64
	Target    string
	Watermark time.Time // zero: the job keeps none
	// What ended last, and up to where work has succeeded.
	LastState       State
	LastFinishedAt  time.Time
	LastSuccessAt   time.Time
	LastSuccessFire time.Time // newest instant that a success covers
	LastSuccessKey  string    // the run that made it
	Review          bool      // a failure waits for a person; a later success clears it
}

// Range is a stretch of due instants that made no run of their own.
type Range struct {
	ID          int64
	JobID       int64
	First, Last time.Time // both inclusive
	Count       int64
	Outcome     Outcome
	Reason      string
	Into        time.Time // coalesced: fire time of the run that covers them
	RecordedAt  time.Time
}

// Outcome is what a range's instants ended as.
type Outcome string

// The outcomes of a range.
const (
	OutcomeMissed     Outcome = "missed"
	OutcomeCoalesced  Outcome = "coalesced"
	OutcomeSkipped    Outcome = "skipped"
	OutcomeSuperseded Outcome = "superseded"
)

// Reasons that are recorded with ranges and runs. People and programs read
// them: they are contracts.
const (
	ReasonGrace       = "grace exceeded"
	ReasonCoalesced   = "coalesced"
	ReasonCatchupMax  = "catchup.max"
	ReasonPaused      = "paused"
	ReasonRemoved     = "removed"
	ReasonSuperseded  = "schedule changed"
	ReasonOverlap     = "overlap"
	ReasonDeadline    = "deadline passed while waiting"
	ReasonCovered     = "covered"
	ReasonFingerprint = "definition changed since the first attempt"
	ReasonLeaseLost   = "lease ended"
	ReasonHandedBack  = "handed back at shutdown"
	ReasonLosses      = "killed its worker 5 times in a row"
	ReasonTimeout     = "timeout"
	ReasonCanceled    = "canceled"
)
