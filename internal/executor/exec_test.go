package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/scheduler"
)

func shell(script string) ExecConfig {
	return ExecConfig{Command: words(script), Shell: true}
}

func newExec(t *testing.T, c ExecConfig, common Common) *Exec {
	t.Helper()
	e, err := NewExec(c, common)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// run makes one attempt of a command.
func run(t *testing.T, ctx context.Context, c ExecConfig, common Common) (scheduler.Result, string) {
	t.Helper()
	try, out := newTry(t)
	res := newExec(t, c, common).Execute(ctx, try)
	return res, out.String()
}

// outcome is a result as one line.
func outcome(res scheduler.Result) string {
	code := "-"
	if res.ExitCode != nil {
		code = strconv.Itoa(*res.ExitCode)
	}
	return fmt.Sprintf("%s transient=%v %v", code, res.Transient, res.Err)
}

func TestExitCodesAndSignalsAreClassified(t *testing.T) {
	for _, tc := range []struct{ script, want string }{
		{"exit 0", "0 transient=false <nil>"},
		{"exit 7", "7 transient=false exit code 7"},
		{"exit 75", "75 transient=true exit code 75"},
		{"exit 3", "3 transient=true exit code 3"},
		{"kill -9 $$", "137 transient=true ended by signal 9 (SIGKILL)"},
		{"kill -TERM $$", "143 transient=true ended by signal 15 (SIGTERM)"},
	} {
		res, _ := run(t, t.Context(), shell(tc.script), Common{Retryable: []int{3}})
		if got := outcome(res); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.script, got, tc.want)
		}
	}
}

