package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	// LeaseTime is how long a node may hold a run without a sign of life; it
	// renews at a third of it (semantics 5).
	LeaseTime = 30 * time.Second
	// tick is the longest sleep of a loop: a suspended machine notices, and what
	// another process wrote is acted on within it (semantics 7).
	tick = time.Second
	// outageRetry is how long a loop waits after the store failed.
	outageRetry = time.Second
)

// Options is what a Scheduler needs beside its store.
type Options struct {
	Node     jobstore.Node
	Slots    int           // runs at once on this node (max_concurrent_runs)
	Grace    time.Duration // how long Run lets running work end (shutdown_grace)
	Keep     Retention
	Observer Observer
	Log      *zap.Logger
	// Sweep ends what an attempt, and earlier ones, of a run left on this host
	// whose daemon is gone. It is called for runs that a claim ends without a
	// further attempt; may be nil.
	Sweep func(key string, attempt int) error
	// Installation goes into every Try: the same for all nodes of one store.
	Installation string
	Pulse        func() // called at every turn of the dispatch loop, for a watchdog; may be nil
}

// Retention is how long history is kept; zero keeps it for ever.
type Retention struct{ Runs, Output time.Duration }

// Scheduler is one node's loops: fire, work, rescue. All nodes are equal.
type Scheduler struct {
	store jobstore.Store
	opt   Options
	log   *zap.Logger

	loaded sync.RWMutex // loops hold it to read jobs; Load to change them
	jobs   map[string]*Job
	own    map[int64]string // hashes of the jobs of which store and node agree, by id
	loads  int              // counts loads, so that an older list is not adopted
	strays strays

	kickFire, kickWork chan struct{}

	mu       sync.Mutex
	tasks    map[jobstore.Lease]*task
	reserved int                // slots promised to a call under way
	backlog  bool               // claimable runs were left for lack of slots
	draining bool               // nothing is begun any more
	troubled map[string]trouble // by operation on the store, while it fails

	work   stoppable     // what attempts run under
	record stoppable     // what outcomes are recorded under; outlives work
	abort  chan struct{} // closed when what runs has no time left
	ends   chan ended

	clock   clock
	offset  atomic.Int64 // node clock minus store clock, nanoseconds
	trusted atomic.Bool  // the store's clock is believed
	shaken  atomic.Bool  // leases may be stale: renew before claiming
}

// stoppable is a context with its stop.
type stoppable struct {
	context.Context
	stop context.CancelCauseFunc
}

func newStoppable() stoppable {
	ctx, stop := context.WithCancelCause(context.Background())
	return stoppable{ctx, stop}
}

// New makes a scheduler that has no jobs yet.
func New(store jobstore.Store, opt Options) *Scheduler {
	s := &Scheduler{
		store: store, opt: opt, log: opt.Log,
		jobs:     map[string]*Job{},
		kickFire: make(chan struct{}, 1), kickWork: make(chan struct{}, 1),
		tasks:    map[jobstore.Lease]*task{},
		troubled: map[string]trouble{},
		work:     newStoppable(), record: newStoppable(), abort: make(chan struct{}),
		ends:  make(chan ended, 2*opt.Slots),
		clock: clock{epoch: time.Now()},
	}
	s.strays.set(map[int64]string{})
	s.trusted.Store(true)
	return s
}

// Run fires and works until ctx ends; then it starts nothing more, lets what
// runs end for Grace, hands the rest back, and returns nil. When abort ends it
// hands everything back at once. It returns an error only when the node's name
// was taken over by another daemon. The node must have joined the store. A
// Scheduler runs once.
func (s *Scheduler) Run(ctx, abort context.Context) error {
	loops, fence := context.WithCancelCause(ctx)
	defer fence(nil)
	defer s.work.stop(nil)
	defer s.record.stop(nil)

	var moving, recording, living sync.WaitGroup
	drained := make(chan struct{})
	moving.Go(func() { s.fireLoop(loops) })
	moving.Go(func() { s.workLoop(loops, s.record, drained) })
	recording.Go(func() { s.finishLoop(s.record, drained) })
	living.Go(func() {
		s.rescueLoop(s.record, func(err error) { s.work.stop(ErrLeaseLost); fence(err) })
	})

	<-loops.Done()
	s.drain(abort)
	close(drained)
	moving.Wait()
	recording.Wait()
	s.record.stop(nil)
	living.Wait()
	if cause := context.Cause(loops); errors.Is(cause, jobstore.ErrNodeTaken) {
		return fmt.Errorf("stopped: %w", cause)
	}
	return nil
}

// recordGrace is how long a shutdown waits for the store to take the outcomes
// of work that has been stopped. What it cannot take is taken over later.
const recordGrace = 5 * time.Second

