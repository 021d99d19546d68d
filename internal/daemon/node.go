package daemon

import (
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// newNode describes this process as a node.
func newNode(name, version string) (jobstore.Node, error) {
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return jobstore.Node{}, err
		}
		name = host
	}
	return jobstore.Node{
		Name: name, Instance: rand.Text(), Host: hostIdentity(), PID: os.Getpid(),
		Version: version, StartedAt: time.Now(),
	}, nil
}

// hostIdentity is what makes a process id unique: the machine's boot and the
// process's PID namespace. It is empty where the system does not tell.
func hostIdentity() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + ns
}

// isGone reports whether the daemon that holds a node's row is known to be
// dead: it ran on this very host, and its process is no more. A process that
// only has its number does not count as it.
func isGone(row jobstore.Node) bool {
	if row.Host == "" || row.Host != hostIdentity() {
		return false
	}
	if row.PID == os.Getpid() {
		return true // this process has the number now
	}
	if err := syscall.Kill(row.PID, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	return !isTidemark(row.PID)
}

// isTidemark reports whether a process runs this program.
func isTidemark(pid int) bool {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	own, ownErr := os.ReadFile("/proc/self/comm")
	return err != nil || ownErr != nil || string(comm) == string(own)
}
