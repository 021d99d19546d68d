package daemon

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tidemarkd/tidemark/jobstore"
)

// envHelper makes the test binary do one thing of TestMain's instead of testing.
const envHelper = "TIDEMARK_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(envHelper) {
	case "live":
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "open":
		openAsHelper()
	default:
		os.Exit(m.Run())
	}
}

// living starts a process that ends when the test does, and returns its id.
func living(t *testing.T, name string, args ...string) int {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), envHelper+"=live")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestWhoIsGone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	daemon, other := living(t, self), living(t, "cat")
	host := hostIdentity()
	if fields := strings.Fields(host); len(fields) != 2 || !strings.HasPrefix(fields[1], "pid:[") {
		t.Fatalf("this host is %q", host)
	}
	for name, c := range map[string]struct {
		row  jobstore.Node
		want bool
	}{
		"a process that is no more":                           {jobstore.Node{Host: host, PID: dead.Process.Pid}, true},
		"a daemon that lives":                                 {jobstore.Node{Host: host, PID: daemon}, false},
		"another program under its number":                    {jobstore.Node{Host: host, PID: other}, true},
		"this very process under its number":                  {jobstore.Node{Host: host, PID: os.Getpid()}, true},
		"another host or boot, where the number says nothing": {jobstore.Node{Host: "other " + host, PID: dead.Process.Pid}, false},
		"a host that does not tell":                           {jobstore.Node{PID: dead.Process.Pid}, false},
		"nobody":                                              {jobstore.Node{}, false},
	} {
		if got := isGone(c.row); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestANodeIsItself(t *testing.T) {
	a, err := newNode("", "v1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := newNode("b", "v1")
	if err != nil {
		t.Fatal(err)
	}
	if name, _ := os.Hostname(); a.Name != name || b.Name != "b" {
		t.Errorf("names %q and %q", a.Name, b.Name)
	}
	if a.Instance == b.Instance || a.Instance == "" || a.PID != os.Getpid() || a.Host != hostIdentity() || a.StartedAt.IsZero() {
		t.Errorf("%+v %+v", a, b)
	}
}
