//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// query returns the single value of a query.
func query(t *testing.T, server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var value string
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func exec1(t *testing.T, server, sql string) {
	t.Helper()
	if err := execute(server, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestDatabasesAreEmptyAndSeparate(t *testing.T) {
	a, b := NewDatabase(t), NewDatabase(t)
	exec1(t, a, "CREATE TABLE t (id int)")
	if got := query(t, a, "SELECT coalesce(to_regclass('t')::text, 'none')"); got != "t" {
		t.Errorf("the first database has table %q", got)
	}
	if got := query(t, b, "SELECT coalesce(to_regclass('t')::text, 'none')"); got != "none" {
		t.Errorf("the second database has table %q", got)
	}
}

func TestADatabaseIsDroppedDespiteOpenConnections(t *testing.T) {
	var dropped string
	t.Run("use", func(t *testing.T) {
		dropped = NewDatabase(t)
		// Left open on purpose.
		if _, err := pgx.Connect(t.Context(), dropped); err != nil {
			t.Fatal(err)
		}
	})
	u, err := url.Parse(dropped)
	if err != nil {
		t.Fatal(err)
	}
	sql := fmt.Sprintf("SELECT count(*)::text FROM pg_database WHERE datname = '%s'", u.Path[1:])
	if got := query(t, NewDatabase(t), sql); got != "0" {
		t.Errorf("%s databases called %s are left", got, u.Path[1:])
	}
}

func TestTheServerIsDurable(t *testing.T) {
	server := NewDatabase(t)
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := query(t, server, "SHOW "+setting); got != "on" {
			t.Errorf("%s is %s", setting, got)
		}
	}
}

func TestAPrivateServerTakesSettings(t *testing.T) {
	t.Parallel()
	s := NewServer(t, "fsync=off", "application_name=it's me")
	if got := query(t, s.URL(), "SHOW fsync"); got != "off" {
		t.Errorf("fsync is %s", got)
	}
	if got := query(t, s.URL(), "SHOW application_name"); got != "it's me" {
		t.Errorf("application_name is %q", got)
	}
}

func TestAPrivateServerComesBackWithItsData(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	exec1(t, s.URL(), "CREATE TABLE t AS SELECT 0 AS n")
	for _, outage := range []struct {
		name string
		end  func()
	}{{"stop", s.Stop}, {"kill", s.Kill}, {"kill again", s.Kill}} {
		exec1(t, s.URL(), "UPDATE t SET n = n + 1")
		before := query(t, s.URL(), "SELECT n::text FROM t")
		outage.end()
		if err := execute(s.URL(), "SELECT 1"); err == nil {
			t.Fatalf("after %s the server still answers", outage.name)
		}
		s.Start()
		if after := query(t, s.URL(), "SELECT n::text FROM t"); after != before {
			t.Errorf("after %s: n = %s, want %s", outage.name, after, before)
		}
	}
}

func TestKillEndsOpenSessions(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	s.Kill()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a session outlived the server")
	}
}

func TestABadSettingFailsWithTheServersOwnWords(t *testing.T) {
	t.Parallel()
	c, err := newCluster("", []string{"fsync=perhaps"})
	if err == nil {
		c.remove()
	}
	if err == nil || !strings.Contains(err.Error(), `parameter "fsync" requires a Boolean value`) {
		t.Errorf("error %v", err)
	}
}

func TestMissingBinariesFailWithAHint(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findBinaries(filepath.Join(t.TempDir(), "*/bin"))
	if err == nil || !strings.Contains(err.Error(), "`make deps` installs one") {
		t.Errorf("error %v", err)
	}
}

func TestTheNewestBinariesAreFound(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9", "15", "16"} {
		bin := filepath.Join(root, version, "bin")
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		if version == "16" {
			continue // a client without a server
		}
		if err := os.WriteFile(filepath.Join(bin, "initdb"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findBinaries(filepath.Join(root, "*/bin"))
	if want := filepath.Join(root, "15/bin"); got != want || err != nil {
		t.Errorf("found %s, %v, want %s", got, err, want)
	}
}

// TestNoServerOutlivesAKilledTest runs this test binary a second time, lets it
// start a server and kills it.
func TestNoServerOutlivesAKilledTest(t *testing.T) {
	const child = "PGTEST_CRASHING_CHILD"
	if os.Getenv(child) != "" {
		s := NewServer(t)
		fmt.Printf("\n%s %s\n", s.URL(), s.cluster.dir)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoServerOutlivesAKilledTest$")
	cmd.Env = append(os.Environ(), child+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	server, dir := "", ""
	for lines := bufio.NewScanner(stdout); server == "" && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "postgres://") {
			server, dir, _ = strings.Cut(lines.Text(), " ")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed

	u, err := url.Parse(server)
	if err != nil || server == "" {
		t.Fatalf("the child printed %q as its server: %v", server, err)
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		conn, refused := net.Dial("tcp", u.Host)
		if refused == nil {
			conn.Close()
		}
		_, removed := os.Stat(dir)
		if refused != nil && errors.Is(removed, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a minute after its test was killed: server %v, directory %v", refused, removed)
		}
	}
}

func BenchmarkNewDatabase(b *testing.B) {
	for b.Loop() {
		NewDatabase(b)
	}
}
