package postgres

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler stands between a store and its server as a pooler in transaction mode
// does: after each transaction a client finds itself on another session. It can
// also lose what the server says.
type pooler struct {
	t      testing.TB
	server string      // URL
	url    string      // of the pooler
	lose   atomic.Bool // the answer to the next COMMIT, and the connection
	mute   atomic.Bool // all answers
	work   sync.WaitGroup
	ctx    context.Context
}

func newPooler(t testing.TB, server string) *pooler {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pooler{t: t, server: server, url: u.String(), ctx: ctx}
	p.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() {
				stop := context.AfterFunc(ctx, func() { conn.Close() })
				defer stop()
				defer conn.Close()
				p.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		p.work.Wait()
	})
	return p
}

func (p *pooler) serve(conn net.Conn) error {
	client := pgproto3.NewBackend(conn, conn)
	for {
		msg, err := client.ReceiveStartupMessage()
		if err != nil {
			return err
		}
		if _, ok := msg.(*pgproto3.CancelRequest); ok {
			return nil
		}
		if _, ok := msg.(*pgproto3.StartupMessage); ok {
			break
		}
		if _, err := conn.Write([]byte("N")); err != nil { // no TLS
			return err
		}
	}
	var sessions [2]*pgconn.HijackedConn
	for i := range sessions {
		c, err := pgconn.Connect(p.ctx, p.server)
		if err != nil {
			return err
		}
		if sessions[i], err = c.Hijack(); err != nil {
			return err
		}
		defer sessions[i].Conn.Close()
	}
	client.Send(&pgproto3.AuthenticationOk{})
	for name, value := range sessions[0].ParameterStatuses {
		client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	client.Send(&pgproto3.BackendKeyData{SecretKey: []byte{0, 0, 0, 0}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	for at := 0; ; {
		commits, err := forward(client, sessions[at].Frontend)
		if err != nil {
			return err
		}
		status, err := p.answer(sessions[at].Frontend, client, commits && p.lose.Swap(false))
		if err != nil {
			return err
		}
		if status == 'I' {
			at = 1 - at
		}
	}
}

// forward passes on what the client says, to the point where it waits.
func forward(client *pgproto3.Backend, session *pgproto3.Frontend) (commits bool, err error) {
	for {
		msg, err := client.Receive()
		if err != nil {
			return false, err
		}
		session.Send(msg)
		switch msg := msg.(type) {
		case *pgproto3.Parse:
			commits = commits || msg.Query == "COMMIT"
		case *pgproto3.Query:
			return strings.Contains(msg.String, "COMMIT"), session.Flush()
		case *pgproto3.Sync:
			return commits, session.Flush()
		case *pgproto3.Terminate:
			return false, net.ErrClosed
		}
	}
}

// answer passes on what the server says, to the end of the answer.
func (p *pooler) answer(session *pgproto3.Frontend, client *pgproto3.Backend, lose bool) (status byte, err error) {
	for {
		msg, err := session.Receive()
		if err != nil {
			return 0, err
		}
		if p.mute.Load() {
			<-p.ctx.Done()
			return 0, p.ctx.Err()
		}
		if !lose {
			client.Send(msg)
		}
		if ready, ok := msg.(*pgproto3.ReadyForQuery); ok {
			if lose {
				return 0, net.ErrClosed
			}
			return ready.TxStatus, client.Flush()
		}
	}
}
