package checkpoint

import (
	"context"
	"time"
)

// Database is a job's own database, where its data lives. Its backends are the
// subpackages postgres and sqlite. Opening one does no I/O: a database that is
// down does not keep the daemon from starting. All methods may be called
// concurrently.
type Database interface {
	// Once runs a statement exactly once per key: the key and the statement's
	// effect are committed together, and where the key is there already the
	// statement is not run and the first result is returned. Two callers with
	// one key run one after the other. When ctx ends before the commit, the
	// statement is canceled and rolled back. Errors are *Error.
	Once(ctx context.Context, req OnceRequest) (OnceResult, error)
	// Migrate brings Tidemark's schema in the database up to date. Several
	// callers at once are safe.
	Migrate(ctx context.Context) error
	// DDL is what Migrate runs on an empty database, for those who must ask a
	// person to do it.
	DDL() string
	// Prune forgets the keys of statements that finished before the given time;
	// a forgotten key's statement would run again. It returns how many.
	Prune(ctx context.Context, before time.Time) (int64, error)
	Close() error
}

// OnceRequest is a statement and the run that it belongs to.
type OnceRequest struct {
	Key         string
	Fingerprint string // of the work; the same key with another one is ErrConflict
	Job         string
	Target      string
	ScheduledAt time.Time
	WindowFrom  time.Time // both zero: no window
	WindowTo    time.Time
	Attempt     int
	Statement   Statement
	Notice      func(text string) // takes what the database says meanwhile; may be nil
}

// OnceResult is what the statement did, now or at the first time.
type OnceResult struct {
	Found      bool // it had been done before, and was not run again
	Rows       int64
	Attempt    int // that did it
	FinishedAt time.Time
}
