package jobstore

import (
	"context"
	"time"
)

// Store is everything that Tidemark keeps. All methods may be called
// concurrently. A method that fails has changed nothing; where a reply was
// lost the change may have happened, and calling again is safe. An error that
// is worth trying again later wraps ErrUnavailable.
type Store interface {
	Registry
	Queue
	Operations
	Cluster
	History
	// Check reports whether the store can be reached and its schema is this
	// version's, whole: ErrUnavailable, ErrOldSchema, ErrNewerSchema, ErrDamaged.
	Check(ctx context.Context) error
	Close() error
}

// Registry keeps the jobs.
type Registry interface {
	// Sync brings the jobs to what decide says, in one transaction: it locks
	// and reads them, calls decide, applies its changes, and returns the jobs
	// as they then are. decide must be pure: it may be called more than once.
	Sync(ctx context.Context, decide func(SyncState) (Changes, error)) (SyncState, error)
	// Jobs lists jobs by name. Without names: all that are not removed.
	Jobs(ctx context.Context, names ...string) ([]Job, error)
	// Agenda lists all jobs, removed ones included, without the texts of their
	// definitions: what is asked for again and again.
	Agenda(ctx context.Context) ([]Job, error)
	// Targets lists the targets of all jobs, removed ones included.
	Targets(ctx context.Context) ([]Target, error)
	// Backlog counts open runs by job name and state; never history.
	Backlog(ctx context.Context) (map[string]map[State]int64, error)
}

// SyncState is what reconciling a file starts from.
type SyncState struct {
	Now      time.Time
	Revision int64 // highest `revision` ever loaded
	Jobs     []Job // removed ones included
}

// Changes is what reconciling a file does, in this order.
type Changes struct {
	Revision int64
	Firings  []Firing // what the old definitions still owe; leases nothing
	Create   []NewJob
	Update   []JobUpdate
	Remove   []int64 // ids: no longer fire; waiting runs are skipped (reason removed)
}

// NewJob is a job that the store has never seen.
type NewJob struct {
	Definition
	LastPlanned time.Time
	NextFire    time.Time
	Pause       Pause // of a job that the file begins as paused
}

// JobUpdate replaces a job's definition. It also ends a removal.
type JobUpdate struct {
	ID int64
	Definition
	Reschedule  bool // also set the two below
	LastPlanned time.Time
	NextFire    time.Time
	Pause       Pause // replaces the job's
}

// Queue is the life of a run, batch-shaped from end to end.
type Queue interface {
	// Due lists jobs that the planner must look at now.
	Due(ctx context.Context, req DueRequest) (Due, error)
	// Fire records plans, many jobs in one transaction, each only if the job is
	// still at the version that was planned: who loses the race changes
	// nothing. Runs that may start at once are leased to the caller as far as
	// its slots go.
	Fire(ctx context.Context, req FireRequest) (Fired, error)
	// Claim leases runs whose ClaimAt has come: new ones, retries, and those
	// whose lease has ended. Runs that may not start any more are settled
	// (missed, skipped, failed) in the same transaction.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)
	// Extend renews leases that are a third spent, and reports which are lost
	// and which runs a person wants canceled. Cheap enough for every second.
	Extend(ctx context.Context, req ExtendRequest) (Signals, error)
	// Report stores the output of attempts that still run.
	Report(ctx context.Context, outputs []RunOutput) error
	// Finish records ended attempts, in one transaction: outcome, result,
	// output, watermark, and the next waiting run let go. A stale attempt
	// changes nothing and is reported as such.
	Finish(ctx context.Context, ends []End) ([]Ended, error)
}

// DueRequest asks for at most Limit jobs, without the excluded ones.
type DueRequest struct {
	Limit   int
	Exclude []int64 // jobs whose definition differs from this node's
}

// Due is the store's answer, with its clock.
type Due struct {
	Now  time.Time
	Jobs []Job
	Next time.Time // when the next job, excluded ones aside, will be due; zero: none
}

// FireRequest carries plans.
type FireRequest struct {
	Node    string
	Lease   time.Duration
	Slots   int // runs that the caller can start at once
	Firings []Firing
}

// Firing is what one plan does to one job.
type Firing struct {
	JobID       int64
	Version     int64 // the job's when it was planned
	LastPlanned time.Time
	NextFire    time.Time
	Due         int64
	Runs        []NewRun // oldest first
	Ranges      []Range
	EndPause    bool // the pause is over and what it passed over is in Ranges
}

// NewRun is a run to be created.
type NewRun struct {
	Key       string
	Target    string
	FireTime  time.Time
	Trigger   Trigger
	NotBefore time.Time
	Deadline  time.Time // zero: none
	Covers    int64
	WindowTo  time.Time // newest instant that it covers
}

// Fired is what Fire did.
type Fired struct {
	Now       time.Time
	Jobs      []int64 // that this call fired
	Leased    []Run
	Coalesced []Run // runs coalesced by overlap: queue
	Left      bool  // runs were created that could start now and that this call did not lease
}

// ClaimRequest asks for at most Limit runs.
type ClaimRequest struct {
	Node    string
	Lease   time.Duration
	Limit   int
	Exclude []int64                             // job ids
	Held    []int64                             // runs that the node works on: not to be taken over by itself
	Accept  func(jobID int64, hash string) bool // does the node have this very definition?
}

