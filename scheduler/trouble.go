package scheduler

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// sayAgain is how often a failure that goes on is logged.
const sayAgain = time.Minute

// trouble is an operation on the store that fails.
type trouble struct {
	since, said time.Time
	times       int
}

// storeFailed counts a failed operation on the store, and logs the first one
// and then one a minute: an outage of a night is no flood.
func (s *Scheduler) storeFailed(ctx context.Context, op, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.shaken.Store(true)
	s.opt.Observer.StoreFailed(op)
	now := time.Now()
	s.mu.Lock()
	t := s.troubled[op]
	if t.times == 0 {
		t.since = now
	}
	t.times++
	say := now.Sub(t.said) >= sayAgain
	if say {
		t.said = now
	}
	s.troubled[op] = t
	s.mu.Unlock()
	if say {
		s.log.Error("could not "+what+"; trying again", zap.Error(err), zap.Duration("in", outageRetry),
			zap.Int("times", t.times), zap.Duration("for", now.Sub(t.since).Round(time.Second)))
	}
}

// storeWorks ends the trouble of an operation.
func (s *Scheduler) storeWorks(op string) {
	s.mu.Lock()
	t := s.troubled[op]
	delete(s.troubled, op)
	s.mu.Unlock()
	if t.times > 0 {
		s.log.Info("the store works again", zap.String("op", op), zap.Int("failures", t.times),
			zap.Duration("after", time.Since(t.since).Round(time.Second)))
	}
}
