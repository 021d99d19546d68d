package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/checkpoint"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// SQLConfig is a job's `sql`.
type SQLConfig struct {
	Database string `yaml:"database"` // a name of `databases:`
	// Statement is one or several SQL commands, run in one transaction.
	Statement string `yaml:"statement"`
}

// SQL runs a statement in a job's database, exactly once per run: its effect
// and the run's key are committed together (semantics 8).
type SQL struct {
	database  string
	statement checkpoint.Statement
	db        checkpoint.Database
}

// Validate says what is wrong with c: FieldErrors, joined.
func (c SQLConfig) Validate(common Common) error {
	_, err := NewSQL(c, common, nil)
	return err
}

// UsesWindow reports whether the statement depends on the run's window.
func (c SQLConfig) UsesWindow() bool {
	statement, err := checkpoint.ParseStatement(c.Statement)
	return err == nil && statement.UsesWindow()
}

// NewSQL is the executor of c, working in db. It does no I/O, and db may be nil
// where c is only to be checked; its errors are FieldErrors, joined.
func NewSQL(c SQLConfig, common Common, db checkpoint.Database) (*SQL, error) {
	var f faults
	if c.Database == "" {
		f.add("sql.database", "names no database", "name one of `databases:`")
	}
	statement, err := checkpoint.ParseStatement(c.Statement)
	var fault *checkpoint.StatementError
	switch {
	case errors.As(err, &fault):
		f.add("sql.statement", fault.Error(), fault.Hint)
	case !common.Windowed && statement.UsesWindow():
		f.add("sql.statement", "@from and @to: the job's runs have no window",
			"a window needs runs one at a time: without `overlap: allow` and with `max_instances: 1`")
	}
	return &SQL{database: c.Database, statement: statement, db: db}, f.err()
}

// Execute implements scheduler.Executor.
func (s *SQL) Execute(ctx context.Context, try scheduler.Try) scheduler.Result {
	began := time.Now()
	switch {
	case s.db == nil:
		return fail("database " + s.database + " is not open")
	case ctx.Err() != nil:
		return stopped(ctx, began, "the statement was not run")
	case s.statement.UsesWindow() && try.WindowTo.IsZero():
		return fail("the statement uses @from or @to, but this run has no window")
	}
	res, err := s.db.Once(ctx, checkpoint.OnceRequest{
		Key: try.Key, Fingerprint: s.fingerprint(try), Job: try.Job, Target: try.Target,
		ScheduledAt: try.ScheduledAt, WindowFrom: try.WindowFrom, WindowTo: try.WindowTo,
		Attempt: try.Attempt, Statement: s.statement,
		Notice: func(text string) { fmt.Fprintln(try.Output, text) },
	})
	switch {
	case err != nil:
		return s.failed(ctx, began, err)
	case res.Found:
		fmt.Fprintf(try.Output, "done already by attempt %d at %s, %s: not run again\n", res.Attempt, jobstore.FormatTime(res.FinishedAt), rows(res.Rows))
	default:
		fmt.Fprintln(try.Output, rows(res.Rows))
	}
	return scheduler.Result{}
}

func rows(n int64) string {
	if n == 1 {
		return "1 row affected"
	}
	return fmt.Sprintf("%d rows affected", n)
}

// fingerprint says what the run does (semantics 5), for the data's own record.
func (s *SQL) fingerprint(try scheduler.Try) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		"sql", s.statement.Text, try.Target, jobstore.FormatTime(try.WindowFrom), jobstore.FormatTime(try.WindowTo),
	}, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (s *SQL) failed(ctx context.Context, began time.Time, err error) scheduler.Result {
	var fault *checkpoint.Error
	known := errors.As(err, &fault)
	switch {
	case ctx.Err() != nil && errors.Is(err, checkpoint.ErrOutcomeUnknown):
		return stopped(ctx, began, "database "+s.database+": "+err.Error())
	case ctx.Err() != nil && known && fault.Err != nil && errors.Is(fault.Err, ctx.Err()):
		return stopped(ctx, began, "the statement was canceled and rolled back")
	case errors.Is(err, checkpoint.ErrNoSchema):
		return fail(fmt.Sprintf("database %s: tidemark's schema is not in it: run `tidemark migrate --database %s`", s.database, s.database))
	case known && fault.Transient:
		return failTransient("database " + s.database + ": " + err.Error())
	}
	return fail("database " + s.database + ": " + err.Error())
}
