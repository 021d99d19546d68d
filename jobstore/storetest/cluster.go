package storetest

import (
	"context"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func clusterTests() []test {
	return []test{
		{"a node is entered, beats and leaves", testNodeLife},
		{"a living node's name is not given twice", testNodeTaken},
		{"who takes a dead node's row ends its leases", testNodeTakenOver},
		{"joining again under the same instance keeps the leases", testJoinTwice},
		{"a row that was taken away is entered again", testBeatAgain},
		{"a handle hears what the other has changed", testWatch},
		{"a store that is whole says so", testCheck},
		{"a caller that has gone is not served", testCallerGone},
	}
}

func nodeNamed(name, instance string) jobstore.Node {
	return jobstore.Node{Name: name, Instance: instance, Host: "h", PID: 7, Version: "v1", StartedAt: time.Unix(1e9, 0)}
}

func testNodeLife(f *fixture) {
	n := nodeNamed(node, "i1")
	n.StartedAt, n.ConfigAt, n.ConfigErr = f.at(-5).Add(time.Microsecond), f.at(-4), "bad"
	n.ConfigHash, n.Revision, n.Running, n.ClockOffset = "c", 9, 3, -1500*time.Microsecond
	f.ok(f.a.Join(f.ctx, n))
	f.ok(f.b.Join(f.ctx, nodeNamed("n2", "i2")))
	nodes, err := f.b.Nodes(f.ctx)
	f.ok(err)
	if len(nodes) != 2 || nodes[0].SeenAt.Before(f.base) {
		f.Fatalf("nodes are %+v", nodes)
	}
	n.SeenAt = nodes[0].SeenAt
	f.same("node", nodes[0], n)
	if !nodes[1].ConfigAt.IsZero() {
		f.Errorf("a config that was never loaded: %+v", nodes[1])
	}

	n.ConfigHash, n.ConfigErr, n.Running, n.ClockOffset = "d", "", 0, time.Millisecond
	at, err := f.a.Beat(f.ctx, n)
	f.ok(err)
	n.SeenAt = at
	nodes, err = f.b.Nodes(f.ctx)
	f.ok(err)
	f.same("node", nodes[0], n)

	f.ok(f.b.Leave(f.ctx, nodeNamed(node, "another")))
	if nodes, err = f.b.Nodes(f.ctx); err != nil || len(nodes) != 2 {
		f.Errorf("somebody else took its row away: %+v, %v", nodes, err)
	}
	f.ok(f.a.Leave(f.ctx, n))
	f.ok(f.a.Leave(f.ctx, n))
	if nodes, err = f.b.Nodes(f.ctx); err != nil || len(nodes) != 1 {
		f.Errorf("nodes are %+v, %v", nodes, err)
	}
	f.ok(f.b.Join(f.ctx, nodeNamed(node, "i3")))
}

func testNodeTaken(f *fixture) {
	f.ok(f.a.Join(f.ctx, nodeNamed(node, "i1")))
	err := f.b.Join(f.ctx, nodeNamed(node, "i2"))
	f.is(err, jobstore.ErrNodeTaken)
	_, err = f.b.Beat(f.ctx, nodeNamed(node, "i2"))
	f.is(err, jobstore.ErrNodeTaken)
	_, err = f.a.Beat(f.ctx, nodeNamed(node, "i1"))
	f.ok(err)
	gone := nodeNamed(node, "i2")
	gone.Gone = true
	f.ok(f.b.Join(f.ctx, gone))
	_, err = f.a.Beat(f.ctx, nodeNamed(node, "i1"))
	f.is(err, jobstore.ErrNodeTaken)
}

func testNodeTakenOver(f *fixture) {
	f.ok(f.a.Join(f.ctx, nodeNamed(node, "i1")))
	run := f.start(f.create("a"), f.at(-10))
	f.fire(0, f.plan(f.create("b"), "", f.at(-10)))
	other := f.claim(1).Runs[0] // n2's
	retry := f.start(f.create("c"), f.at(-10))
	f.finish(retrying(retry, time.Hour))

	gone := nodeNamed(node, "i2")
	gone.Gone = true
	f.ok(f.b.Join(f.ctx, gone))
	got := f.claim(9)
	f.same("taken over", keysOf(got.Runs), []string{run.Key})
	f.same("lost", keysOf(got.Lost), []string{run.Key})
	f.wants(other.Key, jobstore.Running, "")
	f.wants(retry.Key, jobstore.Retrying, "")
}

func testJoinTwice(f *fixture) {
	n := nodeNamed(node, "i1")
	f.ok(f.a.Join(f.ctx, n))
	f.start(f.create("a"), f.at(-10))
	f.ok(f.a.Join(f.ctx, n))
	if got := f.claim(9); len(got.Runs) != 0 {
		f.Errorf("it ended its own leases: %v", keysOf(got.Runs))
	}
}

func testBeatAgain(f *fixture) {
	_, err := f.a.Beat(f.ctx, nodeNamed(node, "i1"))
	f.ok(err)
	if nodes, err := f.a.Nodes(f.ctx); err != nil || len(nodes) != 1 {
		f.Errorf("nodes are %+v, %v", nodes, err)
	}
}

// testWatch lets one handle change something again and again until the other
// has heard it, for it may not be listening yet.
func testWatch(f *fixture) {
	job := f.create("a")
	run := f.start(f.create("running"), f.at(-10))
	i := 0
	changes := []struct {
		name   string
		change func() error
	}{
		{"trigger", func() error {
			_, _, err := f.b.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Key: jobstore.ManualKey("a", "", named(i))})
			return err
		}},
		{"pause", func() error { _, err := f.b.Pause(f.ctx, "a", jobstore.Pause{}); return err }},
		{"unpause", func() error {
			if _, err := f.b.Pause(f.ctx, "a", jobstore.Pause{}); err != nil {
				return err
			}
			_, err := f.b.Unpause(f.ctx, "a", "")
			return err
		}},
		{"cancel", func() error {
			if i > 0 { // again changes nothing
				run = f.start(f.create("running"+named(i)), f.at(-10))
			}
			_, err := f.b.Cancel(f.ctx, run.Key, "ops")
			return err
		}},
		{"reconcile", func() error {
			_, err := f.b.Sync(f.ctx, func(jobstore.SyncState) (jobstore.Changes, error) {
				u := update(job)
				u.Hash = named(i)
				return jobstore.Changes{Update: []jobstore.JobUpdate{u}}, nil
			})
			return err
		}},
	}
	for _, c := range changes {
		i = 0
		f.hears(c.name, func() error { defer func() { i++ }(); return c.change() })
	}
}

func (f *fixture) hears(name string, change func() error) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	heard, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		done <- f.a.Watch(ctx, func() {
			select {
			case heard <- struct{}{}:
			default:
			}
		})
	}()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for waiting := true; waiting; {
		f.ok(change())
		select {
		case <-heard:
			waiting = false
		case <-again.C:
		case <-ctx.Done():
			f.Fatalf("%s: the other handle does not hear it", name)
		}
	}
	cancel()
	if err := <-done; err != nil {
		f.Errorf("%s: watching ended with %v", name, err)
	}
}

func testCheck(f *fixture) {
	f.ok(f.a.Check(f.ctx))
	f.ok(f.b.Check(f.ctx))
}

func testCallerGone(f *fixture) {
	job := f.create("a")
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.a.Due(ctx, jobstore.DueRequest{Limit: 1})
	f.is(err, context.Canceled)
	_, err = f.a.Fire(ctx, jobstore.FireRequest{Node: node, Lease: lease, Firings: []jobstore.Firing{f.plan(job, "", f.at(-10))}})
	f.is(err, context.Canceled)
	f.is(f.a.Check(ctx), context.Canceled)
	f.same("job", f.job("a"), job)
}
