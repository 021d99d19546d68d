// Package crashtest starts the real binary, kills it, starts it again, and
// checks that nothing was lost and nothing doubled.
package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Binary builds the program once per test process and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tidemark-crashtest-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tidemark")
	out, err := exec.Command("go", "build", "-o", path, "github.com/tidemarkd/tidemark/cmd/tidemark").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// Daemon is a `tidemark run` process.
type Daemon struct {
	t      testing.TB
	cmd    *exec.Cmd
	log    *buffer
	ended  chan struct{}
	err    error
	Listen string
}

// Start runs the daemon on a config, in dir. The test's end kills it.
func Start(t testing.TB, dir, config string, env ...string) *Daemon {
	t.Helper()
	cmd := exec.Command(Binary(t), "run", "-c", config, "--log-format", "json")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	d := &Daemon{t: t, cmd: cmd, log: &buffer{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = cmd.Wait()
		close(d.ended)
	}()
	t.Cleanup(func() { d.Kill() })
	return d
}

// Kill ends the process with SIGKILL and waits for it.
func (d *Daemon) Kill() {
	d.Signal(syscall.SIGKILL)
	<-d.ended
}

// Signal sends a signal; a process that has ended gets none.
func (d *Daemon) Signal(sig syscall.Signal) {
	select {
	case <-d.ended:
	default:
		_ = d.cmd.Process.Signal(sig)
	}
}

// Wait waits for the process's end and returns its exit code.
func (d *Daemon) Wait(limit time.Duration) int {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(limit):
		d.t.Fatalf("the daemon has not ended after %v; its log:\n%s", limit, d.log)
	}
	return d.cmd.ProcessState.ExitCode()
}

// AwaitLog waits until the log holds text.
func (d *Daemon) AwaitLog(text string, limit time.Duration) {
	d.t.Helper()
	Await(d.t, limit, "log line "+text+" in\n"+d.log.String(), func() bool {
		select {
		case <-d.ended:
			if !d.log.contains(text) {
				d.t.Fatalf("the daemon ended before it logged %q:\n%s", text, d.log)
			}
		default:
		}
		return d.log.contains(text)
	})
}

// Log is what the daemon has logged.
func (d *Daemon) Log() string { return d.log.String() }

// Await waits until ok, looking twenty times a second.
func Await(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("after %v still no %s", limit, what)
		case <-look.C:
		}
	}
}

// FreeAddress is a loopback address that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Write puts a file into dir and returns its path.
func Write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// buffer is a bytes.Buffer for one writer and many readers.
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

func (b *buffer) contains(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Contains(b.b.Bytes(), []byte(text))
}
