// Package postgres keeps checkpoints in a PostgreSQL database, in its schema
// tidemark.
package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/tidemarkd/tidemark/checkpoint"
)

const (
	defaultConns   = 8
	connectTimeout = 30 * time.Second
	// cancelWait is how long the server may take to answer a cancel request.
	cancelWait = 10 * time.Second
)

// DB implements checkpoint.Database. It keeps no connection while nothing runs:
// so no idle one is found dead when it is needed, and none carries what a
// statement has SET to the next.
type DB struct {
	config *pgx.ConnConfig
	slots  chan struct{}
}

// Open prepares to work in the database at the URL, with at most maxConns
// connections at once (0: 8). It does no I/O. Sessions are in UTC, unless the
// URL says `timezone=…`.
func Open(url string, maxConns int) (*DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The parser's own error quotes parts of what may be a secret.
		return nil, &checkpoint.Error{Op: "open the database", Text: "the address is not a well-formed postgres:// URL"}
	}
	if maxConns <= 0 {
		maxConns = defaultConns
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	preset(config.RuntimeParams, "timezone", "UTC")
	preset(config.RuntimeParams, "application_name", "tidemark")
	config.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4,
	}}).DialContext
	// Nothing is prepared under a name: a pooler in transaction mode is a
	// supported path.
	config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelWait}
	}
	return &DB{config: config, slots: make(chan struct{}, maxConns)}, nil
}

// preset sets a parameter of the session that the URL leaves open.
func preset(params map[string]string, name, value string) {
	for known := range params {
		if strings.EqualFold(known, name) {
			return
		}
	}
	params[name] = value
}

// Close returns nil: there is nothing to close.
func (db *DB) Close() error { return nil }

// connect opens a connection when one of the slots is free. release closes it.
func (db *DB) connect(ctx context.Context, notice func(string)) (conn *pgx.Conn, release func(), err error) {
	select {
	case db.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, &checkpoint.Error{Op: "connect", Text: "all connections of this database are in use", Transient: true, Err: ctx.Err()}
	}
	config := db.config.Copy()
	if notice != nil {
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notice(n.Severity + ": " + n.Message) }
	}
	conn, err = pgx.ConnectConfig(ctx, config)
	if err != nil {
		<-db.slots
		return nil, nil, connectFault(ctx, err)
	}
	return conn, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
		defer cancel()
		_ = conn.Close(bounded) // the server sees it end in any case
		<-db.slots
	}, nil
}

const pruneBatch = 1000

// Prune implements checkpoint.Database: at most one bounded batch.
func (db *DB) Prune(ctx context.Context, before time.Time) (int64, error) {
	conn, release, err := db.connect(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer release()
	tag, err := conn.Exec(ctx, pruneSQL, before.UTC(), pruneBatch)
	if err != nil {
		return 0, ownFault(ctx, "forget old keys", err)
	}
	return tag.RowsAffected(), nil
}

const pruneSQL = `
DELETE FROM tidemark.sql_runs
WHERE key IN (SELECT key FROM tidemark.sql_runs WHERE finished_at < $1 ORDER BY finished_at LIMIT $2)`

// connectFault translates an error of connecting. It never repeats the
// server's or the driver's text: that names host, user and database, which may
// all be secrets of the config file.
func connectFault(ctx context.Context, err error) error {
	fault := &checkpoint.Error{Op: "connect", Transient: true}
	var answer *pgconn.PgError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		fault.Text, fault.Err = "stopped while connecting", ctx.Err()
	case errors.As(err, &answer):
		fault.Code, fault.Transient = "SQLSTATE "+answer.Code, transient(answer.Code)
		fault.Text = connectText(answer.Code)
	case errors.As(err, &dns) && dns.IsNotFound:
		fault.Text = "no such host"
	case pgconn.Timeout(err):
		fault.Text = "timed out"
	case errors.As(err, &op) && op.Op == "dial":
		fault.Text = systemText(op, "the server cannot be reached")
	default:
		fault.Text = systemText(err, "the server does not accept the connection (address, TLS or authentication method)")
	}
	return fault
}
