package executor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// The variables that tell a command of its run (interfaces 2).
const (
	envPrefix      = "TIDEMARK_"
	envKey         = "TIDEMARK_KEY"
	envJob         = "TIDEMARK_JOB"
	envTarget      = "TIDEMARK_TARGET"
	envScheduledAt = "TIDEMARK_SCHEDULED_AT"
	envAttempt     = "TIDEMARK_ATTEMPT"
	envLogicalRun  = "TIDEMARK_LOGICAL_RUN"
	envCoalesced   = "TIDEMARK_COALESCED"
	envWindowFrom  = "TIDEMARK_WINDOW_FROM"
	envWindowTo    = "TIDEMARK_WINDOW_TO"
	// envProcess is the installation and a part that is random per attempt: by it
	// alone the attempt's processes are told from all others on this host.
	envProcess = "TIDEMARK_PROCESS"
)

const (
	shellPath   = "/bin/sh"
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// command is a command ready to start.
type command struct {
	exec.Cmd
	name  string // program and folder as messages may show them
	dir   string
	user  string
	input string
	mark  string // value of envProcess
}

// mine reports whether a process has the attempt's environment.
func (c *command) mine(environ []byte) bool {
	value, ok := variable(environ, envProcess)
	return ok && value == c.mark
}

func (f *faults) checkCommand(c ExecConfig) {
	switch {
	case len(c.Command) == 0 || c.Command[0].Written == "":
		f.add("exec.command", "names no program", `write a list such as ["/usr/local/bin/report", "--all"], or a string with shell: true`)
	case c.Shell && len(c.Command) > 1:
		f.add("exec.command", "is a list, but a shell takes one script", "write one string, or drop shell: true")
	}
}

func (f *faults) checkVariable(name string) {
	switch field := "exec.env." + name; {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		f.add(field, fmt.Sprintf("%q cannot be the name of a variable", name), "")
	case strings.HasPrefix(name, envPrefix):
		f.add(field, "names with "+envPrefix+" in front are Tidemark's own", "take another name")
	}
}

// prepare fills the command in for one attempt. Its errors are for people, and
// no retry helps against them.
func (e *Exec) prepare(try scheduler.Try) (*command, error) {
	argv, name, err := e.argv(try)
	if err != nil {
		return nil, err
	}
	cmd := &command{name: name, user: e.user, mark: try.Installation + "." + rand.Text()}
	if cmd.input, _, err = e.stdin.render(try); err != nil {
		return nil, fmt.Errorf("exec.stdin: %w", err)
	}
	if cmd.Dir, cmd.dir, err = e.dir.render(try); err != nil {
		return nil, fmt.Errorf("exec.dir: %w", err)
	}
	if err := checkDir(cmd.Dir); err != nil {
		return nil, fmt.Errorf("working directory %s: %w", cmd.dir, err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var who account
	if e.user != "" {
		if who, err = lookupAccount(e.user); err != nil {
			return nil, err
		}
		cmd.SysProcAttr.Credential = who.credential()
	}
	if cmd.Env, err = e.environment(try, who, cmd.mark); err != nil {
		return nil, err
	}
	cmd.Args = argv
	if cmd.Path, err = lookPath(argv[0], cmd.Env); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return cmd, nil
}

// argv is the command line, and how a message may name its program.
func (e *Exec) argv(try scheduler.Try) (argv []string, name string, err error) {
	for i, p := range e.command {
		if e.shell {
			if err := p.shellSafe(try); err != nil {
				return nil, "", err
			}
		}
		value, shown, err := p.render(try)
		if err != nil {
			return nil, "", fmt.Errorf("exec.command[%d]: %w", i, err)
		}
		if i == 0 {
			name = shown
		}
		argv = append(argv, value)
	}
	if e.shell {
		return []string{shellPath, "-c", argv[0]}, shellPath, nil
	}
	return argv, name, nil
}

// shellSafe refuses a value that a shell would take for more than a word. A
// target may come from a query, a key from whoever triggers a run: neither may
// become a command.
func (p phrase) shellSafe(try scheduler.Try) error {
	for _, v := range []struct{ field, value, env string }{
		{"Key", try.Key, envKey}, {"Job", try.Job, envJob}, {"Target", try.Target, envTarget},
	} {
		if p.names[v.field] && strings.ContainsFunc(v.value, shellSpecial) {
			return fmt.Errorf(`exec.command: the %s of this run holds characters that mean something to a shell: write "$%s" in the script, not {{.%s}}`,
				strings.ToLower(v.field), v.env, v.field)
		}
	}
	return nil
}

func shellSpecial(r rune) bool {
	plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f
	return !plain && !strings.ContainsRune("_-.,:/%@+=", r)
}

// environment is all that the command sees of its surroundings: of the
// daemon's own, which may hold secrets, only what every program needs.
func (e *Exec) environment(try scheduler.Try, who account, mark string) ([]string, error) {
	env := map[string]string{"PATH": defaultPath}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if e.inherit || slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"}, name) {
			env[name] = value
		}
	}
	delete(env, envWindowFrom) // of a run that the daemon itself belongs to
	delete(env, envWindowTo)
	maps.Copy(env, who.environment())
	for name, p := range e.env {
		value, _, err := p.render(try)
		if err != nil {
			return nil, fmt.Errorf("exec.env.%s: %w", name, err)
		}
		env[name] = value
	}
	maps.Copy(env, map[string]string{
		envKey: try.Key, envJob: try.Job, envTarget: try.Target,
		envScheduledAt: jobstore.FormatTime(try.ScheduledAt),
		envAttempt:     strconv.Itoa(try.Attempt),
		envLogicalRun:  strconv.Itoa(try.LogicalRun),
		envCoalesced:   strconv.FormatInt(try.Coalesced, 10),
		envProcess:     mark,
	})
	if !try.WindowTo.IsZero() {
		env[envWindowFrom] = jobstore.FormatTime(try.WindowFrom)
		env[envWindowTo] = jobstore.FormatTime(try.WindowTo)
	}
	list := make([]string, 0, len(env))
	for _, name := range sortedKeys(env) {
		list = append(list, name+"="+env[name])
	}
	return list, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return reason(err)
	}
	if !info.IsDir() {
		return unix.ENOTDIR
	}
	return nil
}

