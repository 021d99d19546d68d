package scheduler

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	beatEvery    = jobstore.NodeTimeout / 4
	recheckEvery = 30 * time.Second
	pruneEvery   = time.Minute
)

// rescueLoop says that the node lives, finds back jobs that it had to leave
// alone, and forgets old history, until ctx ends.
// fence is called, once, when another daemon has the node's name.
func (s *Scheduler) rescueLoop(ctx context.Context, fence func(error)) {
	var rechecked, pruned time.Time
	for ctx.Err() == nil {
		if err := s.beat(ctx); errors.Is(err, jobstore.ErrNodeTaken) {
			s.log.Error("another daemon runs under this node's name: stopping", zap.String("node", s.opt.Node.Name))
			fence(err)
			return
		}
		if time.Since(rechecked) >= recheckEvery {
			s.recheck(ctx)
			rechecked = time.Now()
		}
		next := time.Now().Add(beatEvery)
		for done := false; !done && time.Since(pruned) >= pruneEvery && time.Now().Before(next) && ctx.Err() == nil; {
			if done = s.prune(ctx); done {
				pruned = time.Now()
			}
		}
		sleep(ctx, time.Until(next), nil)
	}
}

func (s *Scheduler) beat(ctx context.Context) error {
	node := s.Node()
	node.Running, node.ClockOffset = s.running(), time.Duration(s.offset.Load())
	_, err := s.store.Beat(ctx, node)
	switch {
	case err == nil:
		s.storeWorks("beat")
	case !errors.Is(err, jobstore.ErrNodeTaken):
		s.storeFailed(ctx, "beat", "say that this node lives", err)
	}
	return err
}

// recheck looks whether jobs left alone have this node's definition again.
func (s *Scheduler) recheck(ctx context.Context) {
	if len(s.strays.ids()) == 0 {
		return
	}
	s.loaded.RLock()
	loads := s.loads
	s.loaded.RUnlock()
	stored, err := s.store.Agenda(ctx)
	if err != nil {
		s.storeFailed(ctx, "jobs", "compare jobs", err)
		return
	}
	s.storeWorks("jobs")
	s.loaded.Lock()
	defer s.loaded.Unlock()
	if s.loads == loads { // else the list may be older than the load
		s.adopt(stored)
	}
}

// prune forgets one batch of old history, and reports whether that was all.
func (s *Scheduler) prune(ctx context.Context) (done bool) {
	now := time.Now().Add(-time.Duration(s.offset.Load()))
	before := func(keep time.Duration) time.Time {
		if keep <= 0 {
			return time.Time{}
		}
		return now.Add(-keep)
	}
	more, err := s.store.Prune(ctx, before(s.opt.Keep.Runs), before(s.opt.Keep.Output))
	if err != nil {
		s.storeFailed(ctx, "prune", "forget old history", err)
		return true
	}
	s.storeWorks("prune")
	return !more
}