func TestWhatCannotBeStartedFailsAtOnceAndIsNamed(t *testing.T) {
	dir := t.TempDir()
	notExecutable := filepath.Join(dir, "plain")
	noInterpreter := filepath.Join(dir, "script")
	noFirstLine := filepath.Join(dir, "bare")
	for file, mode := range map[string]os.FileMode{notExecutable: 0o644, noInterpreter: 0o755, noFirstLine: 0o755} {
		text := "#!/no/such/interpreter\n"
		if file == noFirstLine {
			text = "echo\n"
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		c    ExecConfig
		want string
	}{
		{"no file", ExecConfig{Command: words("/no/such/bin")}, "start /no/such/bin: no such file or directory"},
		{"not in PATH", ExecConfig{Command: words("no-such-program")}, "start no-such-program: not found in PATH"},
		{"all in one", ExecConfig{Command: words("echo hello")}, "start echo hello: not found in PATH (arguments are items of their own in the list; a shell takes one string, with shell: true)"},
		{"a folder", ExecConfig{Command: words(dir)}, "start " + dir + ": permission denied"},
		{"not executable", ExecConfig{Command: words(notExecutable)}, "start " + notExecutable + ": permission denied"},
		{"interpreter", ExecConfig{Command: words(noInterpreter)}, "start " + noInterpreter + ": no such file or directory (the file is there: what its first line names as interpreter, or its loader, is not)"},
		{"no first line", ExecConfig{Command: words(noFirstLine)}, "start " + noFirstLine + ": exec format error (a script needs a first line such as #!/bin/sh)"},
		{"no folder", ExecConfig{Command: words("true"), Dir: Plain("/no/such/dir")}, "working directory /no/such/dir: no such file or directory"},
		{"folder is a file", ExecConfig{Command: words("true"), Dir: Plain(notExecutable)}, "working directory " + notExecutable + ": not a directory"},
		{"no user", ExecConfig{Command: words("true"), User: "no-such-user"}, "run as user no-such-user: there is no such user in /etc/passwd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, _ := run(t, t.Context(), tc.c, Common{})
			if got, want := outcome(res), "- transient=false "+tc.want; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

// Pitfall "Command not found": a failed start leaves a zombie.
func TestAFailedStartLeavesNothing(t *testing.T) {
	for range 100 {
		run(t, t.Context(), ExecConfig{Command: words("/no/such/bin")}, Common{})
	}
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		raw, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(raw), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			t.Errorf("a zombie is left: %s", raw)
		}
	}
}

// Pitfall "Child closes stdout and goes on".
func TestTheEndIsTheProcessesEndNotThatOfItsOutput(t *testing.T) {
	began := time.Now()
	res, _ := run(t, t.Context(), shell("exec 1>&- 2>&-; sleep 1; exit 7"), Common{})
	if got := outcome(res); got != "7 transient=false exit code 7" || time.Since(began) < time.Second {
		t.Errorf("%s after %s", got, time.Since(began))
	}
}

func TestAHeldPipeHangsNothingAndWhatIsLeftBehindIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "done")
	gate := filepath.Join(t.TempDir(), "gate")
	script := fmt.Sprintf(`(while [ ! -e %s ]; do sleep 0.02; done; echo late; echo late >&2; echo > %s) & echo begun`, gate, file)
	res, out := run(t, t.Context(), shell(script), Common{})
	if res.Err != nil || out != "begun\n" {
		t.Errorf("%s, output %q", outcome(res), out)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Its writes to the pipe that nobody captures any more do not end it.
	eventually(t, "the process left behind to finish", func() bool { _, err := os.Stat(file); return err == nil })
}

func TestWhatAFailedCommandLeavesBehindIsEnded(t *testing.T) {
	res, out := run(t, t.Context(), shell(`sleep 300 & echo $!; setsid sleep 300 & echo $!; exit 3`), Common{})
	if outcome(res) != "3 transient=false exit code 3" {
		t.Error(outcome(res))
	}
	wantGone(t, strings.Fields(out), 2)
}

// wantGone checks that none of the processes lives.
func wantGone(t *testing.T, pids []string, n int) {
	t.Helper()
	if len(pids) != n {
		t.Fatalf("want %d processes, have %q", n, pids)
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := readProcess(pid); err == nil && !p.dead {
			t.Errorf("a process lives on: %+v", p)
		}
	}
}

func TestNoOutputOfTheCommandIsLost(t *testing.T) {
	want := strings.Repeat("0123456789abcdef\n", 1<<16/17+1)[:1<<16] // what a pipe holds
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newExec(t, shell(`(sleep 0.3) & cat "$TEXT"; printf end >&2`), Common{})
	e.env["TEXT"] = phrase{plain: file}
	for range 50 {
		try, out := newTry(t)
		if res := e.Execute(t.Context(), try); res.Err != nil {
			t.Fatal(res.Err)
		}
		if got := out.String(); got != want+"end" {
			t.Fatalf("output has %d bytes, want %d", len(got), len(want)+3)
		}
	}
}

// Pitfall "Output that is not text".
func TestOutputMayBeAnyBytes(t *testing.T) {
	res, out := run(t, t.Context(), shell(`printf 'a\0b\377\n'`), Common{})
	if res.Err != nil || out != "a\x00b\xff\n" {
		t.Errorf("%s, output %q", outcome(res), out)
	}
}

func TestStandardInputIsWhatIsWrittenThere(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	res, out := run(t, t.Context(), ExecConfig{Command: words("cat"), Stdin: Plain("{{.Target}}\n" + big)}, Common{})
	if res.Err != nil || out != "seoul\n"+big {
		t.Errorf("%s, %d bytes of output", outcome(res), len(out))
	}
	res, out = run(t, t.Context(), ExecConfig{Command: words("cat")}, Common{})
	if res.Err != nil || out != "" {
		t.Errorf("without stdin: %s, output %q", outcome(res), out)
	}
	// A command that does not read it is not waited for.
	if res, _ = run(t, t.Context(), ExecConfig{Command: words("true"), Stdin: Plain(big)}, Common{}); res.Err != nil {
		t.Error(res.Err)
	}
}

func TestTheEnvironmentIsTheRunsAndLittleOfTheDaemons(t *testing.T) {
	t.Setenv("DAEMON_SECRET", "s3cr3t-canary")
	t.Setenv("HOME", "/home/daemon")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TIDEMARK_WINDOW_FROM", "of another run")
	c := ExecConfig{
		Command: words("env", "-0"),
		Env:     map[string]Text{"REPORT_TARGET": Plain("{{.Target}}"), "LANG": Plain("de_DE.UTF-8"), "PLAIN": Plain("a\nb")},
	}
	environment := func(try scheduler.Try) map[string]string {
		t.Helper()
		out := &buffer{}
		try.Output = out
		if res := newExec(t, c, Common{Windowed: true}).Execute(t.Context(), try); res.Err != nil {
			t.Fatal(res.Err)
		}
		got := map[string]string{}
		for entry := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
			name, value, _ := strings.Cut(entry, "=")
			got[name] = value
		}
		return got
	}
	try := scheduler.Try{
		Key: "nightly/seoul/2026-11-29T03:00:00Z", Job: "nightly", Target: "seoul", ScheduledAt: fireTime,
		Attempt: 2, LogicalRun: 3, Coalesced: 9,
		WindowFrom: fireTime.Add(-24 * time.Hour), WindowTo: fireTime.Add(500 * time.Millisecond),
	}
	want := map[string]string{
		"HOME": "/home/daemon", "PATH": os.Getenv("PATH"), "LANG": "de_DE.UTF-8",
		"REPORT_TARGET": "seoul", "PLAIN": "a\nb",
		"TIDEMARK_KEY": try.Key, "TIDEMARK_JOB": "nightly", "TIDEMARK_TARGET": "seoul",
		"TIDEMARK_SCHEDULED_AT": "2026-11-29T03:00:00Z", "TIDEMARK_ATTEMPT": "2", "TIDEMARK_LOGICAL_RUN": "3",
		"TIDEMARK_COALESCED": "9", "TIDEMARK_WINDOW_FROM": "2026-11-28T03:00:00Z", "TIDEMARK_WINDOW_TO": "2026-11-29T03:00:00.5Z",
	}
	for _, name := range []string{"USER", "LOGNAME", "SHELL", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			want[name] = value
		}
	}
	got := environment(try)
	if got[envProcess] == "" {
		t.Error("the mark of the attempt's processes is missing")
	}
	delete(got, envProcess)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}

	try.WindowFrom, try.WindowTo = time.Time{}, time.Time{}
	got = environment(try)
	if _, ok := got["TIDEMARK_WINDOW_FROM"]; ok {
		t.Error("a run without a window is told of one")
	}
	c.InheritEnv = true
	if got = environment(try); got["DAEMON_SECRET"] != "s3cr3t-canary" || got["LANG"] != "de_DE.UTF-8" || got["TIDEMARK_WINDOW_FROM"] != "" {
		t.Errorf("inherit_env: %v", got)
	}
}

func TestACommandRunsAsItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		res, _ := run(t, t.Context(), ExecConfig{Command: words("true"), User: "root"}, Common{})
		if res.Err == nil || res.Transient || !strings.Contains(res.Err.Error(), "may not become another user") {
			t.Errorf("without privileges: %s", outcome(res))
		}
		return
	}
	want, err := lookupAccount("nobody")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nobody", strconv.Itoa(int(want.uid))} {
		c := shell(`id -u; id -g; id -G; echo "$HOME $USER $LOGNAME $SHELL"; grep ^NoNewPrivs /proc/self/status >/dev/null; cat /dev/stdin`)
		c.User, c.Stdin, c.Dir = name, Plain("in"), Plain("/")
		res, out := run(t, t.Context(), c, Common{})
		lines := strings.Split(out, "\n")
		if res.Err != nil || len(lines) != 5 {
			t.Fatalf("%s, output %q", outcome(res), out)
		}
		if lines[0] != strconv.Itoa(int(want.uid)) || lines[1] != strconv.Itoa(int(want.gid)) || strings.Contains(" "+lines[2]+" ", " 0 ") {
			t.Errorf("ids %q", lines[:3])
		}
		if lines[3] != fmt.Sprintf("%s nobody nobody %s", want.home, want.shell) || lines[4] != "in" {
			t.Errorf("environment %q", lines[3:])
		}
	}
}

func TestTheCommandsOwnPathFindsItsProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("#!/bin/sh\necho found"), 0o755); err != nil {
		t.Fatal(err)
	}
	res, out := run(t, t.Context(), ExecConfig{Command: words("mine"), Env: map[string]Text{"PATH": Plain("relative:" + dir)}}, Common{})
	if res.Err != nil || out != "found\n" {
		t.Errorf("%s, output %q", outcome(res), out)
	}
	res, out = run(t, t.Context(), ExecConfig{Command: words("./mine"), Dir: Plain(dir)}, Common{})
	if res.Err != nil || out != "found\n" {
		t.Errorf("relative to dir: %s, output %q", outcome(res), out)
	}
}

func TestAShellScriptTakesNoTargetThatIsACommand(t *testing.T) {
	e := newExec(t, shell(`echo {{.Target}} {{.Attempt}}`), Common{})
	for target, ok := range map[string]bool{
		"seoul": true, "a/b:c,d@e%41+1=_.-": true, "größe": true, "": true,
		"x; touch /tmp/x": false, "$(id)": false, "a b": false, "a'b": false, "a\"b": false, "a\nb": false, "`id`": false, "~": false, "*": false, "a&b": false,
	} {
		try, out := newTry(t)
		try.Target = target
		res := e.Execute(t.Context(), try)
		if ok && (res.Err != nil || out.String() != strings.TrimSpace(target+" 1")+"\n") {
			t.Errorf("%q: %s, output %q", target, outcome(res), out)
		}
		if !ok && (res.Err == nil || res.Transient || out.String() != "" || !strings.Contains(res.Err.Error(), `write "$TIDEMARK_TARGET" in the script`)) {
			t.Errorf("%q: %s, output %q", target, outcome(res), out)
		}
	}
	// The environment takes every value.
	try, out := newTry(t)
	try.Target = "x; touch $(id)"
	if newExec(t, shell(`printf %s "$TIDEMARK_TARGET"`), Common{}).Execute(t.Context(), try); out.String() != try.Target {
		t.Errorf("output %q", out)
	}
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(scheduler.ErrLeaseLost)
	res, out := run(t, ctx, shell("echo ran"), Common{})
	if !errors.Is(res.Err, scheduler.ErrLeaseLost) || out != "" {
		t.Errorf("%s, output %q", outcome(res), out)
	}
}

func TestManyCommandsAtOnce(t *testing.T) {
	e := newExec(t, ExecConfig{Command: words("sh", "-c", "echo $TIDEMARK_TARGET; exit $TIDEMARK_ATTEMPT")}, Common{})
	results := make(chan string)
	for i := range 40 {
		go func() {
			var out bytes.Buffer
			res := e.Execute(context.Background(), scheduler.Try{Key: fmt.Sprint("k", i), Target: fmt.Sprint("t", i), Attempt: i, Output: &out})
			results <- fmt.Sprintf("%d %s", *res.ExitCode, strings.TrimSpace(out.String()))
		}()
	}
	got := map[string]bool{}
	for range 40 {
		got[<-results] = true
	}
	for i := range 40 {
		if !got[fmt.Sprintf("%d t%d", i, i)] {
			t.Errorf("run %d is missing: %v", i, got)
		}
	}
}
