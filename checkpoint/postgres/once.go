package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// settleTime is for how long, after a connection was lost in COMMIT, the
// database is asked what came of it.
const (
	settleTime  = 30 * time.Second
	settlePause = 200 * time.Millisecond
)

// Once implements checkpoint.Database. Who comes second with a key waits at its
// row until the first has ended, and then either finds it or takes its place.
func (db *DB) Once(ctx context.Context, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	conn, release, err := db.connect(ctx, req.Notice)
	if err != nil {
		return checkpoint.OnceResult{}, err
	}
	res, lost, err := once(ctx, conn, req)
	release()
	if lost {
		return db.settle(ctx, req)
	}
	return res, err
}

// guardSQL ends the transaction of a worker that froze between two statements:
// it holds the row of its key, which the next attempt waits for. And it puts
// Tidemark's schema last in search_path, where it comes first if the user is
// called tidemark too ("$user"): what the statement creates belongs elsewhere.
const guardSQL = `
SELECT set_config('idle_in_transaction_session_timeout', '60s', true),
	CASE WHEN current_schema() = 'tidemark' THEN set_config('search_path',
		(SELECT string_agg(quote_ident(name), ', ' ORDER BY name = 'tidemark', place)
		 FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (name, place)), true) END`

// once runs the statement under its key. lost: the connection broke in COMMIT.
func once(ctx context.Context, conn *pgx.Conn, req checkpoint.OnceRequest) (res checkpoint.OnceResult, lost bool, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return res, false, ownFault(ctx, "begin", err)
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
		defer cancel()
		_ = tx.Rollback(bounded) // does nothing after COMMIT; else the connection is closed next
	}()
	if _, err := tx.Exec(ctx, guardSQL); err != nil {
		return res, false, ownFault(ctx, "begin", err)
	}
	mine, err := claim(ctx, tx, req)
	if err != nil {
		return res, false, err
	}
	if !mine {
		res, err = found(ctx, tx, req)
		return res, false, err
	}
	for _, command := range req.Statement.Commands {
		tag, err := runCommand(ctx, tx, command, req)
		if err != nil {
			return res, false, statementFault(ctx, err)
		}
		if !tag.Select() {
			res.Rows += tag.RowsAffected()
		}
	}
	res.Attempt = req.Attempt
	if err := tx.QueryRow(ctx, finishSQL, req.Key, res.Rows).Scan(&res.FinishedAt); err != nil {
		return res, false, ownFault(ctx, "record the result", err)
	}
	res.FinishedAt = res.FinishedAt.UTC()
	return commit(ctx, tx, res)
}

