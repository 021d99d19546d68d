package scheduler

import (
	"sync"
	"time"
)

const (
	// A store clock that runs ahead of the node's monotonic clock by more than
	// this is a suspect (semantics 7).
	clockJump = time.Minute
	// Two readings at least this far apart must agree before it is believed.
	clockSettle = 10 * time.Second
)

// clockGuard judges readings of the store's clock against a monotonic one, so
// that a bad clock, soon corrected, does not burn the schedule forward. The
// zero value is ready. It is pure but for its memory, and not safe for
// concurrent use.
type clockGuard struct {
	store, mono time.Duration // last believed reading, as offsets from an epoch
	known       bool
	suspect     *clockReading
}

type clockReading struct{ store, mono time.Duration }

// believe reports whether a reading may be planned by: store is the store's
// time, mono a monotonic time, both since any fixed epoch.
func (g *clockGuard) believe(store, mono time.Duration) bool {
	if g.known && (store-g.store)-(mono-g.mono) > clockJump {
		if g.suspect == nil || abs((store-g.suspect.store)-(mono-g.suspect.mono)) > clockJump/60 {
			g.suspect = &clockReading{store, mono}
			return false
		}
		if mono-g.suspect.mono < clockSettle {
			return false
		}
	}
	g.store, g.mono, g.known, g.suspect = store, mono, true, nil
	return true
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// clock is a clockGuard that the loops and a load share.
type clock struct {
	epoch time.Time // has a monotonic reading
	mu    sync.Mutex
	guard clockGuard
}

// believe reports whether the store's time now may be planned by.
func (c *clock) believe(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guard.believe(now.Sub(time.Unix(0, 0)), time.Since(c.epoch))
}