// reason is the bare system error, without the path, which may be a secret.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// lookPath finds a program as the command's own PATH says. A name with a slash
// is a path, which the kernel takes from the command's folder on.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	denied := false
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // the working directory is no place for programs
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		denied = true
	}
	switch {
	case denied:
		return "", errors.New("the file found in PATH is not executable")
	case strings.ContainsAny(name, " \t"):
		return "", errors.New("not found in PATH (arguments are items of their own in the list; a shell takes one string, with shell: true)")
	}
	return "", errors.New("not found in PATH")
}

// startFault is the result of a command that could not be started. Only a lack
// of resources may be another matter at the next try.
func (e *Exec) startFault(cmd *command, err error) scheduler.Result {
	err = reason(err)
	text := "start " + cmd.name
	if cmd.dir != "" {
		text += " in " + cmd.dir
	}
	if cmd.user != "" {
		text += " as user " + cmd.user
	}
	text += ": " + err.Error()
	switch {
	case errors.Is(err, unix.ENOENT) && exists(cmd.Cmd):
		text += " (the file is there: what its first line names as interpreter, or its loader, is not)"
	case errors.Is(err, unix.EPERM) && cmd.SysProcAttr.Credential != nil:
		text += fmt.Sprintf(" (the daemon runs as uid %d and may not become another user: run it as root, or with CAP_SETUID and CAP_SETGID)", os.Geteuid())
	case errors.Is(err, unix.ENOEXEC):
		text += " (a script needs a first line such as #!/bin/sh)"
	}
	for _, scarce := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY} {
		if errors.Is(err, scarce) {
			return failTransient(e.mask.text(text))
		}
	}
	return fail(e.mask.text(text))
}

func exists(cmd exec.Cmd) bool {
	path := cmd.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	_, err := os.Stat(path)
	return err == nil
}