// commit is not stopped half-way: with a context that ended meanwhile nobody
// would know what came of it.
func commit(ctx context.Context, tx pgx.Tx, res checkpoint.OnceResult) (checkpoint.OnceResult, bool, error) {
	if ctx.Err() != nil {
		return res, false, statementFault(ctx, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	err := tx.Commit(bounded)
	if err == nil {
		return res, false, nil
	}
	fault := statementFault(ctx, err)
	fault.Op = "commit"
	var answer *pgconn.PgError
	refused := errors.As(err, &answer) && !fatal(answer) || errors.Is(err, pgx.ErrTxCommitRollback)
	return res, !refused, fault
}

const claimSQL = `
INSERT INTO tidemark.sql_runs (key, fingerprint, job, target, scheduled_at, window_from, window_to, attempt)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (key) DO NOTHING`

// claim takes the key, after whoever else is about to has ended.
func claim(ctx context.Context, tx pgx.Tx, req checkpoint.OnceRequest) (bool, error) {
	tag, err := tx.Exec(ctx, claimSQL, req.Key, req.Fingerprint, req.Job, req.Target,
		req.ScheduledAt.UTC(), nullTime(req.WindowFrom), nullTime(req.WindowTo), req.Attempt)
	if err != nil {
		return false, ownFault(ctx, "claim the run's key", err)
	}
	return tag.RowsAffected() == 1, nil
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

const foundSQL = `SELECT fingerprint, rows_affected, attempt, finished_at FROM tidemark.sql_runs WHERE key = $1`

const finishSQL = `
UPDATE tidemark.sql_runs SET rows_affected = $2, finished_at = clock_timestamp()
WHERE key = $1
RETURNING finished_at`

// found is the result that stands under the key.
func found(ctx context.Context, tx pgx.Tx, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	res := checkpoint.OnceResult{Found: true}
	var fingerprint string
	err := tx.QueryRow(ctx, foundSQL, req.Key).Scan(&fingerprint, &res.Rows, &res.Attempt, &res.FinishedAt)
	if err != nil {
		return checkpoint.OnceResult{}, ownFault(ctx, "read the result", err)
	}
	res.FinishedAt = res.FinishedAt.UTC()
	if fingerprint != req.Fingerprint {
		return checkpoint.OnceResult{}, &checkpoint.Error{Op: "claim the run's key", Text: checkpoint.ErrConflict.Error(), Err: checkpoint.ErrConflict}
	}
	return res, nil
}

// runCommand runs one command with those parameters that it names, numbered by
// first use: the server refuses a number that does not occur.
func runCommand(ctx context.Context, tx pgx.Tx, command checkpoint.Command, req checkpoint.OnceRequest) (pgconn.CommandTag, error) {
	var names []string
	var args []any
	text := command.Rewrite(func(name string) string {
		i := slices.Index(names, name)
		value, cast := parameter(name, req)
		if i < 0 {
			i = len(names)
			names, args = append(names, name), append(args, value)
		}
		return fmt.Sprintf("$%d%s", i+1, cast)
	})
	return tx.Exec(ctx, text, args...)
}

// parameter is the value of a parameter and, for times and numbers, its type:
// `@from - interval '1h'` has no other clue. Texts take the type that the
// statement wants, so that a target may be compared with a number or a uuid.
func parameter(name string, req checkpoint.OnceRequest) (value any, cast string) {
	switch name {
	case checkpoint.ParamFrom:
		return req.WindowFrom.UTC(), "::timestamptz"
	case checkpoint.ParamTo:
		return req.WindowTo.UTC(), "::timestamptz"
	case checkpoint.ParamScheduledAt:
		return req.ScheduledAt.UTC(), "::timestamptz"
	case checkpoint.ParamAttempt:
		return req.Attempt, "::integer"
	case checkpoint.ParamKey:
		return req.Key, ""
	case checkpoint.ParamJob:
		return req.Job, ""
	}
	return req.Target, ""
}

// settle finds out what a COMMIT came to whose answer was lost (checkpoint.md,
// rule 3): by taking the key, which waits for the transaction in question if it
// should be under way still. Who gets it knows that nothing was committed.
func (db *DB) settle(ctx context.Context, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	for {
		res, err := db.ask(bounded, req)
		var fault *checkpoint.Error
		if err == nil || !errors.As(err, &fault) || !fault.Transient {
			if err == nil && !res.Found {
				return res, &checkpoint.Error{Op: "commit", Text: "the connection was lost before the commit: rolled back", Transient: true}
			}
			return res, err
		}
		select {
		case <-time.After(settlePause):
		case <-bounded.Done():
			return checkpoint.OnceResult{}, &checkpoint.Error{
				Op: "commit", Text: "the connection was lost, and " + checkpoint.ErrOutcomeUnknown.Error() + ": the next attempt finds out",
				Transient: true, Err: checkpoint.ErrOutcomeUnknown,
			}
		}
	}
}

// ask reads the result under the key; not Found: there is none, nor can one
// appear any more from an earlier transaction.
func (db *DB) ask(ctx context.Context, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	conn, release, err := db.connect(ctx, nil)
	if err != nil {
		return checkpoint.OnceResult{}, err
	}
	defer release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return checkpoint.OnceResult{}, ownFault(ctx, "begin", err)
	}
	mine, err := claim(ctx, tx, req)
	if err != nil || mine {
		return checkpoint.OnceResult{}, err // rolled back as the connection closes
	}
	return found(ctx, tx, req)
}
