// Package sqlite keeps checkpoints in an SQLite file, in tables whose names
// begin with tidemark_.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// busyTime is how long a writer waits for another one, in milliseconds.
const busyTime = 30_000

// timeFormat is how datetime() writes, with a fraction where there is one: such
// texts sort as their times do.
const timeFormat = "2006-01-02 15:04:05.999999"

func timeText(t time.Time) string { return t.UTC().Format(timeFormat) }

// DB implements checkpoint.Database. It keeps the file open only while
// something runs.
type DB struct {
	path string
	pool *sql.DB
}

// Open prepares to work in the file. It does no I/O. Migrate makes a file that
// is not there; nothing else does.
func Open(path string) (*DB, error) {
	if path == "" {
		return nil, &checkpoint.Error{Op: "open the database", Text: "the address names no file"}
	}
	if strings.Contains(path, ":memory:") {
		return nil, &checkpoint.Error{Op: "open the database", Text: "a database in memory cannot keep what a run did"}
	}
	query := url.Values{"mode": {"rw"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTime)}}
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, &checkpoint.Error{Op: "open the database", Text: "the driver refuses the path"}
	}
	pool.SetMaxIdleConns(0)
	return &DB{path: path, pool: pool}, nil
}

// Close implements checkpoint.Database.
func (db *DB) Close() error { return db.pool.Close() }

const pruneBatch = 1000

const pruneSQL = `
DELETE FROM tidemark_sql_runs
WHERE key IN (SELECT key FROM tidemark_sql_runs WHERE finished_at < ? ORDER BY finished_at LIMIT ?)`

// Prune implements checkpoint.Database: at most one bounded batch.
func (db *DB) Prune(ctx context.Context, before time.Time) (int64, error) {
	conn, err := db.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := hasSchema(ctx, conn); err != nil {
		return 0, err
	}
	result, err := conn.ExecContext(ctx, pruneSQL, timeText(before), pruneBatch)
	if err != nil {
		return 0, db.fault(ctx, "forget old keys", err)
	}
	return result.RowsAffected()
}

func (db *DB) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, db.fault(ctx, "open the database", err)
	}
	return conn, nil
}

const schemaSQL = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'tidemark_sql_runs'`

func hasSchema(ctx context.Context, conn *sql.Conn) error {
	var n int
	if err := conn.QueryRowContext(ctx, schemaSQL).Scan(&n); err != nil {
		return fault(ctx, "read the schema", err)
	}
	if n == 0 {
		return &checkpoint.Error{Op: "read the schema", Text: checkpoint.ErrNoSchema.Error(), Err: checkpoint.ErrNoSchema}
	}
	return nil
}

// fault says more where the file itself is the matter.
func (db *DB) fault(ctx context.Context, op string, err error) error {
	translated := fault(ctx, op, err)
	var code *sqlite.Error
	if errors.As(err, &code) && code.Code()&0xff == sqlite3.SQLITE_CANTOPEN {
		translated.Text = "the file cannot be opened"
		if _, err := os.Stat(db.path); errors.Is(err, os.ErrNotExist) {
			translated.Text = "there is no such file" // whose name may be a secret
		}
	}
	return translated
}

// fault translates the driver's error, by its code.
func fault(ctx context.Context, op string, err error) *checkpoint.Error {
	fault := &checkpoint.Error{Op: op, Text: err.Error()}
	var code *sqlite.Error
	switch {
	case ctx.Err() != nil:
		fault.Text, fault.Transient, fault.Err = "stopped", true, ctx.Err()
	case errors.As(err, &code):
		primary := code.Code() & 0xff
		fault.Text = strings.TrimSpace(numbered.ReplaceAllString(err.Error(), ""))
		if _, name, ok := strings.Cut(sqlite.ErrorCodeString[primary], "("); ok {
			fault.Code = strings.TrimSuffix(name, ")")
		}
		switch primary {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM:
			fault.Transient = true // as SQLSTATE classes 40 and 53 are
		}
	}
	return fault
}

// numbered is the code's number, and perhaps name, behind the driver's text.
var numbered = regexp.MustCompile(`( \(\d+\))?( \(SQLITE_BUSY\))?$`)
