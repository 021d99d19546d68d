package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"time"
)

// writer is the one connection that writes, with its prepared statements. Who
// holds turn has it.
type writer struct {
	db    *sql.DB
	turn  chan struct{}
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func newWriter(dsn string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return &writer{db: db, turn: make(chan struct{}, 1)}, nil
}

// take waits for the connection.
func (w *writer) take(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := ctx.Err()
	if err == nil && w.conn == nil {
		if w.conn, err = w.db.Conn(ctx); err == nil {
			w.stmts = map[string]*sql.Stmt{}
			_, err = w.conn.ExecContext(ctx, "PRAGMA busy_timeout = 5") // see Store.begin
		}
	}
	if err != nil {
		<-w.turn
	}
	return err
}

func (w *writer) give() { <-w.turn }

// release lets go of the connection, prepared statements first.
func (w *writer) release() error {
	if w.conn == nil {
		return nil
	}
	errs := w.closeStmts()
	errs = append(errs, w.conn.Close())
	w.conn = nil
	return errors.Join(errs...)
}

func (w *writer) closeStmts() (errs []error) {
	for _, stmt := range w.stmts {
		errs = append(errs, stmt.Close())
	}
	w.stmts = nil
	return errs
}

// discard closes the connection for good.
func (w *writer) discard() {
	w.closeStmts()
	_ = w.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = w.conn.Close()
	w.conn = nil
}

func (w *writer) close() error {
	w.turn <- struct{}{}
	defer w.give()
	return errors.Join(w.release(), w.db.Close())
}

// tx is a transaction. Its statements end with it, so a caller's context that
// ends is seen before a statement, or at once where one may take long (run).
type tx struct {
	caller context.Context
	run    context.Context
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt // nil: none are kept
	now    time.Time            // the store's clock when the transaction had its lock
}

// write runs fn in a transaction that has the file's write lock. Statements in
// it are not interruptible one by one: a watcher per statement would cost more
// than the statement, and fn is bounded.
func (s *Store) write(ctx context.Context, fn func(*tx) error) error {
	if err := s.writer.take(ctx); err != nil {
		return err
	}
	defer s.writer.give()
	w := s.writer
	t := &tx{caller: ctx, run: context.WithoutCancel(ctx), conn: w.conn, stmts: w.stmts}
	if err := s.begin(ctx); err != nil {
		return err
	}
	t.now = now()
	err := fn(t)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		_, err = t.exec("COMMIT")
	}
	if err != nil {
		s.undo()
	}
	return err
}

// begin waits for the file's lock, up to the Store's patience. It asks every
// few milliseconds: SQLite's own waiting slows down to ten times a second, and
// then another process that writes without a pause is rarely met between two of
// its transactions.
func (s *Store) begin(ctx context.Context) error {
	for began := time.Now(); ; {
		_, err := s.writer.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			s.undo() // the caller's end may have crossed a beginning that worked
			return err
		}
		if !busy(err) || time.Since(began) >= s.patience {
			return err
		}
	}
}

// undo rolls back. Where that fails SQLite has mostly done so itself; to be
// sure, a new connection takes the place of this one, except in memory, where
// it is the store.
func (s *Store) undo() {
	_, err := s.writer.conn.ExecContext(context.Background(), "ROLLBACK")
	if err != nil && s.reader != nil {
		s.writer.discard()
	}
}

// read runs fn on one state of the store, beside the writer.
func (s *Store) read(ctx context.Context, fn func(*tx) error) (err error) {
	var conn *sql.Conn
	if s.reader == nil {
		if err := s.writer.take(ctx); err != nil {
			return err
		}
		defer s.writer.give()
		conn = s.writer.conn
	} else {
		if conn, err = s.reader.Conn(ctx); err != nil {
			return err
		}
		defer conn.Close()
	}
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return err
	}
	err = fn(&tx{caller: ctx, run: ctx, conn: conn, now: now()})
	if _, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err == nil {
		err = e
	}
	return err
}

func (t *tx) stmt(query string) (*sql.Stmt, error) {
	if stmt := t.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := t.conn.PrepareContext(t.run, query)
	if err == nil {
		t.stmts[query] = stmt
	}
	return stmt, err
}

func (t *tx) exec(query string, args ...any) (sql.Result, error) {
	if err := t.caller.Err(); err != nil {
		return nil, err
	}
	if t.stmts == nil {
		return t.conn.ExecContext(t.run, query, args...)
	}
	stmt, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(t.run, args...)
}

func (t *tx) query(query string, args ...any) (*sql.Rows, error) {
	if err := t.caller.Err(); err != nil {
		return nil, err
	}
	if t.stmts == nil {
		return t.conn.QueryContext(t.run, query, args...)
	}
	stmt, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(t.run, args...)
}

func (t *tx) queryRow(query string, args ...any) *row {
	rows, err := t.query(query, args...)
	return &row{rows, err}
}

// row is the first row of an answer.
type row struct {
	rows *sql.Rows
	err  error
}

func (r *row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	return r.rows.Close()
}

// collect reads all rows of an answer.
func collect[T any](scan func(*sql.Rows, *T) error) func(*sql.Rows, error) ([]T, error) {
	return func(rows *sql.Rows, err error) (out []T, _ error) {
		err = each(rows, err, func(rows *sql.Rows) error {
			var zero T
			out = append(out, zero)
			return scan(rows, &out[len(out)-1])
		})
		return out, err
	}
}

// each has every row of an answer scanned.
func each(rows *sql.Rows, err error, scan func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
