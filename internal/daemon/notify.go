package daemon

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// notifier tells systemd how the daemon is, where it was started by systemd.
type notifier struct {
	log  *zap.Logger
	beat atomic.Int64 // when the dispatch loop last turned, nanoseconds
}

func newNotifier(log *zap.Logger) *notifier {
	n := &notifier{log: log}
	n.pulse()
	return n
}

// pulse is called by the dispatch loop at each turn.
func (n *notifier) pulse() { n.beat.Store(time.Now().UnixNano()) }

// run says READY, feeds the watchdog while the dispatch loop turns, and says
// STOPPING when stopping is closed; it ends with ctx. A loop that is stuck is
// not covered up: systemd then restarts the daemon.
func (n *notifier) run(ctx context.Context, stopping <-chan struct{}) {
	n.say(sd.SdNotifyReady)
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		n.log.Warn("systemd's watchdog setting cannot be read", zap.Error(err))
	}
	var tick <-chan time.Time
	if interval > 0 {
		ticker := time.NewTicker(interval / 3)
		defer ticker.Stop()
		tick = ticker.C
	}
	drains := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping, drains = nil, true
			n.say(sd.SdNotifyStopping)
		case <-tick:
			if drains || time.Since(time.Unix(0, n.beat.Load())) < interval {
				n.say(sd.SdNotifyWatchdog)
			}
		}
	}
}

// reloading and reloaded frame a reload, as Type=notify-reload wants it.
func (n *notifier) reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	n.say(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", sd.SdNotifyReloading, now.Nano()/1000))
}

func (n *notifier) reloaded(status string) { n.say(sd.SdNotifyReady + "\nSTATUS=" + status) }

func (n *notifier) say(state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		n.log.Debug("systemd could not be told", zap.String("state", state), zap.Error(err))
	}
}
