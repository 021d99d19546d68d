//go:build unix

package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// superuser owns every cluster, whatever the operating system's user is called.
const superuser = "tidemark"

// guardScript waits until its standard input ends: when this process is done
// with the server, or is gone, however it went. Then it takes down whatever
// runs and removes the directory. (A server that it misses, because it was just
// being started, ends itself within a minute of losing its directory.)
const guardScript = `read -r _
"$1/pg_ctl" stop --silent --mode=immediate --pgdata="$2/data"
rm -rf "$2"`

// cluster is a data directory and the server that may run on it.
type cluster struct {
	bin      string // directory of initdb and pg_ctl
	dir      string // holds data/, the sockets and the log
	port     int
	settings []string
	sys      *syscall.SysProcAttr
	guard    *exec.Cmd
	lifeline *os.File // the guard's standard input; held open while the cluster is wanted
}

// newCluster creates a cluster in a new directory below parent, or where
// temporary files are if that is empty, and starts its server.
func newCluster(parent string, settings []string) (*cluster, error) {
	bin, err := findBinaries("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	sys, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "pgtest-")
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bin, dir: dir, settings: settings, sys: sys}
	if err := c.startGuard(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.create(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// findBinaries returns the newest directory of the pattern that has a server,
// else that of the pg_ctl in PATH.
func findBinaries(pattern string) (string, error) {
	best, version := "", 0
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	for _, dir := range dirs {
		v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil || v < version {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			best, version = dir, v
		}
	}
	if best != "" {
		return best, nil
	}
	path, err := exec.LookPath("pg_ctl")
	if err != nil {
		return "", fmt.Errorf("no PostgreSQL server in %s or PATH (`make deps` installs one)", pattern)
	}
	// Follow links: the other programs stand beside the real one.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

// unprivileged makes PostgreSQL, which refuses to run as root, run as another
// user, and out of reach of the terminal's Ctrl-C.
func unprivileged() (*syscall.SysProcAttr, error) {
	sys := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() != 0 {
		return sys, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find a user for PostgreSQL, which refuses root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	sys.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return sys, nil
}

func (c *cluster) url() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, c.port)
}

// startGuard hands the directory to the guard and to the user it runs as.
func (c *cluster) startGuard() error {
	if cred := c.sys.Credential; cred != nil {
		if err := os.Chown(c.dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	// No output: `go test` would wait for the guard to close it.
	guard := exec.Command("/bin/sh", "-c", guardScript, "pgtest-guard", c.bin, c.dir)
	guard.Dir, guard.SysProcAttr, guard.Stdin = "/", c.sys, r
	if err := guard.Start(); err != nil {
		w.Close()
		return fmt.Errorf("start the guard: %w", err)
	}
	c.guard, c.lifeline = guard, w
	return nil
}

// remove ends the server and deletes its directory.
func (c *cluster) remove() {
	c.lifeline.Close()
	c.guard.Wait() //nolint:errcheck // it reports that there was nothing to stop
}

// create fills the data directory and starts the server on a free port. Another
// process may take that port first, so it tries three.
func (c *cluster) create() error {
	err := c.command("initdb", "--pgdata="+c.data(), "--username="+superuser,
		"--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
	for try := 0; err == nil && try < 3; try++ {
		if c.port, err = freePort(); err != nil {
			break
		}
		if err = c.start(); err == nil {
			return nil
		}
	}
	return err
}

// freePort picks a port below those that the system gives to outgoing
// connections, so that a stopped server finds its own free again.
func freePort() (int, error) {
	var err error
	for range 50 {
		port := 15000 + rand.IntN(17000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) start() error {
	options := []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(c.port),
		"unix_socket_directories=" + c.dir,
		"max_connections=300",
	}
	var line strings.Builder
	for _, o := range append(options, c.settings...) {
		// pg_ctl passes the line to a shell.
		fmt.Fprintf(&line, " -c '%s'", strings.ReplaceAll(o, "'", `'\''`))
	}
	logFile := filepath.Join(c.dir, "log")
	err := c.command("pg_ctl", "start", "--silent", "--wait", "--pgdata="+c.data(),
		"--log="+logFile, "--options="+line.String())
	if err != nil {
		text, _ := os.ReadFile(logFile) // best effort, beside the error itself
		return fmt.Errorf("%w\n%s", err, tail(text, 2000))
	}
	return nil
}

func (c *cluster) stop() error {
	return c.command("pg_ctl", "stop", "--silent", "--wait", "--mode=fast", "--pgdata="+c.data())
}

// kill sends SIGKILL to the server's first process and to those it has started:
// they would notice that it is gone, but not at once.
func (c *cluster) kill() error {
	pidFile := filepath.Join(c.data(), "postmaster.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return fmt.Errorf("read the process id: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return fmt.Errorf("read the process id: %w", err)
	}
	pids := append([]int{postmaster}, children(postmaster)...)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	for deadline := time.Now().Add(timeout); len(running(pids)) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v outlived SIGKILL", running(pids))
		}
	}
	// The next server would take a process that nobody has waited for yet, and
	// that still has its number, for a running one.
	socketLock := filepath.Join(c.dir, fmt.Sprintf(".s.PGSQL.%d.lock", c.port))
	return errors.Join(os.Remove(pidFile), os.Remove(socketLock))
}

// children lists the processes that a process has started, where the system
// tells.
func children(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// running drops the processes that are gone, or dead and not yet waited for.
func running(pids []int) []int {
	var left []int
	for _, pid := range pids {
		if syscall.Kill(pid, 0) != nil {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // not every system has it
		if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("Z")) {
			left = append(left, pid)
		}
	}
	return left
}

// command runs one of PostgreSQL's programs.
func (c *cluster) command(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = c.dir, c.sys
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, tail(out, 2000))
	}
	return nil
}

// tail returns the last n bytes.
func tail(text []byte, n int) []byte {
	return bytes.TrimSpace(text[max(0, len(text)-n):])
}
