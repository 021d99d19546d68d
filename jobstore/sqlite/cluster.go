package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	sqlNodes = `SELECT name, instance, host, pid, version, started_at, seen_at,
	config_hash, config_at, config_err, revision, running, clock_offset
FROM tidemark_nodes ORDER BY name`

	sqlHolder = `SELECT instance, seen_at FROM tidemark_nodes WHERE name = ?1`

	sqlStoreNode = `INSERT INTO tidemark_nodes (
	name, instance, host, pid, version, started_at, seen_at,
	config_hash, config_at, config_err, revision, running, clock_offset
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
	instance = excluded.instance, host = excluded.host, pid = excluded.pid, version = excluded.version,
	started_at = excluded.started_at, seen_at = excluded.seen_at,
	config_hash = excluded.config_hash, config_at = excluded.config_at, config_err = excluded.config_err,
	revision = excluded.revision, running = excluded.running, clock_offset = excluded.clock_offset`

	sqlEndLeases = `UPDATE tidemark_runs SET claim_at = ?2
WHERE claim_at > ?2 AND state = 'running' AND node = ?1`

	sqlEndAllLeases = `UPDATE tidemark_runs SET claim_at = ?1 WHERE claim_at > ?1 AND state = 'running'`

	sqlOnlyNode = `DELETE FROM tidemark_nodes WHERE name <> ?1`
)

// Join implements jobstore.Cluster. Who has the file as its daemon knows that
// every other is gone, and with it all leases.
func (s *Store) Join(ctx context.Context, node jobstore.Node) error {
	err := s.write(ctx, func(t *tx) error {
		instance, seen, err := t.holder(node.Name)
		if err != nil {
			return err
		}
		if instance != "" && instance != node.Instance && !node.Gone && !s.daemon && t.now.Sub(seen) < jobstore.NodeTimeout {
			return jobstore.ErrNodeTaken
		}
		if err := t.storeNode(&node); err != nil {
			return err
		}
		switch {
		case instance == node.Instance: // the same call again: the leases are its own
			return nil
		case s.daemon:
			if _, err = t.exec(sqlOnlyNode, node.Name); err == nil {
				_, err = t.exec(sqlEndAllLeases, micros(t.now))
			}
		default:
			_, err = t.exec(sqlEndLeases, node.Name, micros(t.now))
		}
		return err
	})
	return wrap("join as node "+node.Name, err)
}

// holder is who has the node's row; no instance where nobody has.
func (t *tx) holder(name string) (instance string, seen time.Time, err error) {
	err = t.queryRow(sqlHolder, name).Scan(&instance, (*at)(&seen))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return instance, seen, err
}

func (t *tx) storeNode(n *jobstore.Node) error {
	_, err := t.exec(sqlStoreNode, n.Name, n.Instance, n.Host, n.PID, n.Version, micros(n.StartedAt), micros(t.now),
		n.ConfigHash, micros(n.ConfigAt), n.ConfigErr, n.Revision, n.Running, n.ClockOffset.Microseconds())
	return err
}

// Beat implements jobstore.Cluster. A row that somebody took away is entered
// again.
func (s *Store) Beat(ctx context.Context, node jobstore.Node) (at time.Time, err error) {
	err = s.write(ctx, func(t *tx) error {
		at = t.now
		instance, _, err := t.holder(node.Name)
		if err == nil && instance != "" && instance != node.Instance {
			err = jobstore.ErrNodeTaken
		}
		if err != nil {
			return err
		}
		return t.storeNode(&node)
	})
	return at, wrap("beat as node "+node.Name, err)
}

const sqlLeave = `DELETE FROM tidemark_nodes WHERE name = ?1 AND instance = ?2`

// Leave implements jobstore.Cluster.
func (s *Store) Leave(ctx context.Context, node jobstore.Node) error {
	err := s.write(ctx, func(t *tx) error {
		_, err := t.exec(sqlLeave, node.Name, node.Instance)
		return err
	})
	return wrap("leave as node "+node.Name, err)
}

// Nodes implements jobstore.Cluster.
func (s *Store) Nodes(ctx context.Context) (out []jobstore.Node, err error) {
	err = s.read(ctx, func(t *tx) error {
		out, err = collect(scanNode)(t.query(sqlNodes))
		return err
	})
	return out, wrap("list nodes", err)
}

func scanNode(rows *sql.Rows, n *jobstore.Node) error {
	var offset int64
	err := rows.Scan(&n.Name, &n.Instance, &n.Host, &n.PID, &n.Version, (*at)(&n.StartedAt), (*at)(&n.SeenAt),
		&n.ConfigHash, (*at)(&n.ConfigAt), &n.ConfigErr, &n.Revision, &n.Running, &offset)
	n.ClockOffset = time.Duration(offset) * time.Microsecond
	return err
}

const (
	sqlDataVersion = `PRAGMA data_version`

	watchEvery = 200 * time.Millisecond
)

// Watch implements jobstore.Cluster. It asks the writer's connection, to which
// this number changes with what other connections commit, and so never with
// what this Store does itself. A store in memory has no others.
func (s *Store) Watch(ctx context.Context, wake func()) error {
	if s.reader == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last, err := s.dataVersion(ctx)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var v int64
		if v, err = s.dataVersion(ctx); err == nil && v != last {
			last = v
			wake()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return wrap("watch store", err)
}

func (s *Store) dataVersion(ctx context.Context) (v int64, err error) {
	w := s.writer
	if err := w.take(ctx); err != nil {
		return 0, err
	}
	defer w.give()
	t := &tx{caller: ctx, run: context.WithoutCancel(ctx), conn: w.conn, stmts: w.stmts}
	err = t.queryRow(sqlDataVersion).Scan(&v)
	return v, err
}
