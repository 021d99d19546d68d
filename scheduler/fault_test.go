package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// faulty is a real store on a line that fails as the test says.
type faulty struct {
	jobstore.Store
	away       atomic.Bool  // nothing gets through
	loseFinish atomic.Int64 // replies of Finish that are lost
	loseSync   atomic.Int64 // replies of Sync that are lost
	ahead      atomic.Int64 // by how much its clock is ahead, as Due tells it
	held       atomic.Pointer[[]int64]
}

func (f *faulty) line() error {
	if f.away.Load() {
		return fmt.Errorf("%w: away", jobstore.ErrUnavailable)
	}
	return nil
}

func lost(left *atomic.Int64, err error) error {
	if err == nil && left.Add(-1) >= 0 {
		return fmt.Errorf("%w: the reply was lost", jobstore.ErrUnavailable)
	}
	return err
}

func (f *faulty) Due(ctx context.Context, r jobstore.DueRequest) (jobstore.Due, error) {
	if err := f.line(); err != nil {
		return jobstore.Due{}, err
	}
	due, err := f.Store.Due(ctx, r)
	due.Now = due.Now.Add(time.Duration(f.ahead.Load()))
	return due, err
}

func (f *faulty) Fire(ctx context.Context, r jobstore.FireRequest) (jobstore.Fired, error) {
	if err := f.line(); err != nil {
		return jobstore.Fired{}, err
	}
	return f.Store.Fire(ctx, r)
}

func (f *faulty) Claim(ctx context.Context, r jobstore.ClaimRequest) (jobstore.Claimed, error) {
	if err := f.line(); err != nil {
		return jobstore.Claimed{}, err
	}
	f.held.Store(&r.Held)
	return f.Store.Claim(ctx, r)
}

func (f *faulty) Extend(ctx context.Context, r jobstore.ExtendRequest) (jobstore.Signals, error) {
	if err := f.line(); err != nil {
		return jobstore.Signals{}, err
	}
	return f.Store.Extend(ctx, r)
}

func (f *faulty) Beat(ctx context.Context, n jobstore.Node) (time.Time, error) {
	if err := f.line(); err != nil {
		return time.Time{}, err
	}
	return f.Store.Beat(ctx, n)
}

func (f *faulty) Finish(ctx context.Context, ends []jobstore.End) ([]jobstore.Ended, error) {
	if err := f.line(); err != nil {
		return nil, err
	}
	out, err := f.Store.Finish(ctx, ends)
	return out, lost(&f.loseFinish, err)
}

func (f *faulty) Sync(ctx context.Context, decide func(jobstore.SyncState) (jobstore.Changes, error)) (jobstore.SyncState, error) {
	if err := f.line(); err != nil {
		return jobstore.SyncState{}, err
	}
	out, err := f.Store.Sync(ctx, decide)
	return out, lost(&f.loseSync, err)
}

// counting is an observer that counts.
type counting struct {
	quiet
	ended, attempted, lost atomic.Int64
}

func (c *counting) Attempted(string, jobstore.AttemptOutcome) { c.attempted.Add(1) }
func (c *counting) Ended(*jobstore.Run)                       { c.ended.Add(1) }
func (c *counting) Leases(lost, _ int)                        { c.lost.Add(int64(lost)) }

// inFault starts a scheduler on a faulty line; stop drains it.
func inFault(t *testing.T, test func(n *node, f *faulty, obs *counting, start func(...*scheduler.Job) (s *scheduler.Scheduler, stop func()))) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		f, obs := &faulty{Store: n.store}, &counting{}
		test(n, f, obs, func(jobs ...*scheduler.Job) (*scheduler.Scheduler, func()) {
			self := jobstore.Node{Name: "n", Instance: "1", StartedAt: time.Now()}
			if err := n.store.Join(t.Context(), self); err != nil {
				t.Fatal(err)
			}
			s := scheduler.New(f, scheduler.Options{Node: self, Slots: 8, Grace: 10 * time.Second, Observer: obs, Log: zap.NewNop()})
			if _, err := s.Load(t.Context(), jobs, 0); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := s.Run(ctx, context.Background()); err != nil {
					t.Error(err)
				}
			})
			return s, func() { cancel(); wg.Wait() }
		})
	})
}

func TestWorkGoesOnWhileTheStoreIsAway(t *testing.T) {
	inFault(t, func(n *node, f *faulty, obs *counting, start func(...*scheduler.Job) (*scheduler.Scheduler, func())) {
		_, stop := start(newJob(n.t, "a", "0 * * * *", func(ctx context.Context, _ scheduler.Try) scheduler.Result {
			select {
			case <-time.After(3 * time.Minute):
				return scheduler.Result{}
			case <-ctx.Done():
				return scheduler.Result{Err: context.Cause(ctx)}
			}
		}))
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 10*time.Second)))
		f.away.Store(true)
		time.Sleep(time.Minute)
		f.away.Store(false)
		time.Sleep(4 * time.Minute)
		stop()
		if runs := n.runs(); len(runs) != 1 || runs[0].State != jobstore.Succeeded || runs[0].Attempt != 1 || obs.lost.Load() != 0 {
			n.t.Errorf("%+v, %d leases lost", runs, obs.lost.Load())
		}
	})
}

