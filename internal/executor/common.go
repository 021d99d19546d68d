package executor

import "time"

// DefaultKillGrace is how long a command has after SIGTERM where its job says
// nothing.
const DefaultKillGrace = 10 * time.Second

// Common is what the kinds of work need to know of their job.
type Common struct {
	KillGrace time.Duration // between SIGTERM and SIGKILL; 0: DefaultKillGrace, negative: none
	Retryable []int         // exit codes beside 75 that are worth a retry (retry.exit_codes)
	Windowed  bool          // runs carry a window
}
