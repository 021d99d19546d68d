package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkd/tidemark/jobstore"
)

// unreachable marks an error that came with the loss of the connection.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// wrap says what was tried, and translates.
func wrap(ctx context.Context, what string, err error) error {
	return fmt.Errorf("%s: %w", what, translate(ctx, err))
}

// repeatable reports whether the same transaction may succeed when it is run
// again at once: serialization failure, deadlock, or nothing was sent at all.
func repeatable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	if errors.Is(err, errChanged) {
		return true
	}
	var connect *pgconn.ConnectError
	return pgconn.SafeToRetry(err) && !errors.As(err, &connect) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// taken reports whether a run of that key exists.
func taken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" && pg.ConstraintName == "tidemark_runs_key"
}

// translate turns a driver's error into one of jobstore's, by code. ctx is the
// caller's: its own end is not the store's fault.
func translate(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if kind := kindOf(pg.Code); kind != nil {
			return fmt.Errorf("%w: %w", kind, err)
		}
		return err
	}
	var lost unreachable
	var network net.Error
	switch {
	case errors.As(err, &lost), errors.As(err, &network), pgconn.Timeout(err), pgconn.SafeToRetry(err),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", jobstore.ErrUnavailable, err)
	}
	return err
}

// kindOf says what an SQLSTATE means to a caller; nil: a bug of ours.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func kindOf(code string) error {
	switch code {
	case "3D000", "3F000": // no such database, no such schema
		return jobstore.ErrNoStore
	case "42P01", "42703", "42P10": // no such table, no such column, no unique index for ON CONFLICT
		return jobstore.ErrDamaged
	case "25006", "55P03": // read-only: a standby after a failover; lock not available
		return jobstore.ErrUnavailable
	case "23505":
		return jobstore.ErrConflict
	}
	switch code[:2] {
	case "08", "28", "40", "53", "57", "58": // connection, authorization, rollback, resources, intervention, system
		return jobstore.ErrUnavailable
	case "XX": // internal error: data or index corrupted
		return jobstore.ErrDamaged
	}
	return nil
}
