package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// What one transaction records at most: outcomes, and about how much output.
const (
	finishBatch = 1000
	finishBytes = 4 << 20
)

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
	bytes := group[0].end.Bytes()
	for len(group) < finishBatch && bytes < finishBytes {
		select {
		case next := <-s.ends:
			group = append(group, next)
			bytes += next.end.Bytes()
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
	for unsure := false; ctx.Err() == nil; unsure = true {
		ends := make([]jobstore.End, len(group))
		for i := range group {
			ends[i] = group[i].end
		}
		results, err := s.store.Finish(ctx, ends)
		switch {
		case err == nil:
			s.storeWorks("finish")
			s.finished(ctx, group, results, unsure)
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

// finished tells of recorded outcomes. unsure says that an earlier call may
// have recorded them and its reply was lost.
func (s *Scheduler) finished(ctx context.Context, group []ended, results []jobstore.Ended, unsure bool) {
	again := false
	for i, res := range results {
		t, end := group[i].task, group[i].end
		run, recorded := res.Run, !res.Stale
		if res.Stale && unsure {
			run, recorded = s.recordedBefore(ctx, t, end)
		}
		s.forget(t)
		if !recorded {
			s.opt.Observer.Leases(1, 0)
			s.logLost(t, end)
			continue
		}
		s.opt.Observer.Attempted(t.job.Name, end.Outcome)
		if !run.State.Open() {
			s.opt.Observer.Ended(&run)
		}
		again = again || run.State == jobstore.Retrying || t.job.MaxInstances > 0
	}
	if again {
		kick(s.kickWork)
	}
}

// recordedBefore reports whether the store has this very end of the attempt.
func (s *Scheduler) recordedBefore(ctx context.Context, t *task, end jobstore.End) (jobstore.Run, bool) {
	run, _, err := s.store.Run(ctx, t.run.Key)
	if err != nil {
		s.storeFailed(ctx, "run", "look at "+t.run.Key, err)
		return run, false
	}
	same := run.State == end.State || run.State == jobstore.Canceled && run.CancelRequested
	return run, same && run.Attempt == t.run.Attempt
}

// killGrace is the longest time that a stopped attempt may take to end.
func (s *Scheduler) killGrace() time.Duration {
	longest := time.Duration(0)
	for _, t := range s.current() {
		longest = max(longest, t.job.KillGrace)
	}
	return longest
}
