package scheduler

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	fireJobs = 500  // jobs planned in one transaction
	fireRuns = 2000 // about as many runs at most
)

// fireLoop plans what is due until ctx ends. It wakes at the next instant by
// the store's clock, and at least every tick.
func (s *Scheduler) fireLoop(ctx context.Context) {
	for ctx.Err() == nil {
		wait, _ := s.fireOnce(ctx)
		if s.opt.Pulse != nil {
			s.opt.Pulse()
		}
		sleep(ctx, wait, s.kickFire)
	}
}

// fireDue plans all that is due now. It reports whether the store's clock is
// believed.
func (s *Scheduler) fireDue(ctx context.Context) (believed bool) {
	for ctx.Err() == nil {
		wait, ok := s.fireOnce(ctx)
		if !ok || wait > 0 {
			return ok
		}
	}
	return true
}

// believe keeps the node's offset to the store's clock, and reports whether it
// may be planned by.
func (s *Scheduler) believe(now time.Time) bool {
	s.offset.Store(int64(time.Since(now)))
	ok := s.clock.believe(now)
	if was := s.trusted.Swap(ok); was && !ok {
		s.log.Warn("the store's clock jumped ahead: nothing is planned or started until two readings ten seconds apart agree",
			zap.Time("store_clock", now))
	}
	return ok
}

// fireOnce plans and records one batch and returns how long to wait for the
// next; 0 says that there may be more. believed is false while the store's
// clock is a suspect.
func (s *Scheduler) fireOnce(ctx context.Context) (wait time.Duration, believed bool) {
	s.loaded.RLock()
	defer s.loaded.RUnlock()
	due, err := s.store.Due(ctx, jobstore.DueRequest{Limit: fireJobs, Exclude: s.strays.ids()})
	if err != nil {
		s.storeFailed(ctx, "due", "look for due jobs", err)
		return outageRetry, true
	}
	s.storeWorks("due")
	if !s.believe(due.Now) {
		return tick, false
	}
	began := time.Now()
	batch := s.plan(due)
	if len(batch.firings) == 0 {
		if batch.strayed {
			return 0, true
		}
		return untilNext(due.Now, due.Next), true
	}
	slots := s.reserve(s.opt.Slots)
	// What has begun to be leased is leased: a stop in the middle would leave
	// runs that nobody works on until their lease ends.
	fired, err := s.store.Fire(context.WithoutCancel(ctx), jobstore.FireRequest{
		Node: s.opt.Node.Name, Lease: LeaseTime, Slots: slots, Firings: batch.firings,
	})
	s.begin(fired.Leased, slots)
	if err != nil {
		s.storeFailed(ctx, "fire", "record plans", err)
		return outageRetry, true
	}
	s.storeWorks("fire")
	s.fired(batch, fired, time.Since(began))
	if len(fired.Jobs) == 0 {
		return 5 * time.Millisecond, true // another node was first, or a job changed: look again
	}
	return 0, true
}

type planned struct {
	firings []jobstore.Firing
	jobs    map[int64]int // index in firings, by job id
	names   []string      // of the firings' jobs
	strayed bool
}

// plan plans the due jobs of which this node has the store's definition.
func (s *Scheduler) plan(due jobstore.Due) planned {
	out := planned{jobs: map[int64]int{}}
	runs := 0
	for _, state := range due.Jobs {
		job := s.jobs[state.Name]
		if job == nil || job.Hash != state.Hash {
			s.stray(state.ID, state.Name)
			out.strayed = true
			continue
		}
		plan := job.Plan(state, due.Now, planLimit)
		firing := job.Firing(state, plan, due.Now)
		out.jobs[state.ID] = len(out.firings)
		out.firings, out.names = append(out.firings, firing), append(out.names, job.Name)
		if runs += len(firing.Runs); runs >= fireRuns {
			break
		}
	}
	return out
}

// fired tells what was recorded.
func (s *Scheduler) fired(batch planned, fired jobstore.Fired, took time.Duration) {
	for _, id := range fired.Jobs {
		i := batch.jobs[id]
		name, firing := batch.names[i], &batch.firings[i]
		s.opt.Observer.Planned(name, firing, took/time.Duration(len(fired.Jobs)))
		for _, r := range firing.Ranges {
			if r.Outcome == jobstore.OutcomeMissed {
				s.log.Warn("missed", zap.String("job", name), zap.Int64("count", r.Count), zap.String("reason", r.Reason),
					zap.String("first", jobstore.FormatTime(r.First)), zap.String("last", jobstore.FormatTime(r.Last)))
			}
		}
	}
	for i := range fired.Coalesced {
		s.opt.Observer.Ended(&fired.Coalesced[i])
	}
	if fired.Left {
		kick(s.kickWork)
	}
}

func (s *Scheduler) stray(id int64, name string) {
	if s.strays.add(id, name) {
		s.log.Warn("this node's definition of a job differs from the store's: it leaves the job to nodes that have the newer file",
			zap.String("job", name))
	}
}

// untilNext is how long to sleep until next, at most a tick.
func untilNext(now, next time.Time) time.Duration {
	if next.IsZero() {
		return tick
	}
	return min(max(next.Sub(now), time.Millisecond), tick)
}
