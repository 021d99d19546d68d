//go:build unix

// Package pgtest gives tests a real PostgreSQL.
//
// [NewDatabase] hands out empty databases of one server: that of the
// environment variable TIDEMARK_TEST_POSTGRES where it is set (the test script
// starts one for a whole run), otherwise one that this test binary starts on
// first use. [NewServer] starts a private server, which a test may stop, kill
// and start again.
//
// A server runs from installed binaries, in a temporary directory, on a free
// loopback port, and with fsync on: what a benchmark or a crash test measures
// is durable. It accepts everyone who can reach the loopback address, and it
// never outlives the process that started it, however that process ends.
//
// Where PostgreSQL is missing a test fails and says how to get it. Nothing is
// skipped.
package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// EnvURL names the environment variable that holds the URL of a running server.
// Its user must be allowed to create and drop databases.
const EnvURL = "TIDEMARK_TEST_POSTGRES"

// timeout bounds every single thing that is asked of a server.
const timeout = 60 * time.Second

// shared is the server behind NewDatabase. It is package state because it has to
// outlive every test that uses it, and a testing.TB is all that those tests have.
var shared = sync.OnceValues(func() (server, error) {
	if u := os.Getenv(EnvURL); u != "" {
		return server{url: u}, nil
	}
	c, err := newCluster("", nil)
	if err != nil {
		return server{}, err
	}
	return server{url: c.url(), cluster: c}, nil
})

// server is somebody else's or, with a cluster, this process's own: one that is
// no longer referenced would be taken down by its guard.
type server struct {
	url     string
	cluster *cluster
}

// NewDatabase creates an empty database and returns its URL. The database is
// dropped when the test ends, open connections notwithstanding.
func NewDatabase(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("start a PostgreSQL server: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := execute(s.url, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create a test database: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(s.url, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatalf("parse %s: %v", EnvURL, err)
	}
	u.Path = "/" + name
	return u.String()
}

// execute runs one statement on a connection of its own.
func execute(serverURL, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, serverURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Server is a private PostgreSQL server of one test. Its methods fail the test
// where they do not succeed, so they belong on the test's own goroutine.
type Server struct {
	t       testing.TB
	cluster *cluster
}

// NewServer starts a private server, and removes it when the test ends. Settings
// are those of postgresql.conf, such as "fsync=off" or "max_connections=10".
func NewServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	c, err := newCluster("", settings)
	if err != nil {
		t.Fatalf("start a PostgreSQL server: %v", err)
	}
	t.Cleanup(c.remove)
	return &Server{t: t, cluster: c}
}

// URL is the address of the server's empty default database. It stays the same
// across restarts.
func (s *Server) URL() string { return s.cluster.url() }

// Stop shuts the server down in order: sessions are disconnected, transactions
// rolled back. It returns when the server is gone.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.cluster.stop(); err != nil {
		s.t.Fatalf("stop PostgreSQL: %v", err)
	}
}

// Kill ends every process of the server at once, as a crash of its machine
// would, but for what the operating system has cached. It returns when they are
// gone.
func (s *Server) Kill() {
	s.t.Helper()
	if err := s.cluster.kill(); err != nil {
		s.t.Fatalf("kill PostgreSQL: %v", err)
	}
}

// Start brings a stopped or killed server back at its old address. It returns
// when the server accepts connections, after crash recovery where needed.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.cluster.start(); err != nil {
		s.t.Fatalf("start PostgreSQL: %v", err)
	}
}

// Terminate cuts all other connections, as a failover or an administrator does.
func (s *Server) Terminate() {
	s.t.Helper()
	err := execute(s.URL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	if err != nil {
		s.t.Fatal(err)
	}
}

// Run calls fn with the URL of a server that lives until fn returns. Its files
// are in dir, or where temporary files are if dir is empty. It serves programs;
// tests use NewDatabase.
func Run(dir string, fn func(serverURL string) error) error {
	c, err := newCluster(dir, nil)
	if err != nil {
		return err
	}
	defer c.remove()
	return fn(c.url())
}
