package scheduler

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
)

// claimAtMost bounds one claim, so that nodes share a backlog.
const claimAtMost = 256

// workLoop tends the running attempts and claims further runs while ctx lasts.
// After that it only tends, until drained.
func (s *Scheduler) workLoop(ctx, tending context.Context, drained <-chan struct{}) {
	var tended time.Time
	for {
		if time.Since(tended) >= tick || s.shaken.Load() {
			// What another node may have taken over must be known before this one
			// claims: after an outage its own runs look like abandoned ones.
			if s.tend(tending) {
				s.shaken.Store(false)
			}
			tended = time.Now()
		}
		wait := tick
		switch {
		case ctx.Err() != nil:
		case s.shaken.Load():
			wait = outageRetry
		case s.trusted.Load():
			wait = s.claim(ctx)
		}
		if ctx.Err() == nil {
			sleep(ctx, wait, s.kickWork)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-drained:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// claim leases what the node has slots for, and returns how long to wait.
func (s *Scheduler) claim(ctx context.Context) time.Duration {
	s.loaded.RLock()
	defer s.loaded.RUnlock()
	slots := s.reserve(claimAtMost)
	if slots == 0 {
		s.setBacklog(true)
		return tick
	}
	got, err := s.store.Claim(ctx, jobstore.ClaimRequest{
		Node: s.opt.Node.Name, Lease: LeaseTime, Limit: slots, Exclude: s.strays.ids(),
		Accept: func(id int64, hash string) bool { return s.own[id] == hash },
	})
	s.begin(got.Runs, slots)
	if err != nil {
		s.storeFailed(ctx, "claim", "claim runs", err)
		return outageRetry
	}
	s.setBacklog(len(got.Runs) == slots)
	s.claimed(got)
	if len(got.Runs)+len(got.Settled) > 0 {
		return 0
	}
	return untilNext(got.Now, got.Next)
}

func (s *Scheduler) claimed(got jobstore.Claimed) {
	for _, id := range got.Refused {
		s.stray(id, "")
	}
	for i := range got.Settled {
		s.opt.Observer.Ended(&got.Settled[i])
	}
	if len(got.Lost) == 0 {
		return
	}
	s.opt.Observer.Leases(0, len(got.Lost))
	for i := range got.Lost {
		lost := &got.Lost[i]
		s.log.Info("taking over a run whose lease ended", zap.String("key", lost.Key),
			zap.String("from_node", lost.Node), zap.Int("lost_attempt", lost.Attempt))
	}
}

// tend renews leases, stores output so far, and stops what must stop. It
// reports whether the leases are known to be good.
func (s *Scheduler) tend(ctx context.Context) bool {
	tasks := s.current()
	if len(tasks) == 0 {
		return true
	}
	leases := make([]jobstore.Lease, 0, len(tasks))
	for lease := range tasks {
		leases = append(leases, lease)
	}
	asked := time.Now()
	signals, err := s.store.Extend(ctx, jobstore.ExtendRequest{Node: s.opt.Node.Name, Lease: LeaseTime, Leases: leases})
	if err != nil {
		s.storeFailed(ctx, "extend", "renew leases", err)
		s.giveUp(tasks)
		return false
	}
	for _, t := range tasks {
		t.renewed = asked
	}
	for _, lease := range signals.Lost {
		if t := tasks[lease]; t != nil && !t.ending.Load() {
			s.opt.Observer.Leases(1, 0)
			s.log.Warn("lease lost: stopping the attempt, another may have begun", zap.String("key", t.run.Key), zap.Int("attempt", t.run.Attempt))
			t.stop(ErrLeaseLost)
		}
	}
	for _, lease := range signals.Cancel {
		if t := tasks[lease]; t != nil {
			t.stop(ErrCanceled)
		}
	}
	s.report(ctx, tasks)
	return true
}

// giveUp stops attempts whose lease could not be renewed in time: another node
// may have begun them. A node that is alone keeps them, for nobody can have.
func (s *Scheduler) giveUp(tasks map[jobstore.Lease]*task) {
	if s.opt.Solo || s.alone.Load() {
		return
	}
	for _, t := range tasks {
		if time.Since(t.renewed) > LeaseTime && !t.ending.Load() {
			s.opt.Observer.Leases(1, 0)
			s.log.Warn("lease could not be renewed in time: stopping the attempt", zap.String("key", t.run.Key), zap.Int("attempt", t.run.Attempt))
			t.stop(ErrLeaseLost)
		}
	}
}

// report stores the output of attempts that wrote something since last time.
func (s *Scheduler) report(ctx context.Context, tasks map[jobstore.Lease]*task) {
	var outputs []jobstore.RunOutput
	var sizes []int64
	for lease, t := range tasks {
		if size := t.out.written(); size != t.reported && !t.ending.Load() {
			outputs = append(outputs, jobstore.RunOutput{Lease: lease, Output: t.out.snapshot()})
			sizes = append(sizes, size)
		}
	}
	if len(outputs) == 0 {
		return
	}
	if err := s.store.Report(ctx, outputs); err != nil {
		s.storeFailed(ctx, "report", "store output", err)
		return
	}
	for i, o := range outputs {
		tasks[o.Lease].reported = sizes[i]
	}
}
