package executor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemarkd/tidemark/scheduler"
)

// DefaultKillGrace is how long a command has after SIGTERM where its job says
// nothing.
const DefaultKillGrace = 10 * time.Second

// exitTempFail is the exit code that asks for a retry: EX_TEMPFAIL of sysexits.h.
const exitTempFail = 75

// Common is what the kinds of work need to know of their job.
type Common struct {
	KillGrace time.Duration // between SIGTERM and SIGKILL; 0: DefaultKillGrace, negative: none
	Retryable []int         // exit codes beside 75 that are worth a retry (retry.exit_codes)
	Windowed  bool          // runs carry a window
}

// ExecConfig is a job's `exec`.
type ExecConfig struct {
	// Command is a program and its arguments, or with Shell one script for
	// /bin/sh.
	Command    []Text          `yaml:"command"`
	Shell      bool            `yaml:"shell"`
	Env        map[string]Text `yaml:"env"`
	Dir        Text            `yaml:"dir"`
	User       string          `yaml:"user"`
	Stdin      Text            `yaml:"stdin"`
	InheritEnv bool            `yaml:"inherit_env"`
}

// Exec runs a command (interfaces 2, "A command gets").
type Exec struct {
	shell, inherit bool
	user           string
	command        []phrase
	env            map[string]phrase
	dir, stdin     phrase
	mask           *mask
	grace          time.Duration
	retryable      []int
}

// Validate says what is wrong with c: FieldErrors, joined.
func (c ExecConfig) Validate(common Common) error {
	_, err := NewExec(c, common)
	return err
}

// NewExec is the executor of c. It does no I/O; its errors are FieldErrors, joined.
func NewExec(c ExecConfig, common Common) (*Exec, error) {
	var f faults
	e := &Exec{
		shell: c.Shell, inherit: c.InheritEnv, user: c.User,
		env:       make(map[string]phrase, len(c.Env)),
		grace:     common.KillGrace,
		retryable: append(slices.Clone(common.Retryable), exitTempFail),
	}
	if e.grace == 0 {
		e.grace = DefaultKillGrace
	}
	f.checkCommand(c)
	for i, t := range c.Command {
		field := fmt.Sprintf("exec.command[%d]", i)
		if c.Shell {
			field = "exec.command"
		}
		e.command = append(e.command, f.compile(field, t, common.Windowed))
	}
	texts := slices.Concat(c.Command, []Text{c.Dir, c.Stdin})
	for _, name := range sortedKeys(c.Env) {
		f.checkVariable(name)
		e.env[name] = f.compile("exec.env."+name, c.Env[name], common.Windowed)
		texts = append(texts, c.Env[name])
	}
	e.dir = f.compile("exec.dir", c.Dir, common.Windowed)
	e.stdin = f.compile("exec.stdin", c.Stdin, common.Windowed)
	e.mask = newMask(secretsOf(texts...))
	return e, f.err()
}

// Execute implements scheduler.Executor. The attempt's end is the command's
// own: what it leaves behind after a good one is left alone, after any other
// it is ended too, so that no two attempts run side by side.
func (e *Exec) Execute(ctx context.Context, try scheduler.Try) scheduler.Result {
	began := time.Now()
	if ctx.Err() != nil {
		return stopped(ctx, began, "the command was not started")
	}
	if try.Attempt > 1 {
		// Its daemon may have died and left it running.
		if _, err := Sweep(try.Installation, try.Key, try.Attempt-1); err != nil {
			return scheduler.Result{Err: err, Transient: true}
		}
	}
	cmd, err := e.prepare(try)
	if err != nil {
		return fail(e.mask.text(err.Error()))
	}
	out := e.mask.writer(try.Output)
	defer out.flush()
	a, err := e.start(cmd, out)
	if err != nil {
		return e.startFault(cmd, err)
	}
	select {
	case <-a.child.exited:
	case <-ctx.Done():
	}
	if a.child.hasExited() { // also where ctx has ended at the same moment
		return e.ended(a)
	}
	return e.stop(ctx, a, began, try.Abort)
}

