package executor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is a started command. Its end is the end of its process, whatever its
// pipes do (pitfall "child closes stdout and goes on").
type child struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{} // closed when the process has ended
	// succeeded: with exit code 0. To be read once exited is closed.
	succeeded bool
	reap      chan struct{} // closed to let go of its number, and with it of its group's
	reaped    chan struct{}
}

// start starts cmd. The command dies with the daemon: the kernel sends it
// SIGKILL when the thread that started it ends (PR_SET_PDEATHSIG(2const)), so
// that thread is kept for as long as the command runs.
func start(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, exited: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.reaped)
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		c.succeeded = awaitExit(c.pid)
		close(c.exited)
		<-c.reap
		_ = cmd.Wait() // its state tells
	}()
	if err := <-started; err != nil {
		<-c.reaped
		return nil, err
	}
	return c, nil
}

// awaitExit waits for the end of a child, and reports whether it was a good
// one. The child is left to be reaped: until then its process group cannot
// become another's.
func awaitExit(pid int) (succeeded bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && info.Code == cldExited && exitStatus(&info) == 0
		}
	}
}

// cldExited is CLD_EXITED of sigaction(2).
const cldExited = 1

// exitStatus is si_status, which lies behind si_pid and si_uid in the part of
// the structure that x/sys does not name; that part begins at a pointer's
// boundary.
func exitStatus(info *unix.Siginfo) int32 {
	const head = unsafe.Sizeof(info.Signo) + unsafe.Sizeof(info.Errno) + unsafe.Sizeof(info.Code)
	const align = unsafe.Sizeof(uintptr(0))
	const status = (head+align-1)/align*align + 4 + 4
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), status))
}

func (c *child) hasExited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// wait reaps the ended child and returns how it ended.
func (c *child) wait() *os.ProcessState {
	c.abandon()
	<-c.reaped
	return c.cmd.ProcessState
}

// abandon lets the child be reaped whenever it ends.
func (c *child) abandon() { close(c.reap) }

// outputPipe carries what a command writes to out.
type outputPipe struct {
	read   *os.File
	out    io.Writer
	copied chan struct{}
}

// newOutputPipe returns a pipe and the end that the command writes to, which
// the caller closes once the command has it.
func newOutputPipe(out io.Writer) (*outputPipe, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	write := os.NewFile(uintptr(fds[1]), "output")
	// Only our end: a command expects to block.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		write.Close()
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	p := &outputPipe{read: os.NewFile(uintptr(fds[0]), "output"), out: out, copied: make(chan struct{})}
	return p, write, nil
}

// copy passes output on until the pipe ends or finish is called.
func (p *outputPipe) copy() {
	defer close(p.copied)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.read.Read(buf)
		_, _ = p.out.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// finish takes what is in the pipe, and no more: when a process has ended, all
// that it wrote is there. A pipe that something else still holds open is closed
// too, or with leave drained for as long as it is held, for its next write
// would kill that process otherwise, which is to be left alone (interfaces 2).
func (p *outputPipe) finish(leave bool) {
	_ = p.read.SetReadDeadline(time.Now())
	<-p.copied
	if p.drain() && leave {
		_ = p.read.SetReadDeadline(time.Time{})
		// The one goroutine that outlives its attempt. It ends with the last
		// process that has the pipe.
		go func() {
			defer p.read.Close()
			_, _ = io.Copy(io.Discard, p.read)
		}()
		return
	}
	p.read.Close()
}

// drain reads what the pipe holds now, and reports whether more may come.
func (p *outputPipe) drain() (open bool) {
	raw, err := p.read.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
		buf := make([]byte, 32<<10)
		for err == nil && left > 0 {
			var n int
			n, err = unix.Read(int(fd), buf[:min(left, len(buf))])
			if errors.Is(err, unix.EINTR) {
				err = nil
				continue
			}
			if n <= 0 {
				break
			}
			_, _ = p.out.Write(buf[:n])
			left -= n
		}
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(poll, 0)
		open = poll[0].Revents&unix.POLLHUP == 0
	})
	return open
}

// stdinFile is a file in memory that holds text, to be read from its beginning.
// It needs nobody to feed it, and nothing can hold it open at the other end.
func stdinFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make standard input: %w", err)
	}
	file := os.NewFile(uintptr(fd), "stdin")
	if _, err = io.WriteString(file, text); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("make standard input: %w", err)
	}
	return file, nil
}
