package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkd/tidemark/jobstore"
)

// txn is a transaction whose statements travel in pipelines: BEGIN goes along
// with the first, COMMIT with the last, so that it costs as many round trips as
// it has points at which Go must know something.
type txn struct {
	conn  *pgx.Conn
	begun bool
	ended bool
}

// What the loops do goes by indexes, whatever the planner makes of the sizes of
// arrays and of statistics that are out of date, and is never worth compiling.
// Ends with the transaction.
const byIndex = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

// pipeline is an empty batch of the transaction.
func (t *txn) pipeline() *pgx.Batch {
	b := &pgx.Batch{}
	if !t.begun {
		b.Queue("BEGIN")
		b.Queue(byIndex)
	}
	return b
}

// send runs the batch and its callbacks.
func (t *txn) send(ctx context.Context, b *pgx.Batch) error {
	t.begun = true
	return t.conn.SendBatch(ctx, b).Close()
}

// commit runs the batch and commits with it: its callbacks cannot stop that.
func (t *txn) commit(ctx context.Context, b *pgx.Batch) error {
	b.Queue("COMMIT")
	err := t.send(ctx, b)
	t.ended = err == nil
	return err
}

// transact runs fn in a transaction, which fn commits: one that it leaves open
// is rolled back. It is run again where the database asks for that, and where a
// dead connection was noticed before anything was sent.
func (s *Store) transact(ctx context.Context, what string, fn func(ctx context.Context, t *txn) error) error {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for try := 1; ; try++ {
		err := s.attempt(call, fn)
		if err == nil {
			return nil
		}
		if try == maxTries || !repeatable(err) || !pause(call, try) {
			return wrap(ctx, what, err)
		}
	}
}

// pause waits a random moment, so that those who collided do not meet again. It
// reports whether ctx still goes on.
func pause(ctx context.Context, try int) bool {
	timer := time.NewTimer(rand.N(time.Duration(try) * 10 * time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (s *Store) attempt(ctx context.Context, fn func(context.Context, *txn) error) (err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return unreachable{err}
	}
	defer conn.Release()
	t := &txn{conn: conn.Conn()}
	defer func() {
		err = t.leave(ctx, err)
	}()
	return fn(ctx, t)
}

// leave ends what fn left open, and closes a connection that is of no more use:
// the pool then makes a new one, to the new primary after a failover.
func (t *txn) leave(ctx context.Context, err error) error {
	if t.begun && !t.ended && !t.conn.IsClosed() {
		rollback, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		defer cancel()
		if _, rerr := t.conn.Exec(rollback, "ROLLBACK"); rerr != nil {
			t.conn.Close(rollback)
		}
	}
	if err == nil {
		return nil
	}
	if !t.conn.IsClosed() {
		if errors.Is(translate(ctx, err), jobstore.ErrUnavailable) && !repeatable(err) {
			t.conn.Close(ctx)
		}
		return err
	}
	return unreachable{err}
}

// run sends statements that need nothing decided in between, in one round trip and
// one transaction.
func (s *Store) run(ctx context.Context, what string, b *pgx.Batch) error {
	return s.transact(ctx, what, func(ctx context.Context, t *txn) error {
		again := &pgx.Batch{} // what was sent once belongs to its connection
		for _, q := range b.QueuedQueries {
			again.Queue(q.SQL, q.Arguments...).Fn = q.Fn
		}
		return t.conn.SendBatch(ctx, again).Close()
	})
}

const selectNow = `SELECT now()`

// queueNow asks for the store's clock: the moment that the transaction began.
func queueNow(b *pgx.Batch, now *time.Time) {
	b.Queue(selectNow).QueryRow(func(row pgx.Row) error {
		return row.Scan((*instant)(now))
	})
}

// notify wakes the other processes that Watch. To be used where something is
// left for them: commits that notify wait for each other.
const notify = `SELECT pg_notify('tidemark_wake', '')`

// queueExec counts the rows that a statement changes.
func queueExec(b *pgx.Batch, changed *int64, sql string, args ...any) {
	b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		*changed = tag.RowsAffected()
		return nil
	})
}
