package scheduler

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
)

// finishBatch bounds the outcomes recorded in one transaction.
const finishBatch = 1000

// finishLoop records outcomes until drained. While one group is being committed
// the next one gathers, so that the store's durable commits are shared without
// any delay added.
func (s *Scheduler) finishLoop(ctx context.Context, drained <-chan struct{}) {
	group := make([]ended, 0, finishBatch)
	for {
		select {
		case first := <-s.ends:
			s.finish(ctx, s.gather(append(group[:0], first)))
		case <-ctx.Done():
			return
		case <-drained:
			return
		}
	}
}

func (s *Scheduler) gather(group []ended) []ended {
	for len(group) < finishBatch {
		select {
		case next := <-s.ends:
			group = append(group, next)
		default:
			return group
		}
	}
	return group
}

// finish records a group, for as long as it takes: an outcome is not dropped
// because the store is away. Where the store refuses it for what it holds, each
// is tried alone, the last time without its texts.
func (s *Scheduler) finish(ctx context.Context, group []ended) {
	for ctx.Err() == nil {
		ends := make([]jobstore.End, len(group))
		for i := range group {
			ends[i] = group[i].end
		}
		results, err := s.store.Finish(ctx, ends)
		switch {
		case err == nil:
			s.finished(group, results)
			return
		case errors.Is(err, jobstore.ErrUnavailable) || ctx.Err() != nil:
			s.storeFailed(ctx, "finish", "record outcomes", err)
		case len(group) > 1:
			for i := range group {
				s.finish(ctx, group[i:i+1])
			}
			return
		default:
			s.storeFailed(ctx, "finish", "record the outcome of "+group[0].task.run.Key+", trying without its output", err)
			group[0].end.Output, group[0].end.Message = nil, "the outcome's text could not be stored"
		}
		sleep(ctx, outageRetry, nil)
	}
	for i := range group {
		s.forget(group[i].task)
	}
}

func (s *Scheduler) finished(group []ended, results []jobstore.Ended) {
	again := false
	for i, res := range results {
		t, end := group[i].task, group[i].end
		s.forget(t)
		if res.Stale {
			s.opt.Observer.Leases(1, 0)
			s.log.Warn("the outcome came too late: another attempt has taken over, and decides",
				zap.String("key", t.run.Key), zap.Int("attempt", t.run.Attempt))
			continue
		}
		s.opt.Observer.Attempted(t.job.Name, end.Outcome)
		run := res.Run
		if !run.State.Open() {
			s.opt.Observer.Ended(&run)
		}
		again = again || run.State == jobstore.Retrying || t.job.MaxInstances > 0
	}
	if again {
		kick(s.kickWork)
	}
}

// killGrace is the longest time that a stopped attempt may take to end.
func (s *Scheduler) killGrace() time.Duration {
	longest := time.Duration(0)
	for _, t := range s.current() {
		longest = max(longest, t.job.KillGrace)
	}
	return longest
}
