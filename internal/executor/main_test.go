package executor

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// TestMain lets the test binary play the daemon that is killed, and looks for
// goroutines left behind.
func TestMain(m *testing.M) {
	if script := os.Getenv("EXECUTOR_TEST_DAEMON"); script != "" {
		playDaemon(script)
		return
	}
	goleak.VerifyTestMain(m)
}

// buffer is an Output that keeps everything.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var fireTime = time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)

// newTry is the first attempt of the run that the test's name stands for.
func newTry(t *testing.T) (scheduler.Try, *buffer) {
	out := &buffer{}
	job := strings.ReplaceAll(t.Name(), "/", ".")
	return scheduler.Try{
		Key: jobstore.Key(job, "seoul", fireTime), Job: job, Target: "seoul",
		ScheduledAt: fireTime, Attempt: 1, LogicalRun: 1, Output: out,
	}, out
}

// eventually waits for a condition, and fails the test where it does not come.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func words(list ...string) []Text {
	var texts []Text
	for _, w := range list {
		texts = append(texts, Plain(w))
	}
	return texts
}

// within is a context that times out as a job's attempt does.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, scheduler.ErrTimeout)
	t.Cleanup(cancel)
	return ctx
}
