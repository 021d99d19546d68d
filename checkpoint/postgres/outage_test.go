package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/checkpoint"
	"github.com/tidemarkd/tidemark/checkpoint/databasetest"
	"github.com/tidemarkd/tidemark/checkpoint/postgres"
	"github.com/tidemarkd/tidemark/internal/pgtest"
)

func TestADatabaseThatIsDownIsOpenedAllTheSame(t *testing.T) {
	server := pgtest.NewServer(t, "fsync=off")
	db := open(t, server.URL())
	server.Stop()
	for _, err := range []error{db.Migrate(t.Context()), once(t, db)} {
		var fault *checkpoint.Error
		if !errors.As(err, &fault) || !fault.Transient || err.Error() != "connect: connection refused" {
			t.Errorf("%+v", err)
		}
	}
	server.Start()
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := once(t, db); err != nil {
		t.Error(err)
	}
	// No connection of before is in the way.
	server.Kill()
	server.Start()
	if err := once(t, db); err != nil {
		t.Error(err)
	}
}

func once(t *testing.T, db checkpoint.Database) error {
	_, err := db.Once(t.Context(), databasetest.Request(t, "k", `SELECT 1`))
	return err
}

func TestNothingOfTheAddressIsTold(t *testing.T) {
	db, _, address := migrated(t)
	_ = db
	good, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	const canary = "s3cr3t-canary"
	for name, bad := range map[string]string{
		"user and password": "postgres://" + canary + ":" + canary + "@" + good.Host + good.Path,
		"database":          "postgres://" + good.User.String() + "@" + good.Host + "/" + canary,
		"host":              "postgres://u:" + canary + "@" + canary + ".invalid/db",
		"port":              "postgres://u:" + canary + "@127.0.0.1:1/" + canary,
		"TLS":               "postgres://u:" + canary + "@" + good.Host + "/" + canary + "?sslmode=require",
	} {
		err := once(t, open(t, bad))
		if err == nil || strings.Contains(err.Error(), canary) || !strings.HasPrefix(err.Error(), "connect: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"postgres://u:" + canary + "@h:port/db", "postgres://h/db?sslmode=" + canary, "host=h password='" + canary, "mysql://" + canary} {
		if _, err := postgres.Open(bad, 1); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// proxy stands between a client and the server and cuts connections in COMMIT.
type proxy struct {
	url     string
	deliver atomic.Bool // the server gets the COMMIT that it cuts
	cuts    atomic.Int64
	down    atomic.Bool // no further connection gets through
}

func newProxy(t *testing.T, address string) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	server := u.Host
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	p.url = u.String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if p.down.Load() {
				client.Close()
				continue
			}
			wg.Go(func() { p.serve(client, server) })
		}
	})
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	return p
}

func (p *proxy) serve(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || cut.Load() { // the answer to the COMMIT is lost
				return
			}
			client.Write(buf[:n])
		}
	})
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("commit\x00")) && p.cuts.Add(-1) >= 0 {
			cut.Store(true)
			if p.deliver.Load() {
				server.Write(buf[:n])
				io.Copy(io.Discard, io.LimitReader(client, 1)) // until the client gives up; its end is cut below
			}
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// checkpoint.md, rule 3: after an error in COMMIT the database is asked.
func TestALostAnswerToCommitIsFoundOut(t *testing.T) {
	_, f, address := migrated(t)
	p := newProxy(t, address)
	through := open(t, p.url)

	p.deliver.Store(true)
	p.cuts.Store(1)
	res, err := through.Once(t.Context(), databasetest.Request(t, "delivered", insert))
	if err != nil || !res.Found || res.Rows != 1 {
		t.Errorf("committed: %+v, %v", res, err)
	}

	p.deliver.Store(false)
	p.cuts.Store(1)
	res, err = through.Once(t.Context(), databasetest.Request(t, "lost", insert))
	var fault *checkpoint.Error
	if !errors.As(err, &fault) || !fault.Transient || err.Error() != "commit: the connection was lost before the commit: rolled back" {
		t.Errorf("not committed: %+v, %v", res, err)
	}
	if res, err = through.Once(t.Context(), databasetest.Request(t, "lost", insert)); err != nil || res.Found {
		t.Errorf("the next attempt: %+v, %v", res, err)
	}
	want(t, f, `SELECT string_agg(id, ' ' ORDER BY id) FROM effects`, "delivered lost")
}

func TestManyLostConnectionsNeverDoubleOrLoseWork(t *testing.T) {
	_, f, address := migrated(t)
	p := newProxy(t, address)
	db := open(t, p.url)
	for i := range 20 {
		p.deliver.Store(i%2 == 0)
		p.cuts.Store(int64(i % 3))
		for attempt := 1; ; attempt++ {
			req := databasetest.Request(t, fmt.Sprintf("k%02d", i), insert)
			req.Attempt = attempt
			_, err := db.Once(context.Background(), req)
			if err == nil {
				break
			}
			var fault *checkpoint.Error
			if !errors.As(err, &fault) || !fault.Transient || attempt > 5 {
				t.Fatal(err)
			}
		}
	}
	want(t, f, `SELECT count(*) || ' ' || count(DISTINCT id) FROM effects`, "20 20")
}

func TestACommitIsNotStoppedHalfWay(t *testing.T) {
	_, f, address := migrated(t)
	p := newProxy(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	p.deliver.Store(true)
	p.cuts.Store(1)
	// The context ends while the answer to COMMIT is outstanding.
	res, err := open(t, p.url).Once(ctx, databasetest.Request(t, "k", insert))
	if err != nil || !res.Found {
		t.Errorf("%+v, %v", res, err)
	}
	want(t, f, `SELECT count(*) FROM effects`, "1")
}