// drain waits until nothing runs, and stops what still runs after the grace.
func (s *Scheduler) drain(abort context.Context) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	if n := s.running(); n > 0 {
		s.log.Info("shutting down: letting running work end, then handing it back",
			zap.Int("runs", n), zap.Duration("grace", s.opt.Grace))
	}
	grace := time.NewTimer(s.opt.Grace)
	defer grace.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	var last <-chan time.Time
	stop := func(why string) {
		s.log.Warn(why+": stopping running work and handing it back", zap.Int("runs", s.running()))
		s.work.stop(ErrShutdown)
		last = time.After(s.killGrace() + recordGrace)
	}
	aborted := abort.Done()
	for s.busy() {
		select {
		case <-aborted:
			aborted = nil
			close(s.abort)
			stop("asked to end at once")
		case <-grace.C:
			if last == nil {
				stop("shutdown grace is over")
			}
		case <-last:
			s.log.Error("not all work could be ended and recorded in time: those runs will be taken over", zap.Int("runs", s.running()))
			s.record.stop(nil)
			return
		case <-poll.C:
		}
	}
}

// Wake makes the loops look at the store now.
func (s *Scheduler) Wake() {
	kick(s.kickFire)
	kick(s.kickWork)
}

func kick(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// sleep waits for d, a kick or the end of ctx.
func sleep(ctx context.Context, d time.Duration, kicked <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-kicked:
	case <-timer.C:
	}
}

// Loaded is what a Load changed.
type Loaded struct {
	Created, Changed, Removed int
	Strays                    []string // jobs whose definition in the store differs from the file's
	State                     jobstore.SyncState
}

// Load makes jobs the node's jobs, after firing what is due by the old ones,
// and reconciles the store with them, in one transaction (semantics 6).
func (s *Scheduler) Load(ctx context.Context, jobs []*Job, revision int64) (Loaded, error) {
	if s.isDraining() {
		return Loaded{}, fmt.Errorf("load jobs: %w", ErrShutdown)
	}
	if len(s.names()) > 0 {
		if !s.fireDue(ctx) {
			return Loaded{}, fmt.Errorf("load jobs: %w: its clock jumped ahead and is not believed yet", jobstore.ErrUnavailable)
		}
	}
	s.loaded.Lock()
	defer s.loaded.Unlock()
	s.loads++
	var out Loaded
	state, err := s.store.Sync(ctx, func(state jobstore.SyncState) (jobstore.Changes, error) {
		changes, err := Reconcile(jobs, revision, state)
		out.Created, out.Changed, out.Removed = len(changes.Create), len(changes.Update), len(changes.Remove)
		return changes, err
	})
	if err != nil {
		return Loaded{}, fmt.Errorf("load jobs into the store: %w", err)
	}
	out.State = state
	s.jobs = make(map[string]*Job, len(jobs))
	for _, job := range jobs {
		s.jobs[job.Name] = job
	}
	out.Strays = s.adopt(state.Jobs)
	s.Wake()
	return out, nil
}

// adopt compares the node's jobs with the store's: what agrees is this node's to
// fire and run, what differs is left to others. It returns the names of those.
func (s *Scheduler) adopt(stored []jobstore.Job) []string {
	s.own = make(map[int64]string, len(s.jobs))
	differ := map[int64]string{}
	for i := range stored {
		job := &stored[i]
		mine := s.jobs[job.Name]
		switch removed := !job.RemovedAt.IsZero(); {
		case mine == nil && removed:
		case mine == nil || removed || mine.Hash != job.Hash:
			differ[job.ID] = job.Name
		default:
			s.own[job.ID] = job.Hash
		}
	}
	return s.strays.set(differ)
}

func (s *Scheduler) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// names are the node's jobs.
func (s *Scheduler) names() []string {
	s.loaded.RLock()
	defer s.loaded.RUnlock()
	return slices.Collect(maps.Keys(s.jobs))
}

// Watch keeps waking the loops when another process changed the store, until
// ctx ends. Where the store cannot tell, the loops' own polling serves.
func (s *Scheduler) Watch(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.store.Watch(ctx, s.Wake); err != nil && ctx.Err() == nil {
			s.log.Debug("cannot listen for changes, polling meanwhile", zap.Error(err))
		}
		sleep(ctx, 5*time.Second, nil)
	}
	return nil
}

// All runs Run and Watch together.
func (s *Scheduler) All(ctx, abort context.Context) error {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return s.Watch(watch) })
	g.Go(func() error { defer stop(); return s.Run(ctx, abort) })
	return g.Wait()
}

// Stats is what a scrape wants to know of the node.
type Stats struct {
	Running     int
	Backlog     bool
	ClockOffset time.Duration // node minus store
	Strays      []string
}

// Stats reports how the node stands.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	backlog := s.backlog
	s.mu.Unlock()
	return Stats{s.running(), backlog, time.Duration(s.offset.Load()), s.strays.names()}
}

// Node describes this node, as the store shows it to people.
func (s *Scheduler) Node() jobstore.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opt.Node
}

// Describe changes what the store shows of this node from the next beat on.
func (s *Scheduler) Describe(change func(*jobstore.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.opt.Node)
}
