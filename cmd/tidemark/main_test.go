package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemarkd/tidemark/internal/pgtest"
)

var update = flag.Bool("update", false, "write what the program prints into the golden files")

// TestMain makes this test binary the program itself where a script calls it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidemark": main})
}

// TestScripts runs the program, with real daemons on real SQLite files.
func TestScripts(t *testing.T) {
	testscript.Run(t, params("testdata/script", nil))
}

// TestPostgres runs it with databases of a real PostgreSQL. $STORE is one for
// each script, without a schema.
func TestPostgres(t *testing.T) {
	testscript.Run(t, params("testdata/postgres", func(env *testscript.Env) error {
		env.Setenv("STORE", pgtest.NewDatabase(t))
		return nil
	}))
}

func params(dir string, setup func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir: dir, UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			port, err := freePort()
			if err != nil {
				return err
			}
			env.Setenv("PORT", port)
			env.Setenv("USER", "tester")
			if setup != nil {
				return setup(env)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code, "until": until, "signal": sendSignal, "freeport": setFreePort,
		},
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// setFreePort is `freeport NAME`: a port that nothing listens on.
func setFreePort(ts *testscript.TestScript, _ bool, args []string) {
	port, err := freePort()
	ts.Check(err)
	ts.Setenv(args[0], port)
}

// code is `code N COMMAND…`: it must exit with N.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code is %d, want %d", got, want)
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	ts.Fatalf("%v", err)
	return -1
}

// untilWait is how long something may take that a script waits for.
const untilWait = time.Minute

// until is `until PATTERN COMMAND…`: it is called again until it succeeds and
// its standard output matches; with `!`, until it does not match.
func until(ts *testscript.TestScript, neg bool, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(untilWait); time.Now().Before(end); <-poll.C {
		if err := ts.Exec(args[1], args[2:]...); err == nil && pattern.MatchString(ts.ReadFile("stdout")) != neg {
			return
		}
	}
	ts.Fatalf("waited %s for %v to match %q", untilWait, args[1:], args[0])
}

// sendSignal is `signal NAME N`: to the N-th process in the background, from 0.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(ts.BackgroundCmds()[n].Process.Signal(signals[args[0]]))
}

// golden compares text with a file, or writes it there.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./cmd/tidemark -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date (go test ./cmd/tidemark -update):\n%s", path, firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-80)
	cut := func(s string) string { return s[min(from, len(s)):min(i+80, len(s))] }
	return fmt.Sprintf("want …%q…\ngot  …%q…", cut(want), cut(got))
}
