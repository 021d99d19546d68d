package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// A daemon is killed; what a command of its had started lives on. Its run is
// then ended without a further attempt: nothing of it may stay.
func TestWhatADeadDaemonLeftIsEndedThoughItsRunGetsNoFurtherAttempt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := func(then string) string {
		return fmt.Sprintf(`
store: sqlite:tidemark.db
listen: %s
defaults: {misfire_grace_time: 1h, coalesce: latest}
jobs:
  changed: {schedule: "0 0 1 1 *", exec: {command: "sh -c 'echo $$ >> pids; exec sleep 111'; echo %s", shell: true}}
  canceled: {schedule: "0 0 1 1 *", exec: {command: "sh -c 'echo $$ >> pids; exec sleep 112'; echo", shell: true}}
`, FreeAddress(t), then)
	}
	d := Start(t, dir, Write(t, dir, "tidemark.yaml", config("once")))
	d.AwaitLog(`"listening"`, 30*time.Second)
	shell(t, dir, "tidemark trigger changed --key k; tidemark trigger canceled --key k")
	var pids []string
	Await(t, 20*time.Second, "two commands", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pids"))
		pids = strings.Fields(string(text))
		return len(pids) == 2
	})
	d.Kill()
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			t.Fatalf("what the command started died with the daemon: %v", err)
		}
	}
	shell(t, dir, "tidemark cancel canceled//manual:k")
	d = Start(t, dir, Write(t, dir, "tidemark.yaml", config("twice")))
	d.AwaitLog(`"listening"`, 30*time.Second)
	s := open(t, "sqlite:"+filepath.Join(dir, "tidemark.db"))
	for job, state := range map[string]jobstore.State{"changed": jobstore.Failed, "canceled": jobstore.Canceled} {
		Await(t, 20*time.Second, string(state)+" run of "+job, func() bool {
			runs := runsOf(t, s, job)
			return len(runs) == 1 && runs[0].State == state
		})
	}
	for _, pid := range pids {
		Await(t, 10*time.Second, "end of process "+pid, func() bool {
			text, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(text), ") Z ")
		})
	}
}
