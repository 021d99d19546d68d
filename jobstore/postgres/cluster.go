package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkd/tidemark/jobstore"
)

const lockNode = `SELECT instance, seen_at FROM tidemark_nodes WHERE name = $1 FOR NO KEY UPDATE`

// Only while the row is still the one that was read ($14), or there is none.
const enterNode = `
INSERT INTO tidemark_nodes (name, instance, host, pid, version, started_at, seen_at, config_hash, config_at, config_err,
                            revision, running, clock_offset)
VALUES ($1, $2, $3, $4, $5, $6, now(), $7, $8, $9, $10, $11, $12)
ON CONFLICT (name) DO UPDATE SET
    instance = excluded.instance, host = excluded.host, pid = excluded.pid, version = excluded.version,
    started_at = excluded.started_at, seen_at = excluded.seen_at, config_hash = excluded.config_hash,
    config_at = excluded.config_at, config_err = excluded.config_err, revision = excluded.revision,
    running = excluded.running, clock_offset = excluded.clock_offset
WHERE tidemark_nodes.instance = $13`

const endLeases = `
UPDATE tidemark_runs SET claim_at = now() WHERE claim_at > now() AND state = 'running' AND node = $1`

// Join implements jobstore.Cluster.
func (s *Store) Join(ctx context.Context, node jobstore.Node) error {
	return s.transact(ctx, "join as node "+node.Name, func(ctx context.Context, t *txn) error {
		holder, seen, now, err := holderOf(ctx, t, node.Name)
		if err != nil {
			return err
		}
		if holder != "" && holder != node.Instance && !node.Gone && now.Sub(seen) < jobstore.NodeTimeout {
			return jobstore.ErrNodeTaken
		}
		if err := enter(ctx, t, node, holder); err != nil {
			return err
		}
		b := t.pipeline()
		b.Queue(forgetNodes, node.Name)
		if holder != node.Instance { // else it is the same call again, and the leases are its own
			b.Queue(endLeases, node.Name)
			b.Queue(notify)
		}
		return t.commit(ctx, b)
	})
}

// Where a container's name is new at each start, its old names would pile up.
const forgetNodes = `DELETE FROM tidemark_nodes WHERE seen_at < now() - interval '1 day' AND name <> $1`

// holderOf is the instance that has the node's row; empty where nobody has.
func holderOf(ctx context.Context, t *txn, name string) (holder string, seen, now time.Time, err error) {
	b := t.pipeline()
	queueNow(b, &now)
	b.Queue(lockNode, text(name)).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&holder, (*instant)(&seen)}, func() error { return nil })
		return err
	})
	err = t.send(ctx, b)
	return holder, seen, now, err
}

func enter(ctx context.Context, t *txn, n jobstore.Node, holder string) error {
	var changed int64
	b := t.pipeline()
	queueExec(b, &changed, enterNode, text(n.Name), n.Instance, text(n.Host), n.PID, text(n.Version), stamp(n.StartedAt),
		n.ConfigHash, stamp(n.ConfigAt), text(n.ConfigErr), n.Revision, n.Running, n.ClockOffset.Microseconds(), holder)
	err := t.send(ctx, b)
	if err == nil && changed == 0 {
		err = jobstore.ErrNodeTaken // another was quicker
	}
	return err
}

// Beat implements jobstore.Cluster. A row that somebody took away is entered
// again.
func (s *Store) Beat(ctx context.Context, node jobstore.Node) (at time.Time, err error) {
	err = s.transact(ctx, "beat as node "+node.Name, func(ctx context.Context, t *txn) error {
		holder, _, now, err := holderOf(ctx, t, node.Name)
		if err != nil {
			return err
		}
		if holder != "" && holder != node.Instance {
			return jobstore.ErrNodeTaken
		}
		at = now
		if err := enter(ctx, t, node, holder); err != nil {
			return err
		}
		return t.commit(ctx, t.pipeline())
	})
	return at, err
}

const leaveNode = `DELETE FROM tidemark_nodes WHERE name = $1 AND instance = $2`

// Leave implements jobstore.Cluster.
func (s *Store) Leave(ctx context.Context, node jobstore.Node) error {
	b := &pgx.Batch{}
	b.Queue(leaveNode, text(node.Name), node.Instance)
	return s.run(ctx, "leave as node "+node.Name, b)
}

const selectNodes = `
SELECT name, instance, host, pid, version, started_at, seen_at, config_hash, config_at, config_err, revision, running,
       clock_offset * 1000
FROM tidemark_nodes
ORDER BY name`

// Nodes implements jobstore.Cluster.
func (s *Store) Nodes(ctx context.Context) (nodes []jobstore.Node, err error) {
	b := &pgx.Batch{}
	b.Queue(selectNodes).Query(collect(&nodes, nodeColumns))
	err = s.run(ctx, "list nodes", b)
	return nodes, err
}

func nodeColumns(n *jobstore.Node) []any {
	return []any{
		&n.Name, &n.Instance, &n.Host, &n.PID, &n.Version, (*instant)(&n.StartedAt), (*instant)(&n.SeenAt),
		&n.ConfigHash, (*instant)(&n.ConfigAt), &n.ConfigErr, &n.Revision, &n.Running, (*int64)(&n.ClockOffset),
	}
}

const (
	listen = `LISTEN tidemark_wake`

	watchQuiet = 30 * time.Second // after so long without a word the connection is tried
)

// Watch implements jobstore.Cluster, by LISTEN on a connection of its own. A
// transaction-mode pooler accepts that and delivers nothing; polling serves. wake
// must not block: it is called for every notification, this process's included.
func (s *Store) Watch(ctx context.Context, wake func()) error {
	err := s.watch(ctx, wake)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the caller has gone: no fault of the connection
	}
	return wrap(ctx, "watch store", unreachable{err})
}

func (s *Store) watch(ctx context.Context, wake func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		defer cancel()
		conn.Close(closing)
	}()
	if err := bounded(ctx, s.timeout, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, listen)
		return err
	}); err != nil {
		return err
	}
	wake() // what changed before the first word could be heard
	for {
		err := bounded(ctx, watchQuiet, func(ctx context.Context) error {
			_, err := conn.WaitForNotification(ctx)
			return err
		})
		switch {
		case err == nil:
			wake()
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		default:
			if err := bounded(ctx, s.timeout, conn.Ping); err != nil {
				return err
			}
		}
	}
}

func bounded(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return fn(ctx)
}
