package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// Once implements checkpoint.Database. Who comes second waits for the file's
// one writer, and then finds the key or takes its place.
func (db *DB) Once(ctx context.Context, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	conn, err := db.connect(ctx)
	if err != nil {
		return checkpoint.OnceResult{}, err
	}
	defer conn.Close()
	if err := hasSchema(ctx, conn); err != nil {
		return checkpoint.OnceResult{}, err
	}
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return checkpoint.OnceResult{}, db.fault(ctx, "begin", err)
	}
	res, err := db.once(ctx, conn, req)
	if err == nil && !res.Found {
		return db.commit(ctx, conn, req, res)
	}
	rollback(ctx, conn)
	return res, err
}

// rollback ends the transaction, also after the context has ended. Where it
// fails, closing the connection does the same.
func rollback(ctx context.Context, conn *sql.Conn) {
	_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
}

const foundSQL = `SELECT fingerprint, rows_affected, attempt, finished_at FROM tidemark_sql_runs WHERE key = ?`

const recordSQL = `
INSERT INTO tidemark_sql_runs
	(key, fingerprint, job, target, scheduled_at, window_from, window_to, attempt, rows_affected, finished_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// once runs the statement under its key, in the transaction that conn is in.
func (db *DB) once(ctx context.Context, conn *sql.Conn, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	res, err := found(ctx, conn, req)
	if err != nil || res.Found {
		return res, err
	}
	for _, command := range req.Statement.Commands {
		rows, err := runCommand(ctx, conn, command, req)
		if err != nil {
			return checkpoint.OnceResult{}, db.fault(ctx, "run the statement", err)
		}
		res.Rows += rows
	}
	res.Attempt, res.FinishedAt = req.Attempt, time.Now().UTC().Truncate(time.Microsecond)
	_, err = conn.ExecContext(ctx, recordSQL, req.Key, req.Fingerprint, req.Job, req.Target,
		timeText(req.ScheduledAt), nullTime(req.WindowFrom), nullTime(req.WindowTo), req.Attempt, res.Rows, timeText(res.FinishedAt))
	if err != nil {
		return checkpoint.OnceResult{}, db.fault(ctx, "record the result", err)
	}
	return res, nil
}

func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return timeText(t)
}

// found is the result under the key, if there is one.
func found(ctx context.Context, conn *sql.Conn, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	var res checkpoint.OnceResult
	var fingerprint, finished string
	err := conn.QueryRowContext(ctx, foundSQL, req.Key).Scan(&fingerprint, &res.Rows, &res.Attempt, &finished)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return res, nil
	case err != nil:
		return res, fault(ctx, "read the result", err)
	case fingerprint != req.Fingerprint:
		return res, &checkpoint.Error{Op: "claim the run's key", Text: checkpoint.ErrConflict.Error(), Err: checkpoint.ErrConflict}
	}
	res.Found = true
	if res.FinishedAt, err = time.Parse(timeFormat, finished); err != nil {
		return res, &checkpoint.Error{Op: "read the result", Text: "finished_at is not a time"}
	}
	return res, nil
}

// runCommand runs one command, and returns how many rows it changed itself:
// changes() speaks of the latest command that changed any.
func runCommand(ctx context.Context, conn *sql.Conn, command checkpoint.Command, req checkpoint.OnceRequest) (int64, error) {
	const total = `SELECT total_changes()`
	var before, after int64
	if err := conn.QueryRowContext(ctx, total).Scan(&before); err != nil {
		return 0, err
	}
	result, err := conn.ExecContext(ctx, command.Text(), parameters(req)...)
	if err != nil {
		return 0, err
	}
	if err := conn.QueryRowContext(ctx, total).Scan(&after); err != nil || after == before {
		return 0, err
	}
	return result.RowsAffected()
}

// parameters are all that a command may name. Times are text, as datetime()
// writes them, and compare with what that wrote.
func parameters(req checkpoint.OnceRequest) []any {
	return []any{
		sql.Named(checkpoint.ParamFrom, nullTime(req.WindowFrom)),
		sql.Named(checkpoint.ParamTo, nullTime(req.WindowTo)),
		sql.Named(checkpoint.ParamKey, req.Key),
		sql.Named(checkpoint.ParamJob, req.Job),
		sql.Named(checkpoint.ParamTarget, req.Target),
		sql.Named(checkpoint.ParamScheduledAt, nullTime(req.ScheduledAt)),
		sql.Named(checkpoint.ParamAttempt, req.Attempt),
	}
}

// commit is not stopped half-way. After an error the file is asked what came of
// it (checkpoint.md, rule 3).
func (db *DB) commit(ctx context.Context, conn *sql.Conn, req checkpoint.OnceRequest, res checkpoint.OnceResult) (checkpoint.OnceResult, error) {
	if ctx.Err() != nil {
		rollback(ctx, conn)
		return checkpoint.OnceResult{}, db.fault(ctx, "commit", ctx.Err())
	}
	calm := context.WithoutCancel(ctx)
	_, err := conn.ExecContext(calm, `COMMIT`)
	if err == nil {
		return res, nil
	}
	failed := db.fault(calm, "commit", err)
	rollback(ctx, conn)
	if now, err := found(calm, conn, req); err == nil && now.Found {
		return now, nil
	}
	return checkpoint.OnceResult{}, failed
}
