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
			// After an outage the node renews before it claims: its own runs look
			// like abandoned ones, to others at least.
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
	if !s.loaded.TryRLock() {
		return 50 * time.Millisecond // a file is being loaded: leases come first
	}
	defer s.loaded.RUnlock()
	slots := s.reserve(claimAtMost)
	if slots == 0 {
		s.setBacklog(true)
		return tick
	}
	// What has begun to be leased is leased: a stop in the middle would leave
	// runs that nobody works on until their lease ends.
	got, err := s.store.Claim(context.WithoutCancel(ctx), jobstore.ClaimRequest{
		Node: s.opt.Node.Name, Lease: LeaseTime, Limit: slots, Exclude: s.strays.ids(), Held: s.held(),
		Accept: func(id int64, hash string) bool { return s.own[id] == hash },
	})
	if err == nil {
		s.claimed(got) // first what is to be swept away, then what may follow it
	}
	s.begin(got.Runs, slots)
	if err != nil {
		s.storeFailed(ctx, "claim", "claim runs", err)
		return outageRetry
	}
	s.storeWorks("claim")
	s.setBacklog(len(got.Runs) == slots)
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
		s.sweep(&got.Settled[i])
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

// sweep ends what a run has left behind that ended by a claim: no further
// attempt of it will.
func (s *Scheduler) sweep(run *jobstore.Run) {
	if s.opt.Sweep == nil || run.Attempt == 0 {
		return
	}
	if err := s.opt.Sweep(run.Key, run.Attempt); err != nil {
		s.log.Error("could not end what a dead attempt left running", zap.String("key", run.Key), zap.Error(err))
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
	signals, err := s.store.Extend(ctx, jobstore.ExtendRequest{Node: s.opt.Node.Name, Lease: LeaseTime, Leases: leases})
	if err != nil {
		// What runs goes on, for its effect is already out there. When the store
		// is back the lease is renewed, unless another node has taken over.
		s.storeFailed(ctx, "extend", "renew leases", err)
		return false
	}
	s.storeWorks("extend")
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
	s.storeWorks("report")
	for i, o := range outputs {
		tasks[o.Lease].reported = sizes[i]
	}
}
