package executor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/scheduler"
)

// pids waits for the process numbers that a script has written to file.
func pids(t *testing.T, file string, n int) []string {
	t.Helper()
	var list []string
	eventually(t, "the processes to begin", func() bool {
		raw, _ := os.ReadFile(file)
		list = strings.Fields(string(raw))
		return len(list) == n && strings.HasSuffix(string(raw), "\n")
	})
	return list
}

// Pitfall "Child ignores SIGTERM".
func TestATimeOutEndsWithSIGKILLAfterTheGrace(t *testing.T) {
	began := time.Now()
	res, _ := run(t, within(t, 300*time.Millisecond), shell(`trap "" TERM; sleep 60`), Common{KillGrace: 400 * time.Millisecond})
	took := time.Since(began)
	want := "137 transient=true timed out after 700ms: SIGTERM did not end it within 400ms: ended by signal 9 (SIGKILL)"
	if got := outcome(res); !strings.HasPrefix(got, "137 transient=true timed out after ") || !strings.HasSuffix(got, ": SIGTERM did not end it within 400ms: ended by signal 9 (SIGKILL)") {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if took < 700*time.Millisecond || took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if res.Outcome(scheduler.ErrTimeout) != "timed_out" || !errors.Is(res.Err, scheduler.ErrTimeout) {
		t.Error(res.Outcome(scheduler.ErrTimeout), res.Err)
	}
}

func TestACommandMayEndInOrderWhenItsTimeIsUp(t *testing.T) {
	res, out := run(t, within(t, 300*time.Millisecond), shell(`trap 'echo bye; exit 4' TERM; while :; do sleep 0.02; done`), Common{})
	if got := outcome(res); !strings.HasPrefix(got, "4 transient=true timed out after ") || !strings.HasSuffix(got, ": exit code 4") || !strings.HasSuffix(out, "bye\n") {
		t.Errorf("%s, output %q", got, out)
	}
	// A good exit code after SIGTERM is no success: the work was cut short.
	res, _ = run(t, within(t, 300*time.Millisecond), shell(`trap 'exit 0' TERM; while :; do sleep 0.02; done`), Common{})
	if res.Err == nil {
		t.Error("counts as success")
	}
}

func TestNoGrandchildSurvivesATimeOut(t *testing.T) {
	for name, script := range map[string]string{
		"in the group":              `sleep 300 & echo $! >> $PIDS; wait`,
		"ignores SIGTERM":           `sh -c 'trap "" TERM; echo $$ >> $PIDS; while :; do sleep 1; done' & wait`,
		"session of its own":        `setsid sh -c 'echo $$ >> $PIDS; sleep 300' & wait`,
		"orphan in its own session": `(setsid sh -c 'echo $$ >> $PIDS; sleep 300' &); sleep 300`,
		"orphan with a closed pipe": `(setsid sh -c 'exec >/dev/null 2>&1 </dev/null; trap "" TERM HUP; echo $$ >> $PIDS; sleep 300; sleep 300' &); sleep 300`,
		"empty environment, parent": `env -i PIDS=$PIDS PATH=$PATH setsid sh -c 'echo $$ >> $PIDS; sleep 300; :' & wait`,
		"stopped":                   `setsid sh -c 'echo $$ >> $PIDS; kill -STOP $$; sleep 300' & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pids")
			c := shell(script)
			c.Env = map[string]Text{"PIDS": Plain(file)}
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			done := make(chan scheduler.Result)
			e := newExec(t, c, Common{KillGrace: 300 * time.Millisecond})
			try, _ := newTry(t)
			go func() { done <- e.Execute(ctx, try) }()
			list := pids(t, file, 1)
			cancel(scheduler.ErrCanceled)
			res := <-done
			wantGone(t, list, 1)
			if !errors.Is(res.Err, scheduler.ErrCanceled) || !strings.HasPrefix(res.Err.Error(), "canceled by request: ") {
				t.Error(res.Err)
			}
		})
	}
}

func TestOneRunsEndLeavesOtherRunsAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	c := shell(`echo $$ >> $PIDS; sleep 300`)
	c.Env = map[string]Text{"PIDS": Plain(file)}
	e := newExec(t, c, Common{})
	try, _ := newTry(t) // the same key for both, as two installations on one host may have
	ctxs := make([]context.CancelCauseFunc, 2)
	done := make([]chan scheduler.Result, 2)
	for i := range 2 {
		ctx, cancel := context.WithCancelCause(context.Background())
		ctxs[i], done[i] = cancel, make(chan scheduler.Result, 1)
		go func() { done[i] <- e.Execute(ctx, try) }()
		pids(t, file, i+1)
	}
	list := pids(t, file, 2)
	ctxs[0](scheduler.ErrCanceled)
	<-done[0]
	wantGone(t, list[:1], 1)
	select {
	case res := <-done[1]:
		t.Errorf("the other run ended too: %s", outcome(res))
	default:
	}
	ctxs[1](scheduler.ErrShutdown)
	if res := <-done[1]; !errors.Is(res.Err, scheduler.ErrShutdown) {
		t.Error(outcome(res))
	}
}

// playDaemon runs a command as a daemon would, until it is killed.
func playDaemon(script string) {
	c := ExecConfig{Command: words(script), Shell: true, InheritEnv: true, User: os.Getenv("EXECUTOR_TEST_USER")}
	e, err := NewExec(c, Common{})
	if err != nil {
		panic(err)
	}
	e.Execute(context.Background(), scheduler.Try{Key: os.Getenv("EXECUTOR_TEST_KEY"), Attempt: 2, Output: os.Stderr})
}

// startDaemon starts the test binary as a daemon whose one command writes pids.
func startDaemon(t *testing.T, key, script string) (*exec.Cmd, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pids") //nolint:usetesting // every user can reach it
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "pids")
	daemon := exec.Command("/proc/self/exe")
	daemon.Env = append(os.Environ(), "EXECUTOR_TEST_DAEMON="+script, "EXECUTOR_TEST_KEY="+key, "PIDS="+file)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	return daemon, file
}

func TestACommandDiesWithItsDaemon(t *testing.T) {
	t.Run("its own user", diesWithDaemon)
	if os.Geteuid() == 0 {
		t.Setenv("EXECUTOR_TEST_USER", "nobody")
		t.Run("another user", diesWithDaemon)
	}
}

func diesWithDaemon(t *testing.T) {
	daemon, file := startDaemon(t, "dies/with/daemon", `echo $$ >> $PIDS; exec sleep 300`)
	list := pids(t, file, 1)
	pid := list[0]
	if !alive(t, pid) {
		t.Fatal("died before its daemon")
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	daemon.Wait()
	eventually(t, "the command to die", func() bool { return !alive(t, pid) })
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestSweepEndsWhatADeadDaemonLeft(t *testing.T) {
	const key = "sweep/ends/what-is-left"
	daemon, file := startDaemon(t, key, `sleep 300 & echo $! >> $PIDS; (setsid sh -c 'trap "" TERM; echo $$ >> $PIDS; sleep 300; :' &); wait`)
	other, otherFile := startDaemon(t, key+"-other", `echo $$ >> $PIDS; exec sleep 300`)
	list, kept := pids(t, file, 2), pids(t, otherFile, 1)
	daemon.Process.Kill()
	daemon.Wait()

	if n, err := Sweep("", key, 1); n != 0 || err != nil {
		t.Errorf("an earlier attempt's sweep ended %d, %v", n, err)
	}
	for _, pid := range list {
		if !alive(t, pid) {
			t.Fatalf("%s is dead before the sweep", pid)
		}
	}
	n, err := Sweep("", key, 3) // attempt 2 and earlier ones are older than 3
	if err != nil || n < 2 {
		t.Errorf("ended %d, %v", n, err)
	}
	wantGone(t, list, 2)
	if n, err := Sweep("", key, 3); n != 0 || err != nil {
		t.Errorf("swept again: %d, %v", n, err)
	}
	if !alive(t, kept[0]) {
		t.Error("another run's process was ended")
	}
	other.Process.Signal(syscall.SIGKILL)
	other.Wait()
}

func TestASignalReachesOnlyTheProcessThatWasMeant(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := readProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	former := p
	former.start--
	former.signal(syscall.SIGKILL) // the number is another process's by now
	if _, err := readProcess(p.pid); err != nil {
		t.Error("a process was ended for having another's former number")
	}
	p.signal(syscall.SIGTERM)
	if err := cmd.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Error(err)
	}
}
