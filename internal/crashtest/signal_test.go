package crashtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// SIGTERM meets the instant of a job, again and again: each second is run once,
// whichever daemon it falls to.
func TestTerminatedAtTheInstantOfAJobNothingIsLost(t *testing.T) {
	p := newPlace(t)
	p.write(`every: {schedule: "@every 1s", coalesce: all, catchup: {max: unlimited}, exec: {dir: ., shell: true, command: "echo $TIDEMARK_KEY $TIDEMARK_ATTEMPT >> every"}}`)
	for range 25 {
		d := p.start()
		instant := time.Now().Truncate(time.Second).Add(time.Second)
		<-time.After(time.Until(instant) + time.Duration(rand.IntN(100)-40)*time.Millisecond)
		p.stop(d)
	}
	last := time.Now()
	d := p.start()
	s := open(t, p.store)
	awaitRun(t, s, "every", "fired after the last stop", succeededAfter(last))
	p.stop(d)
	checkLedger(t, s)
	checkEverySecond(t, s, p.dir)
	for _, r := range runsOf(t, s, "every") {
		if r.State != jobstore.Succeeded || r.Attempt != 1 {
			t.Errorf("%s is %s after %d attempts: a drain lets it end", r.Key, r.State, r.Attempt)
		}
	}
}

func TestADrainLetsCommandsEndAndStartsNothing(t *testing.T) {
	p := newPlace(t)
	p.write(steady, `long: {schedule: "@every 1h", exec: {dir: ., shell: true, command: "touch began; sleep 3; echo end"}}`)
	d := p.start()
	s := open(t, p.store)
	run, _, err := s.Trigger(t.Context(), jobstore.TriggerRequest{Job: "long", Key: jobstore.ManualKey("long", "", "k")})
	if err != nil {
		t.Fatal(err)
	}
	awaitFile(t, p.dir, "began")
	awaitRun(t, s, "steady", "succeeded", succeededAfter(time.Time{}))
	d.Signal(syscall.SIGTERM)
	d.AwaitLog("shutting down: letting running work end", 5*time.Second)
	draining := time.Now()
	if code, _ := get(t, "http://"+p.listen+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d during the drain", code)
	}
	if code, body := post(t, p.listen); code < 500 || !strings.Contains(body, "shutting down") {
		t.Errorf("a reload during the drain: %d %s", code, body)
	}
	if code := d.Wait(5 * time.Second); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.Log())
	}
	if took := time.Since(draining); took < time.Second {
		t.Fatalf("it took only %v: too little to tell", took)
	}
	ended, attempts, err := s.Run(t.Context(), run.Key)
	if err != nil || ended.State != jobstore.Succeeded || ended.Attempt != 1 || len(attempts) != 0 {
		t.Errorf("what ran is %s after %d attempts, %v", ended.State, ended.Attempt, err)
	}
	for _, job := range []string{"steady", "long"} {
		for _, r := range runsOf(t, s, job) {
			if r.StartedAt.After(draining) || r.State == jobstore.Running {
				t.Errorf("%s began at %v, the drain at %v; it is %s", r.Key, r.StartedAt, draining, r.State)
			}
		}
	}
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("it has not signed off: %+v, %v", nodes, err)
	}
}

func awaitFile(t *testing.T, dir, name string) {
	t.Helper()
	Await(t, 15*time.Second, "file "+name, func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil })
}

