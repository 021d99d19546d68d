package daemon

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	_ "modernc.org/sqlite" // the driver "sqlite", to make stores that are not right

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

var asDaemon = StoreOptions{Create: true, Daemon: true}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAnUnreachablePostgresIsSaidSoAtOnce(t *testing.T) {
	address := "postgres://ops:s3cr3t@" + closedPort(t) + "/tidemark"
	for name, opt := range map[string]StoreOptions{"daemon": asDaemon, "command": {}} {
		began := time.Now()
		_, err := OpenStore(t.Context(), address, opt)
		if !errors.Is(err, jobstore.ErrUnavailable) || ExitCode(err) != ExitUnavailable || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: the password is in %v", name, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

func TestWaitingForPostgresIsSaidOnceAndEndsWithTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := 0
	log := zap.New(zapcore.NewNopCore(), zap.Hooks(func(zapcore.Entry) error { return nil })).WithOptions(
		zap.WrapCore(func(zapcore.Core) zapcore.Core {
			return zapcore.RegisterHooks(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(nowhere{}), zap.InfoLevel), func(e zapcore.Entry) error {
				lines++
				if e.Message != "waiting for the store" {
					t.Errorf("it says %q", e.Message)
				}
				time.AfterFunc(1200*time.Millisecond, cancel) // after some tries more
				return nil
			})
		}))
	_, err := OpenStore(ctx, "postgres://ops@"+closedPort(t)+"/tidemark", StoreOptions{Wait: time.Minute, Log: log})
	if !errors.Is(err, context.Canceled) || lines != 1 {
		t.Errorf("after %d lines: %v", lines, err)
	}
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func TestADatabaseThatIsNotThere(t *testing.T) {
	address := pgtest.NewDatabase(t)
	_, err := OpenStore(t.Context(), strings.Replace(address, "/test_", "/none_", 1), StoreOptions{Create: true})
	if !errors.Is(err, jobstore.ErrNoStore) || ExitCode(err) != ExitUnavailable {
		t.Errorf("%v", err)
	}
	if _, err := OpenStore(t.Context(), address, StoreOptions{}); !errors.Is(err, jobstore.ErrOldSchema) {
		t.Errorf("without a schema: %v", err)
	}
}

func TestAStoreOfANewerVersionIsLeftAlone(t *testing.T) {
	sqlite := "sqlite:" + filepath.Join(t.TempDir(), "tidemark.db")
	postgres := pgtest.NewDatabase(t)
	for name, address := range map[string]string{"sqlite": sqlite, "pgx": postgres} {
		store, err := OpenStore(t.Context(), address, StoreOptions{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		change(t, name, strings.TrimPrefix(address, "sqlite:"), "UPDATE tidemark_schema SET version_id = version_id + 1000 WHERE version_id > 0")
		for _, opt := range []StoreOptions{{}, {Create: true}, {Create: true, Daemon: true}} {
			_, err := OpenStore(t.Context(), address, opt)
			if !errors.Is(err, jobstore.ErrNewerSchema) || ExitCode(err) != ExitUnavailable || !strings.Contains(err.Error(), "newer version of tidemark") {
				t.Errorf("%s %+v: %v", name, opt, err)
			}
		}
	}
}

// change runs a statement on a store behind its back.
func change(t *testing.T, driver, source, statement string) {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if res, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	} else if n, err := res.RowsAffected(); err != nil || n == 0 && strings.HasPrefix(statement, "UPDATE") {
		t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

func TestSQLiteFilesThatAreNoStore(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	notDatabase := write("text.db", strings.Repeat("This is a letter to a friend.\n", 300))
	damaged := filepath.Join(dir, "damaged.db")
	if err := Migrate(t.Context(), "sqlite:"+damaged); err != nil {
		t.Fatal(err)
	}
	change(t, "sqlite", damaged, "DROP TABLE tidemark_runs")
	foreign := filepath.Join(dir, "foreign.db")
	change(t, "sqlite", foreign, "CREATE TABLE visitors (name TEXT)")

	daemon, command := asDaemon, StoreOptions{}
	for _, c := range []struct {
		path string
		opt  StoreOptions
		want error
		text string
	}{
		{filepath.Join(dir, "missing", "tidemark.db"), daemon, jobstore.ErrUnavailable, "missing: no such file or directory"},
		{filepath.Join(dir, "missing", "tidemark.db"), command, jobstore.ErrUnavailable, "missing: no such file or directory"},
		{filepath.Join(dir, "none.db"), command, jobstore.ErrNoStore, "none.db"},
		{dir, daemon, jobstore.ErrUnavailable, "it is a directory"},
		{dir, command, jobstore.ErrUnavailable, "it is a directory"},
		{filepath.Join(notDatabase, "tidemark.db"), daemon, jobstore.ErrUnavailable, "not a directory"},
		{notDatabase, daemon, jobstore.ErrDamaged, "not a database"},
		{notDatabase, command, jobstore.ErrDamaged, "not a database"},
		{damaged, daemon, jobstore.ErrDamaged, "tidemark_runs is missing"},
		{damaged, command, jobstore.ErrDamaged, "tidemark_runs is missing"},
		{foreign, command, jobstore.ErrOldSchema, "schema"},
		{write("empty.db", ""), command, jobstore.ErrOldSchema, "schema"},
		{"/proc/tidemark.db", daemon, jobstore.ErrUnavailable, "/proc/tidemark.db"}, // not even root may
	} {
		began := time.Now()
		_, err := OpenStore(t.Context(), "sqlite:"+c.path, c.opt)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || ExitCode(err) != ExitUnavailable {
			t.Errorf("%s %+v: %v", c.path, c.opt, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: it took %v", c.path, took)
		}
	}
	if text, err := os.ReadFile(notDatabase); err != nil || !strings.HasPrefix(string(text), "This is a letter") {
		t.Error("what is no store was written to")
	}
	if _, err := os.Stat(filepath.Join(dir, "none.db")); err == nil {
		t.Error("a command made a store")
	}
}

func TestTheSecondDaemonOnAFileIsToldSo(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "tidemark.db")
	first, err := OpenStore(t.Context(), address, asDaemon)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := OpenStore(t.Context(), address, asDaemon); !errors.Is(err, jobstore.ErrLocked) || ExitCode(err) != ExitTryAgain {
		t.Errorf("%v", err)
	}
}

func TestAddressesOfNoKnownKind(t *testing.T) {
	for _, address := range []string{"", "sqlite:", "tidemark.db", "mysql://db.example/x", "postgres:db", "POSTGRES://x/y"} {
		_, err := OpenStore(t.Context(), address, asDaemon)
		if !errors.Is(err, ErrStoreURL) || ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v", address, err)
		}
		if _, err := PrintDDL(address); address != "sqlite:" && !errors.Is(err, ErrStoreURL) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// openAsHelper opens a store as another user does, and prints how that went.
func openAsHelper() {
	ctx := context.Background()
	store, err := OpenStore(ctx, os.Getenv("TIDEMARK_TEST_ADDRESS"), StoreOptions{Create: true, Daemon: os.Getenv("TIDEMARK_TEST_DAEMON") != ""})
	if err == nil {
		// Who may read a file may look at it; the first thing that a daemon does is to write.
		err = store.Join(ctx, jobstore.Node{Name: "n", Instance: "i", StartedAt: time.Now()})
	}
	fmt.Println(ExitCode(err), errors.Is(err, jobstore.ErrUnavailable), err)
}

// Root may write everywhere: this is tried as somebody else.
func TestAFileThatCannotBeWritten(t *testing.T) {
	top := t.TempDir()
	for dir := top; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(top, "self.test")
	if binary, err := os.ReadFile("/proc/self/exe"); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(self, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	made := func(dir string, dirMode, fileMode os.FileMode) string {
		dir = filepath.Join(top, dir)
		path := filepath.Join(dir, "tidemark.db")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if fileMode != 0 {
			if err := Migrate(t.Context(), "sqlite:"+path); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, fileMode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, dirMode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, path := range map[string]string{
		"a directory in which nothing can be made":           made("closed", 0o555, 0),
		"a file in a directory in which nothing can be made": made("fixed", 0o555, 0o666),
		"a file that can be read only":                       made("read-only", 0o777, 0o444),
		"a file that cannot be read":                         made("hidden", 0o777, 0o200),
		"a directory that cannot be entered":                 made("locked", 0o700, 0o666),
	} {
		for _, daemon := range []string{"yes", ""} {
			cmd := exec.Command(self)
			cmd.Dir = "/"
			cmd.Env = []string{envHelper + "=open", "TIDEMARK_TEST_ADDRESS=sqlite:" + path, "TIDEMARK_TEST_DAEMON=" + daemon}
			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.HasPrefix(string(out), "69 true ") {
				t.Errorf("%s, daemon %q: %s", name, daemon, out)
			}
		}
	}
}
