// Package sqlite keeps the job store in one SQLite file, for a single daemon
// and the commands beside it.
//
// One connection writes and a small pool reads (WAL, synchronous=FULL): every
// change is one BEGIN IMMEDIATE transaction on the writer, so the locks that
// the jobstore package asks for are the file's write lock, and what a
// transaction has read stays true until it commits. The store's clock is this
// process's.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"golang.org/x/sys/unix"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Options says who opens the store.
type Options struct {
	// Create makes the file if there is none; else Open returns ErrNoStore.
	Create bool
	// Daemon takes the file for this process's life: at most one daemon has
	// it (ErrLocked), while commands read and write it meanwhile. It also
	// looks the file over for damage.
	Daemon bool
}

// Store is a jobstore.Store in a SQLite file.
type Store struct {
	path     string
	daemon   bool
	lock     *os.File
	patience time.Duration // with other writers
	writer   *writer
	reader   *sql.DB // nil: in memory, where the one connection does both
	schema   func() (map[string]string, error)
}

var _ jobstore.Store = (*Store)(nil)

const inMemory = ":memory:"

// Open opens the store at path; ":memory:" is one that lives as long as the
// Store. It does not migrate. ErrNoStore, ErrLocked, ErrDamaged, ErrUnavailable.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	s := &Store{path: path, daemon: opts.Daemon, patience: busyTimeout, schema: sync.OnceValues(wantedSchema)}
	if err := s.open(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, translate(err)), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, opts Options) (err error) {
	if s.path == inMemory {
		s.writer, err = newWriter("file::memory:?_txlock=immediate")
		return err
	}
	if err := checkPath(s.path, opts.Create); err != nil {
		return err
	}
	if s.path, err = oneName(s.path, opts.Daemon); err != nil {
		return err
	}
	if opts.Daemon {
		if s.lock, err = lockFile(s.path + ".lock"); err != nil {
			return err
		}
	}
	file := dsn(s.path)
	if s.writer, err = newWriter(file + writerPragmas); err != nil {
		return err
	}
	if s.reader, err = sql.Open("sqlite", file+"&_query_only=1"); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(readers)
	s.reader.SetMaxIdleConns(readers)
	return s.look(ctx, opts.Daemon)
}

// A batch of a thousand runs touches some thousand pages: they stay in memory
// until it commits (32 MB at most), and a checkpoint comes after several.
const writerPragmas = "&_synchronous=FULL&_journal_mode=WAL&_txlock=immediate&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(4000)"

const (
	readers     = 4
	busyTimeout = 10 * time.Second
	lookTimeout = 5 * time.Second
)

func dsn(path string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
	return fmt.Sprintf("%s?_busy_timeout=%d", u.String(), busyTimeout.Milliseconds())
}

// oneName is the file's own name, whatever links lead to it: SQLite's log and
// the daemon's lock are named after it, and two names would make two of each. A
// daemon refuses a file that has a second name of its own, a hard link.
func oneName(path string, daemon bool) (string, error) {
	own, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) { // it is to be made, in a folder that is there
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", fmt.Errorf("%w: %w", jobstore.ErrUnavailable, err)
		}
		return filepath.Join(folder, filepath.Base(path)), nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", jobstore.ErrUnavailable, err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(own, &stat); daemon && err == nil && stat.Nlink > 1 {
		return "", fmt.Errorf("%w: the file has %d names (hard links); SQLite cannot keep it safe under more than one", jobstore.ErrUnavailable, stat.Nlink)
	}
	return own, nil
}

func checkPath(path string, create bool) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return fmt.Errorf("%w: no path is given", jobstore.ErrUnavailable)
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: it is a directory", jobstore.ErrUnavailable)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", jobstore.ErrUnavailable, err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%w: the directory: %w", jobstore.ErrUnavailable, err)
	}
	if !create {
		return fmt.Errorf("%w: %s", jobstore.ErrNoStore, path)
	}
	return nil
}

const (
	sqlLook       = `SELECT count(*) FROM sqlite_master`
	sqlQuickCheck = `PRAGMA quick_check(1)`
)

// look reads the file once, so that what is no database is found here, and
// has a daemon's file checked as far as that takes no longer than lookTimeout.
func (s *Store) look(ctx context.Context, whole bool) error {
	var n int
	if err := s.read(ctx, func(t *tx) error { return t.queryRow(sqlLook).Scan(&n) }); err != nil {
		return err
	}
	if err := s.write(ctx, func(*tx) error { return nil }); err != nil {
		return err
	}
	if !whole {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var found string
	err := s.read(limited, func(t *tx) error { return t.queryRow(sqlQuickCheck).Scan(&found) })
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil:
		return nil // too big to be looked over whole at every start
	case err != nil:
		return err
	case found != "ok":
		return fmt.Errorf("%w: %s", jobstore.ErrDamaged, found)
	}
	return nil
}

// Check reports whether the store can be reached and its schema is this
// version's, whole: every table and index that the migrations make.
func (s *Store) Check(ctx context.Context) error {
	err := s.read(ctx, s.checkSchema)
	return wrap("check store", err)
}

// Close closes the connections and gives a daemon's file free.
func (s *Store) Close() error {
	var errs []error
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// now is the store's clock.
func now() time.Time { return jobstore.Instant(time.Now()) }

// wrap says what was tried and translates the driver's error.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, translate(err))
}

// translate puts the error that callers act upon in front of the driver's.
func translate(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case code.SQLITE_CORRUPT, code.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", jobstore.ErrDamaged, err)
	case code.SQLITE_BUSY, code.SQLITE_LOCKED, code.SQLITE_PROTOCOL, // another process holds the lock
		code.SQLITE_FULL, code.SQLITE_READONLY, code.SQLITE_IOERR, code.SQLITE_CANTOPEN, code.SQLITE_PERM, code.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", jobstore.ErrUnavailable, err)
	}
	return err
}

// busy reports whether err says that another connection has the lock.
func busy(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == code.SQLITE_BUSY
}

// taken reports whether err says that a unique value exists already.
func taken(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code() == code.SQLITE_CONSTRAINT_UNIQUE
}