// attempt is a command that runs.
type attempt struct {
	child  *child
	pipe   *outputPipe
	family *family
}

func (e *Exec) start(cmd *command, out *maskWriter) (attempt, error) {
	pipe, write, err := newOutputPipe(out)
	if err != nil {
		return attempt{}, err
	}
	defer write.Close()
	cmd.Stdout, cmd.Stderr = write, write
	if cmd.input != "" {
		stdin, err := stdinFile(cmd.input)
		if err != nil {
			pipe.read.Close()
			return attempt{}, err
		}
		defer stdin.Close()
		cmd.Stdin = stdin
	}
	child, err := start(&cmd.Cmd)
	if err != nil {
		pipe.read.Close()
		return attempt{}, err
	}
	go pipe.copy()
	family := &family{group: child.pid, mine: cmd.mine}
	if self, err := readProcess(child.pid); err == nil {
		family.since = self.start
	}
	return attempt{child: child, pipe: pipe, family: family}, nil
}

// ended is the result of a command that ended by itself.
func (e *Exec) ended(a attempt) scheduler.Result {
	trouble := ""
	if !a.child.succeeded {
		if err := a.family.end(e.grace); err != nil {
			trouble = "; of what it started " + err.Error()
		}
	}
	a.pipe.finish(a.child.succeeded)
	state := a.child.wait()
	code, text := describe(state)
	switch status := state.Sys().(syscall.WaitStatus); {
	case code == 0:
		return scheduler.Result{ExitCode: &code}
	case status.Signaled(), slices.Contains(e.retryable, code):
		return scheduler.Result{Err: &failure{text: message(text + trouble)}, Transient: true, ExitCode: &code}
	}
	return scheduler.Result{Err: &failure{text: message(text + trouble)}, ExitCode: &code}
}

// stop ends a command whose time is up: SIGTERM, and SIGKILL after the grace
// (semantics 5, "Cancel and time out").
func (e *Exec) stop(ctx context.Context, a attempt, began time.Time, abort <-chan struct{}) scheduler.Result {
	_, _ = a.family.signal(syscall.SIGTERM) // what it misses is found again below
	grace := max(e.grace, 0)
	over := time.Now().Add(grace)
	heeded := a.child.exits(grace, abort)
	if aborted(abort) {
		over = time.Now()
	}
	rest := ""
	if !a.family.gone(time.Until(over)) {
		if heeded {
			rest = "; what it had started was killed"
		}
		if err := a.family.kill(); err != nil {
			rest = "; " + err.Error()
		}
	}
	a.pipe.finish(false)
	if !a.child.hasExited() {
		a.child.abandon()
		return stopped(ctx, began, "the command cannot be ended"+rest)
	}
	code, text := describe(a.child.wait())
	if !heeded {
		waited := grace
		if aborted(abort) {
			waited = min(grace, abortGrace)
		}
		text = fmt.Sprintf("SIGTERM did not end it within %s: %s", waited, text)
	}
	res := stopped(ctx, began, text+rest)
	res.ExitCode = &code
	return res
}

// abortGrace is how long a command has from SIGTERM on once the daemon was asked
// to end at once.
const abortGrace = time.Second

// exits waits for the child's end, as long as there is time.
func (c *child) exits(grace time.Duration, abort <-chan struct{}) bool {
	began := time.Now()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		select {
		case <-c.exited:
			return true
		case <-timer.C:
			return false
		case <-abort:
			abort = nil
			timer.Reset(max(min(grace, abortGrace)-time.Since(began), 0))
		}
	}
}

func aborted(abort <-chan struct{}) bool {
	select {
	case <-abort:
		return true
	default:
		return false
	}
}

// describe gives a shell's number for how a process ended, and words.
func describe(state *os.ProcessState) (code int, text string) {
	status := state.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		return status.ExitStatus(), fmt.Sprintf("exit code %d", status.ExitStatus())
	}
	sig := status.Signal()
	text = fmt.Sprintf("ended by signal %d (%s)", int(sig), unix.SignalName(sig))
	if status.CoreDump() {
		text += ", core dumped"
	}
	return 128 + int(sig), text
}