// Claimed is what Claim did.
type Claimed struct {
	Now     time.Time
	Runs    []Run
	Lost    []Run     // of Runs, as they were: taken over from a lease that had ended
	Settled []Run     // ended without starting
	Refused []int64   // jobs that Accept refused
	Next    time.Time // when the next run can be claimed; zero: none known
}

// Lease names a running attempt.
type Lease struct {
	RunID   int64
	Attempt int
}

// ExtendRequest renews the leases of a node.
type ExtendRequest struct {
	Node   string
	Lease  time.Duration
	Leases []Lease
}

// Signals is what a worker must know about its runs.
type Signals struct {
	Now    time.Time
	Lost   []Lease // stop: another attempt may have begun
	Cancel []Lease // stop: somebody asked for it
}

// RunOutput is the output so far of a running attempt.
type RunOutput struct {
	Lease
	Output Output
}

// End is how an attempt ended and what its run becomes.
type End struct {
	Lease
	State    State // Succeeded, Failed, Canceled, Retrying
	Outcome  AttemptOutcome
	Reason   string
	Review   bool
	Failure  bool          // counts as a failure for the retry policy
	RetryIn  time.Duration // Retrying: from the store's now
	ExitCode *int
	Message  string
	Output   *Output // nil: nothing was written
}

// Bytes is how much output the end carries.
func (e *End) Bytes() int {
	if e.Output == nil {
		return 0
	}
	return len(e.Output.Head) + len(e.Output.Tail)
}

// Ended is what Finish did with one End.
type Ended struct {
	Lease
	Stale bool // the attempt is not the run's current one: nothing was changed
	Run   Run  // as it now is, unless stale
}

// Operations is what people ask for.
type Operations interface {
	// Trigger creates a manual run, which waits its turn. The same key again
	// returns the run that exists; with another window: ErrConflict.
	Trigger(ctx context.Context, req TriggerRequest) (run Run, created bool, err error)
	// Cancel ends a run that has not started or waits for a retry, and asks the
	// worker of a running one to stop it. ErrNotFound, ErrState.
	Cancel(ctx context.Context, key, by string) (Run, error)
	// Pause stops planning and starting of a job, by Pause.Replace. ErrNotFound.
	Pause(ctx context.Context, job string, pause Pause) (Job, error)
	// Unpause ends a pause; the next plan deals with what it passed over.
	// ErrNotFound; ErrState where the file says `paused: true` or nothing is paused.
	Unpause(ctx context.Context, job string, policy ResumePolicy) (Job, error)
}

// TriggerRequest asks for a run now.
type TriggerRequest struct {
	Job, Target string
	Key         string // whole run key
	WindowFrom  time.Time
	WindowTo    time.Time // both zero: [watermark, now)
}

// Cluster is the nodes that share the store.
type Cluster interface {
	// Join enters the node, or takes its row over from a daemon that is gone,
	// and ends the leases that one left. ErrNodeTaken while it lives.
	Join(ctx context.Context, node Node) error
	// Beat says that the node lives. ErrNodeTaken when its row is another's.
	Beat(ctx context.Context, node Node) (now time.Time, err error)
	// Leave takes the node's row away.
	Leave(ctx context.Context, node Node) error
	// Nodes lists the nodes, dead ones included.
	Nodes(ctx context.Context) ([]Node, error)
	// Watch calls wake whenever another process changed something that a loop
	// should look at soon. It returns when ctx ends, or with an error when it
	// cannot hear any more; polling serves meanwhile.
	Watch(ctx context.Context, wake func()) error
}

// NodeTimeout is after how long without a beat a node counts as dead.
const NodeTimeout = 10 * time.Second

// Node is one daemon.
type Node struct {
	Name        string
	Instance    string // random per process
	Host        string // what makes PID unique: machine, boot and PID namespace
	PID         int
	Version     string
	StartedAt   time.Time
	SeenAt      time.Time
	Gone        bool // in Join: the caller knows that the row's holder, if any, is dead
	ConfigHash  string
	ConfigAt    time.Time // of the last good load
	ConfigErr   string    // of the last load, if it failed
	Revision    int64
	Running     int
	ClockOffset time.Duration // node minus store
}

// History reads, and forgets.
type History interface {
	// Runs lists runs, newest first.
	Runs(ctx context.Context, filter RunFilter) ([]Run, error)
	// Run is one run with its earlier attempts. ErrNotFound.
	Run(ctx context.Context, key string) (Run, []Attempt, error)
	// Output is what an attempt wrote; attempt 0 is the latest that wrote.
	Output(ctx context.Context, runID int64, attempt int) (Output, error)
	// Ranges lists a job's ranges that touch [from, to], oldest first.
	Ranges(ctx context.Context, jobID int64, from, to time.Time) ([]Range, error)
	// Ledger is the balance of every job, removed ones included.
	Ledger(ctx context.Context) ([]Balance, error)
	// Prune forgets history that ended before the given times, at most one
	// bounded batch; more says that there is more to do.
	Prune(ctx context.Context, runsBefore, outputBefore time.Time) (more bool, err error)
}

// RunFilter narrows a listing. Zero fields do not narrow.
type RunFilter struct {
	Job    string
	Target *string
	States []State
	Review bool      // only what a person must look at
	Since  time.Time // fire time at or after
	Limit  int       // 0: no limit
}

// Balance is one job's ledger in fire times (not times targets): Due = Runs +
// Ranges + Pruned, always.
type Balance struct {
	Job                       string
	Due, Runs, Ranges, Pruned int64
	Open                      map[State]int64 // open runs
}
