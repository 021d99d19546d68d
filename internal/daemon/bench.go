package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// BenchResult is what a benchmark measured of this installation.
type BenchResult struct {
	Name      string  `json:"name"`
	Runs      int     `json:"runs"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	// Beside it, in the same call: a cycle written by hand that inserts leased
	// runs into the same table and completes them, in batches of a thousand.
	BaselineSeconds   float64 `json:"baseline_seconds,omitempty"`
	BaselinePerSecond float64 `json:"baseline_per_second,omitempty"`
	Ratio             float64 `json:"ratio,omitempty"` // PerSecond / BaselinePerSecond
	StartDelay        *Delays `json:"start_delay_ms,omitempty"`
}

// Delays are from the scheduled instant to the start of the work, in
// milliseconds.
type Delays struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

const (
	benchBatch = 1000
	benchSlots = 50_000
)

// BenchDispatch measures the durable rate of runs that do nothing: from a fire
// that is due to its recorded outcome, with full history, through the same loops
// as in the daemon. It works in a scratch schema (SQLite: file), dropped
// afterwards.
func BenchDispatch(ctx context.Context, address string, runs int, log *zap.Logger) (out BenchResult, err error) {
	store, drop, err := openScratch(ctx, address)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, drop()) }()

	baseline, err := store.HandwrittenCycle(ctx, runs, benchBatch)
	if err != nil {
		return out, fmt.Errorf("measure the hand-written cycle: %w", err)
	}
	took, err := dispatchAll(ctx, store, runs, log)
	if err != nil {
		return out, err
	}
	out = BenchResult{Name: "dispatch", Runs: runs, Seconds: took.Seconds(), BaselineSeconds: baseline.Seconds()}
	out.PerSecond, out.BaselinePerSecond = float64(runs)/took.Seconds(), float64(runs)/baseline.Seconds()
	out.Ratio = out.PerSecond / out.BaselinePerSecond
	return out, nil
}

// benchTargets is how many targets each job of the benchmark has.
const benchTargets = 10

// dispatchAll lets jobs with ten targets each fire at one instant, all at once,
// and measures from that instant on until the last outcome is recorded. They
// have fired once before, for a job's very first fire makes rows that later ones
// find.
func dispatchAll(ctx context.Context, store scratchStore, runs int, log *zap.Logger) (time.Duration, error) {
	var left atomic.Int64
	done := make(chan struct{}, 1)
	obs := &benchObserver{ended: func(*jobstore.Run) {
		if left.Add(-1) == 0 {
			done <- struct{}{}
		}
	}}
	// Slots for all: what is measured is the way from fire to outcome, not the
	// waiting for a slot.
	s, node, err := benchScheduler(ctx, store, obs, min(max(runs, benchBatch), benchSlots), log)
	if err != nil {
		return 0, err
	}
	wait := node.run(s)
	fireAt := func(at time.Time) error {
		left.Store(int64(runs))
		jobs, err := benchJobs(runs, "@at "+at.UTC().Format(time.RFC3339Nano))
		if err != nil {
			return err
		}
		if _, err := s.Load(ctx, jobs, 0); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := fireAt(time.Now().Add(-time.Minute).Truncate(time.Second)); err != nil {
		return 0, errors.Join(err, wait())
	}
	// Far enough ahead for the jobs to be registered by then.
	at := time.Now().Add(time.Second + time.Duration(runs)*100*time.Microsecond).Truncate(time.Millisecond)
	err = fireAt(at)
	took := time.Since(at)
	return took, errors.Join(err, wait())
}

// BenchTimer measures how long after its instant a run starts: twenty jobs of
// every second, for that many seconds.
func BenchTimer(ctx context.Context, address string, seconds int, log *zap.Logger) (out BenchResult, err error) {
	store, drop, err := openScratch(ctx, address)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	jobs, err := benchJobs(20, "@every 1s")
	if err != nil {
		return out, err
	}
	obs := &benchObserver{}
	s, stop, err := benchScheduler(ctx, store, obs, 64, log)
	if err != nil {
		return out, err
	}
	if _, err := s.Load(ctx, jobs, 0); err != nil {
		return out, err
	}
	began := time.Now()
	wait := stop.run(s)
	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return out, errors.Join(ctx.Err(), wait())
	}
	if err := wait(); err != nil {
		return out, err
	}
	took := time.Since(began).Seconds()
	delays := obs.delays()
	out = BenchResult{Name: "timer", Runs: len(delays), Seconds: took, PerSecond: float64(len(delays)) / took}
	if n := len(delays); n > 0 {
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		out.StartDelay = &Delays{P50: ms(delays[n/2]), P99: ms(delays[n*99/100]), Max: ms(delays[n-1])}
	}
	return out, nil
}

// benchJobs are jobs of one schedule that do nothing, and make that many runs
// at each of its instants.
func benchJobs(runs int, expr string) ([]*scheduler.Job, error) {
	spec := scheduler.ScheduleSpec{Expressions: []string{expr}, Timezone: "UTC"}
	schedule, err := scheduler.ParseSchedule(spec)
	if err != nil {
		return nil, err
	}
	written, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var jobs []*scheduler.Job
	for left := runs; left > 0; left -= benchTargets {
		targets := make([]string, min(left, benchTargets))
		for i := range targets {
			targets[i] = fmt.Sprintf("target-%d", i)
		}
		jobs = append(jobs, &scheduler.Job{
			Definition: jobstore.Definition{
				Name: fmt.Sprintf("bench-%06d", len(jobs)), JSON: []byte("{}"), Hash: "bench " + expr, Schedule: written, Fingerprint: "bench",
				Overlap: jobstore.OverlapQueue, Coalesce: jobstore.CoalesceLatest, MaxInstances: 1, Windowed: true,
			},
			Schedule: schedule, Grace: scheduler.Unlimited, Targets: targets,
			OnScheduleChange: "supersede", OnResume: jobstore.ResumeSkip, Executor: idle{},
		})
	}
	return jobs, nil
}

// idle is work that does nothing.
type idle struct{}

func (idle) Execute(context.Context, scheduler.Try) scheduler.Result { return scheduler.Result{} }

// benchRun starts a scheduler and returns how to stop it.
type benchRun struct{ ctx context.Context }

func (b benchRun) run(s *scheduler.Scheduler) (wait func() error) {
	ctx, stop := context.WithCancel(b.ctx)
	result := make(chan error, 1)
	go func() { result <- s.Run(ctx, context.WithoutCancel(ctx)) }()
	return func() error {
		stop()
		return <-result
	}
}

func benchScheduler(ctx context.Context, store jobstore.Store, obs scheduler.Observer, slots int, log *zap.Logger) (*scheduler.Scheduler, benchRun, error) {
	node, err := newNode("bench", "")
	if err != nil {
		return nil, benchRun{}, err
	}
	node.Gone = true
	if err := store.Join(ctx, node); err != nil {
		return nil, benchRun{}, err
	}
	return scheduler.New(store, scheduler.Options{
		Node: node, Slots: slots, Grace: 30 * time.Second, Observer: obs, Log: log,
	}), benchRun{ctx}, nil
}

// benchObserver keeps the start delays, and tells of each run that ended.
type benchObserver struct {
	ended  func(*jobstore.Run)
	mu     sync.Mutex
	starts []time.Duration
}

func (o *benchObserver) Planned(string, *jobstore.Firing, time.Duration) {}
func (o *benchObserver) Attempted(string, jobstore.AttemptOutcome)       {}
func (o *benchObserver) Leases(int, int)                                 {}
func (o *benchObserver) StoreFailed(string)                              {}

func (o *benchObserver) Ended(run *jobstore.Run) {
	if o.ended != nil {
		o.ended(run)
	}
}

func (o *benchObserver) Started(run *jobstore.Run, delay time.Duration) {
	if run.Trigger == jobstore.TriggerSchedule {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.starts = append(o.starts, delay)
	}
}

// delays are the start delays so far, sorted.
func (o *benchObserver) delays() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.starts)
	return o.starts
}