func TestALostReplyOfFinishCountsOnce(t *testing.T) {
	inFault(t, func(n *node, f *faulty, obs *counting, start func(...*scheduler.Job) (*scheduler.Scheduler, func())) {
		f.loseFinish.Store(1)
		_, stop := start(newJob(n.t, "a", "* * * * *", succeed))
		time.Sleep(3*time.Minute + 10*time.Second)
		stop()
		ok := int64(0)
		for _, r := range n.runs() {
			if r.State == jobstore.Succeeded {
				ok++
			}
		}
		if ok < 3 || obs.ended.Load() != ok || obs.attempted.Load() != ok || obs.lost.Load() != 0 {
			n.t.Errorf("%d runs succeeded; told of %d, of %d attempts and %d lost leases", ok, obs.ended.Load(), obs.attempted.Load(), obs.lost.Load())
		}
	})
}

func TestALostReplyOfALoadIsHealedByTheNext(t *testing.T) {
	inFault(t, func(n *node, f *faulty, _ *counting, start func(...*scheduler.Job) (*scheduler.Scheduler, func())) {
		s, stop := start(newJob(n.t, "a", "* * * * *", succeed))
		defer stop()
		time.Sleep(90 * time.Second)
		f.loseSync.Store(1)
		changed := []*scheduler.Job{newJob(n.t, "a", "*/2 * * * *", succeed)}
		if _, err := s.Load(n.t.Context(), changed, 0); !errors.Is(err, jobstore.ErrUnavailable) {
			n.t.Fatal(err)
		}
		if _, err := s.Load(n.t.Context(), changed, 0); err != nil {
			n.t.Fatal(err)
		}
		before := len(n.runs())
		time.Sleep(10 * time.Minute)
		if got := len(n.runs()) - before; got != 5 || len(s.Stats().Strays) != 0 {
			n.t.Errorf("%d runs in ten minutes, strays %v", got, s.Stats().Strays)
		}
	})
}

func TestALoadWhileTheClockIsASuspectBurnsNothing(t *testing.T) {
	inFault(t, func(n *node, f *faulty, _ *counting, start func(...*scheduler.Job) (*scheduler.Scheduler, func())) {
		s, stop := start(newJob(n.t, "a", "0 * * * *", succeed))
		defer stop()
		time.Sleep(3 * time.Second)
		f.ahead.Store(int64(365 * 24 * time.Hour))
		time.Sleep(2 * time.Second)
		changed := []*scheduler.Job{newJob(n.t, "a", "30 * * * *", succeed)}
		if _, err := s.Load(n.t.Context(), changed, 0); !errors.Is(err, jobstore.ErrUnavailable) {
			n.t.Errorf("loaded by a clock that is not believed: %v", err)
		}
		f.ahead.Store(0)
		time.Sleep(2 * time.Second)
		if _, err := s.Load(n.t.Context(), changed, 0); err != nil {
			n.t.Error(err)
		}
		jobs, err := n.store.Jobs(n.t.Context())
		if err != nil || time.Until(jobs[0].NextFire) > time.Hour || len(n.runs()) != 0 {
			n.t.Errorf("%+v %v", jobs, err)
		}
	})
}

func TestNothingIsBegunWhileDraining(t *testing.T) {
	inFault(t, func(n *node, _ *faulty, _ *counting, start func(...*scheduler.Job) (*scheduler.Scheduler, func())) {
		slow := newJob(n.t, "slow", "* * * * *", func(ctx context.Context, _ scheduler.Try) scheduler.Result {
			select {
			case <-time.After(8 * time.Second):
			case <-ctx.Done():
			}
			return scheduler.Result{}
		})
		every := newJob(n.t, "every", "@every 1s", succeed, all)
		s, stop := start(slow, every)
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 1500*time.Millisecond)))
		asked := time.Now()
		var wg sync.WaitGroup
		wg.Go(stop)
		time.Sleep(3 * time.Second)
		if _, err := s.Load(context.Background(), []*scheduler.Job{slow, every}, 0); !errors.Is(err, scheduler.ErrShutdown) {
			n.t.Errorf("loaded while draining: %v", err)
		}
		wg.Wait()
		for _, r := range n.runs() {
			if r.StartedAt.After(asked) {
				n.t.Errorf("%s was started %v after the signal", r.Key, r.StartedAt.Sub(asked))
			}
			if r.Job == "slow" && r.State != jobstore.Succeeded {
				n.t.Errorf("%+v", r)
			}
		}
	})
}

func TestAClaimNamesWhatTheNodeWorksOn(t *testing.T) {
	inFault(t, func(n *node, f *faulty, _ *counting, start func(...*scheduler.Job) (*scheduler.Scheduler, func())) {
		_, stop := start(newJob(n.t, "a", "0 * * * *", func(ctx context.Context, _ scheduler.Try) scheduler.Result {
			<-ctx.Done()
			return scheduler.Result{Err: context.Cause(ctx)}
		}))
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 10*time.Second)))
		runs := n.runs()
		if held := *f.held.Load(); len(runs) != 1 || !slices.Contains(held, runs[0].ID) {
			n.t.Errorf("claims look past %v, running is %+v", held, runs)
		}
		stop()
	})
}