// What does not end in time is handed back: the next daemon does it under the
// same key, for the same window.
func TestWhatDoesNotEndInTimeIsHandedBack(t *testing.T) {
	for name, c := range map[string]struct {
		grace  string
		second bool   // a second SIGTERM
		onTerm string // what the command does then
		limit  time.Duration
	}{
		"by a second signal": {"60s", true, "echo term >> terms; exit 1", 4 * time.Second},
		"by a second signal, from a command that ignores it":     {"60s", true, "echo term >> terms", 6 * time.Second},
		"when the grace is over":                                 {"1s", false, "echo term >> terms; exit 0", 5 * time.Second},
		"when the grace is over, from a command that ignores it": {"1s", false, "echo term >> terms", 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			Write(t, p.dir, "tidemark.yaml", fmt.Sprintf(`
store: %q
listen: %s
node: one
shutdown_grace: %s
defaults: {misfire_grace_time: 1h, coalesce: latest}
jobs:
  long:
    schedule: "@at %s"
    window: true
    kill_grace: 2s
    exec:
      dir: .
      shell: true
      command: |
        echo "$TIDEMARK_ATTEMPT $TIDEMARK_KEY $TIDEMARK_WINDOW_FROM $TIDEMARK_WINDOW_TO" >> tries
        [ $TIDEMARK_ATTEMPT = 1 ] || exit 0
        trap '%s' TERM
        touch began
        while :; do sleep 0.05; done
`, p.store, p.listen, c.grace, time.Now().UTC().Format(time.RFC3339), c.onTerm))
			d := p.start()
			awaitFile(t, p.dir, "began")
			s := open(t, p.store)
			before := runsOf(t, s, "long")[0]
			d.Signal(syscall.SIGTERM)
			signalled := time.Now()
			d.AwaitLog("shutting down", 5*time.Second)
			if c.second {
				if _, err := os.Stat(filepath.Join(p.dir, "terms")); err == nil {
					t.Error("the first signal reached the command")
				}
				d.Signal(syscall.SIGTERM)
			}
			if code := d.Wait(20 * time.Second); code != 0 {
				t.Errorf("exit code %d:\n%s", code, d.Log())
			}
			if took := time.Since(signalled); took > c.limit {
				t.Errorf("it took %v", took)
			}
			run, _, err := s.Run(t.Context(), before.Key)
			if err != nil || run.State != jobstore.Retrying || run.Reason != jobstore.ReasonHandedBack || run.Failures != 0 {
				t.Errorf("handed back it is %s (%s) with %d failures, %v", run.State, run.Reason, run.Failures, err)
			}
			if terms, err := os.ReadFile(filepath.Join(p.dir, "terms")); err != nil || string(terms) != "term\n" {
				t.Errorf("the command got SIGTERM %q times, %v", terms, err)
			}

			d = p.start()
			run = awaitRun(t, s, "long", "ended", func(r jobstore.Run) bool { return !r.State.Open() })
			p.stop(d)
			_, attempts, err := s.Run(t.Context(), run.Key)
			if err != nil || len(attempts) != 1 || attempts[0].Outcome != jobstore.AttemptHandedBack {
				t.Errorf("its attempts: %+v, %v", attempts, err)
			}
			if run.Key != before.Key || run.State != jobstore.Succeeded || run.Attempt != 2 || !run.WindowFrom.Equal(before.WindowFrom) || !run.WindowTo.Equal(before.WindowTo) {
				t.Errorf("it was\n%+v and is\n%+v", before, run)
			}
			tries, err := os.ReadFile(filepath.Join(p.dir, "tries"))
			first, second, _ := strings.Cut(string(tries), "\n")
			if err != nil || !strings.HasPrefix(first, "1 "+run.Key+" 2") || "2"+first[1:]+"\n" != second {
				t.Errorf("the command was told\n%s, %v", tries, err)
			}
			checkLedger(t, s)
		})
	}
}

func TestSignalsWhileTheStoreIsWaitedFor(t *testing.T) {
	p := newPlace(t)
	p.store = "postgres://tidemark@" + FreeAddress(t) + "/tidemark"
	p.write(steady)
	d := Start(t, p.dir, p.config)
	d.AwaitLog("waiting for the store", 10*time.Second)
	d.Signal(syscall.SIGHUP)
	select {
	case <-d.ended:
		t.Fatalf("SIGHUP ended the daemon: %v\n%s", d.err, d.Log())
	case <-time.After(700 * time.Millisecond):
	}
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(5 * time.Second); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.Log())
	}
}
