package executor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// killWait is how long killed processes may take to go: one in the middle of
	// an I/O wait cannot be ended by anything, and must not hang the run.
	killWait = 10 * time.Second
	pollMin  = 5 * time.Millisecond
	pollMax  = 100 * time.Millisecond
)

// process is one line of the process table. PID alone names no process, for it
// is used again; with its start time it does.
type process struct {
	pid, parent, group int
	start              uint64 // in clock ticks since boot
	dead               bool   // and not yet reaped
}

// family is what belongs to an attempt on this host. It is used by one
// goroutine.
type family struct {
	group int                       // process group of the command; 0: none
	mine  func(environ []byte) bool // by environment, which children inherit
	since uint64                    // start of its eldest: no older process is looked at
	known map[int]uint64            // who was a member once: pid and start
}

// members lists the living processes of the family: those of its group, those
// with its environment, and what descends from one of them. So a process that
// began a session of its own is found by its parent or, once orphaned, by its
// environment; and who was found once is not lost when its parent dies.
func (f *family) members() ([]process, error) {
	table, err := processes()
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	in := map[int]bool{}
	if f.group != 0 {
		in[f.group] = true // also while it is dead and not yet reaped
	}
	for _, p := range table {
		if p.pid != self && f.owns(p) {
			in[p.pid] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for _, p := range table {
			if !in[p.pid] && in[p.parent] && p.pid != self {
				in[p.pid], grew = true, true
			}
		}
	}
	f.known = make(map[int]uint64, len(in))
	var list []process
	for _, p := range table {
		if in[p.pid] {
			list = append(list, p)
			f.known[p.pid] = p.start
		}
	}
	return list, nil
}

func (f *family) owns(p process) bool {
	if start, ok := f.known[p.pid]; ok && start == p.start {
		return true
	}
	return p.start >= f.since && (f.group != 0 && p.group == f.group || f.mine(environ(p.pid)))
}

// signal sends sig to every member, and returns how many there were. They are
// listed before the first of them dies, and the group is signalled as a whole:
// that misses none of it.
func (f *family) signal(sig syscall.Signal) (int, error) {
	list, err := f.members()
	if f.group != 0 {
		_ = syscall.Kill(-f.group, sig) // gone already, or the caller looks again
	}
	for _, p := range list {
		if f.group == 0 || p.group != f.group {
			p.signal(sig)
		}
	}
	return len(list), err
}

// end asks every member to go, and kills those that are there after the grace.
func (f *family) end(grace time.Duration) error {
	if left, err := f.signal(syscall.SIGTERM); err != nil || left == 0 {
		return err
	}
	if f.gone(grace) {
		return nil
	}
	return f.kill()
}

// kill ends every member, whatever it forks meanwhile.
func (f *family) kill() error {
	deadline := time.Now().Add(killWait)
	for pause := pollMin; ; pause = min(2*pause, pollMax) {
		left, err := f.signal(syscall.SIGKILL)
		switch {
		case err != nil:
			return err
		case left == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d processes cannot be ended", left)
		}
		<-time.After(pause)
	}
}

// gone waits until the family is dead, at most for the given time.
func (f *family) gone(wait time.Duration) bool {
	deadline := time.Now().Add(wait)
	for pause := pollMin; ; pause = min(2*pause, pollMax) {
		list, err := f.members()
		if err != nil || len(list) == 0 {
			return err == nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		<-time.After(min(pause, left))
	}
}

// signal reaches this very process or none: the handle is opened first (a
// pidfd, where the kernel has them), and then it is looked whom it holds.
func (p process) signal(sig syscall.Signal) {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if now, err := readProcess(p.pid); err == nil && now.start == p.start {
		_ = handle.Signal(sig) // gone, or another user's: the caller looks again
	}
}

// processes reads the process table, without the dead that wait to be reaped.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var table []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil && !p.dead {
			table = append(table, p)
		}
	}
	return table, nil
}

// readProcess reads /proc/PID/stat (proc_pid_stat(5)). The command's name,
// second there, may hold anything, brackets and spaces too.
func readProcess(pid int) (process, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	end := bytes.LastIndexByte(raw, ')')
	rest := strings.Fields(string(raw[end+1:]))
	if end < 0 || len(rest) < 20 {
		return process{}, fmt.Errorf("read process %d: unknown form", pid)
	}
	p := process{pid: pid, dead: rest[0] == "Z" || rest[0] == "X"}
	p.parent, _ = strconv.Atoi(rest[1])
	p.group, _ = strconv.Atoi(rest[2])
	p.start, err = strconv.ParseUint(rest[19], 10, 64)
	return p, err
}

// environ is the environment that a process was started with; empty where it
// may not be read.
func environ(pid int) []byte {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(raw) == 0 {
		return nil
	}
	return append([]byte{0}, raw...)
}

// variable is the value of a variable in what environ returns.
func variable(environ []byte, name string) (string, bool) {
	_, rest, ok := bytes.Cut(environ, []byte("\x00"+name+"="))
	if !ok {
		return "", false
	}
	value, _, _ := bytes.Cut(rest, []byte{0})
	return string(value), true
}

// Sweep ends what is left on this host of an attempt, and of earlier ones, of
// an installation's run with that key, whose daemon is gone: a new attempt must
// not run beside it (semantics 5). It returns when they are gone, and how many there were.
// Processes are found by their environment; those of another user only where
// the caller may read it.
func Sweep(installation, key string, attempt int) (killed int, err error) {
	left := &family{mine: func(environ []byte) bool {
		if k, ok := variable(environ, envKey); !ok || k != key {
			return false
		}
		if mark, _ := variable(environ, envProcess); !strings.HasPrefix(mark, installation+".") {
			return false
		}
		value, _ := variable(environ, envAttempt)
		n, err := strconv.Atoi(value)
		return err == nil && n <= attempt
	}}
	list, err := left.members()
	if err != nil || len(list) == 0 {
		return 0, err
	}
	if err := left.kill(); err != nil {
		return len(list), fmt.Errorf("end attempt %d of %s: %w", attempt, key, err)
	}
	return len(list), nil
}
