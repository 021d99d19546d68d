// Package postgres keeps Tidemark's store in a PostgreSQL database.
//
// It relies on no state of a session (no SET, no advisory locks), so a
// transaction-mode pooler may stand in between; only Watch does not hear there,
// and polling serves. Tables live in the schema that the connection's
// search_path names.
package postgres

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Options tune a store. The zero value suits a daemon.
type Options struct {
	Timeout  time.Duration // bounds every call; 0: 15s
	MaxConns int32         // unless the URL has pool_max_conns; 0: 8
}

// Store implements jobstore.Store.
type Store struct {
	pool    *pgxpool.Pool
	timeout time.Duration
}

var _ jobstore.Store = (*Store)(nil)

const (
	defaultTimeout = 15 * time.Second
	defaultConns   = 8
	connectTimeout = 5 * time.Second
	pingTimeout    = 2 * time.Second
	closeTimeout   = 5 * time.Second
	maxTries       = 10 // of a transaction that the database asks to repeat
)

// Open makes a store of the database at url. It does not connect: Check tells
// whether the database can be reached. The URL takes what libpq and pgxpool
// take, such as search_path, target_session_attrs and pool_max_conns.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.MaxConns == 0 {
		opts.MaxConns = defaultConns
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = opts.MaxConns
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		// No named statement outlives a transaction: a transaction-mode pooler
		// may change the server below us. Plans fit the sizes of the arrays.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if !strings.Contains(url, "connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "tidemark"
	}
	// A connection that a firewall has dropped is found dead within half a
	// minute while idle, and within pingTimeout when it is wanted sooner.
	dialer := net.Dialer{
		Timeout:         config.ConnConfig.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	config.ConnConfig.DialFunc = dialer.DialContext
	config.PingTimeout = pingTimeout
	config.HealthCheckPeriod = 30 * time.Second
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &Store{pool: pool, timeout: opts.Timeout}, nil
}

// Close waits for calls in flight and closes all connections. Those to a server
// that says nothing take the driver a quarter of a minute to give up: it leaves
// them to it after closeTimeout.
func (s *Store) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
	return nil
}
