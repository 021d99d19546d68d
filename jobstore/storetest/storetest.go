// Package storetest says what a jobstore.Store does, as one suite that every
// backend passes on a real database. It sees a store through its interface
// alone, by two handles: two nodes, or a daemon and a command. Nothing in it
// waits for time to pass: a lease that has ended is one that was given for less
// than no time.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Open returns two handles on one fresh, migrated store, neither of them with
// an exclusive hold on it. They are closed with the test.
type Open func(t testing.TB) (a, b jobstore.Store)

// Run runs the suite.
func Run(t *testing.T, open Open) {
	suites := []struct {
		name  string
		tests []test
	}{
		{"registry", registryTests()},
		{"due", dueTests()},
		{"fire", fireTests()},
		{"overlap", overlapTests()},
		{"claim", claimTests()},
		{"lease", leaseTests()},
		{"finish", finishTests()},
		{"operations", operationTests()},
		{"cluster", clusterTests()},
		{"history", historyTests()},
		{"prune", pruneTests()},
		{"race", raceTests()},
	}
	for _, suite := range suites {
		t.Run(suite.name, func(t *testing.T) {
			for _, test := range suite.tests {
				t.Run(test.name, func(t *testing.T) { test.run(newFixture(t, open)) })
			}
		})
	}
	t.Run("model", func(t *testing.T) { runModel(t, open) })
}

type test struct {
	name string
	run  func(f *fixture)
}

// fixture is a store under test and what tests say to it.
type fixture struct {
	testing.TB
	ctx  context.Context
	a, b jobstore.Store
	base time.Time // the store's clock at the beginning, to the second
}

func newFixture(t testing.TB, open Open) *fixture {
	a, b := open(t)
	f := &fixture{TB: t, ctx: context.Background(), a: a, b: b}
	f.base = f.now().Truncate(time.Second)
	return f
}

func (f *fixture) now() time.Time {
	f.Helper()
	due, err := f.a.Due(f.ctx, jobstore.DueRequest{Limit: 1})
	f.ok(err)
	return due.Now
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// is fails unless err is want and says more than want alone.
func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("got error %v, want %v", err, want)
	}
	if want != nil && err.Error() == want.Error() {
		f.Errorf("error %q does not say what was tried", err)
	}
}

func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if d := cmp.Diff(want, got); d != "" {
		f.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

const (
	node  = "n1"
	lease = time.Minute
	ended = -time.Second // a lease that has ended already
)

// definition is a job that a test does not care about.
func definition(name string) jobstore.Definition {
	return jobstore.Definition{
		Name: name, JSON: []byte(`{"name":"` + name + `"}`), Hash: "hash-" + name, Schedule: []byte(`{}`), Fingerprint: "print",
		Overlap: jobstore.OverlapQueue, Coalesce: jobstore.CoalesceLatest, MaxInstances: 1,
	}
}

type edit func(*jobstore.NewJob)

func windowed(n *jobstore.NewJob) { n.Windowed = true }

func uses(n *jobstore.NewJob) { n.Windowed, n.UsesWindow = true, true }

func instances(max int) edit { return func(n *jobstore.NewJob) { n.MaxInstances = max } }

func overlap(o jobstore.Overlap, c jobstore.Coalesce) edit {
	return func(n *jobstore.NewJob) { n.Overlap, n.Coalesce = o, c }
}

// newJob is a job whose planning stands an hour back, and which is due.
func (f *fixture) newJob(name string, edits ...edit) jobstore.NewJob {
	n := jobstore.NewJob{Definition: definition(name), LastPlanned: f.base.Add(-time.Hour), NextFire: f.base.Add(-time.Minute)}
	for _, e := range edits {
		e(&n)
	}
	return n
}

// create makes a job and returns it as it is stored.
func (f *fixture) create(name string, edits ...edit) jobstore.Job {
	f.Helper()
	f.sync(jobstore.Changes{Create: []jobstore.NewJob{f.newJob(name, edits...)}})
	return f.job(name)
}

func (f *fixture) sync(c jobstore.Changes) jobstore.SyncState {
	f.Helper()
	out, err := f.a.Sync(f.ctx, func(jobstore.SyncState) (jobstore.Changes, error) { return c, nil })
	f.ok(err)
	return out
}

func (f *fixture) job(name string) jobstore.Job {
	f.Helper()
	jobs, err := f.b.Jobs(f.ctx, name)
	f.ok(err)
	if len(jobs) != 1 {
		f.Fatalf("%d jobs are named %s", len(jobs), name)
	}
	return jobs[0]
}

// update is a change that leaves the job as it is.
func update(job jobstore.Job) jobstore.JobUpdate {
	return jobstore.JobUpdate{ID: job.ID, Definition: job.Definition, Pause: job.Pause}
}

// at is the instant that many seconds after base.
func (f *fixture) at(seconds int) time.Time { return f.base.Add(time.Duration(seconds) * time.Second) }

// plan plans one run for each of the instants and the target, none of them late.
func (f *fixture) plan(job jobstore.Job, target string, instants ...time.Time) jobstore.Firing {
	p := jobstore.Firing{
		JobID: job.ID, Version: job.Version, NextFire: f.at(3600), Due: int64(len(instants)),
		LastPlanned: instants[len(instants)-1],
	}
	for _, at := range instants {
		p.Runs = append(p.Runs, f.newRun(job, target, at))
	}
	return p
}

func (f *fixture) newRun(job jobstore.Job, target string, at time.Time) jobstore.NewRun {
	return jobstore.NewRun{
		Key: jobstore.Key(job.Name, target, at), Target: target, FireTime: at, Trigger: jobstore.TriggerSchedule,
		NotBefore: at, Covers: 1, WindowTo: at,
	}
}

func (f *fixture) fire(slots int, firings ...jobstore.Firing) jobstore.Fired {
	f.Helper()
	out, err := f.a.Fire(f.ctx, jobstore.FireRequest{Node: node, Lease: lease, Slots: slots, Firings: firings})
	f.ok(err)
	return out
}

// start fires one run and has it leased.
func (f *fixture) start(job jobstore.Job, at time.Time) jobstore.Run {
	f.Helper()
	fired := f.fire(1, f.plan(f.job(job.Name), "", at))
	if len(fired.Leased) != 1 {
		f.Fatalf("leased %d runs, want 1", len(fired.Leased))
	}
	return fired.Leased[0]
}

// startLost is start under a lease that has ended.
func (f *fixture) startLost(job jobstore.Job, at time.Time) jobstore.Run {
	f.Helper()
	out, err := f.a.Fire(f.ctx, jobstore.FireRequest{
		Node: node, Lease: ended, Slots: 1, Firings: []jobstore.Firing{f.plan(f.job(job.Name), "", at)},
	})
	f.ok(err)
	return out.Leased[0]
}

func (f *fixture) claim(limit int) jobstore.Claimed {
	f.Helper()
	out, err := f.b.Claim(f.ctx, jobstore.ClaimRequest{Node: "n2", Lease: lease, Limit: limit})
	f.ok(err)
	return out
}

func leaseOf(r jobstore.Run) jobstore.Lease { return jobstore.Lease{RunID: r.ID, Attempt: r.Attempt} }

func succeeded(r jobstore.Run) jobstore.End {
	return jobstore.End{Lease: leaseOf(r), State: jobstore.Succeeded, Outcome: jobstore.AttemptSucceeded}
}

func failed(r jobstore.Run) jobstore.End {
	return jobstore.End{
		Lease: leaseOf(r), State: jobstore.Failed, Outcome: jobstore.AttemptFailed, Review: true, Failure: true, Message: "exit status 3",
	}
}

func retrying(r jobstore.Run, in time.Duration) jobstore.End {
	return jobstore.End{
		Lease: leaseOf(r), State: jobstore.Retrying, Outcome: jobstore.AttemptFailed, Failure: true, RetryIn: in, Message: "exit status 75",
	}
}

func (f *fixture) finish(ends ...jobstore.End) []jobstore.Ended {
	f.Helper()
	out, err := f.a.Finish(f.ctx, ends)
	f.ok(err)
	if len(out) != len(ends) {
		f.Fatalf("%d answers to %d ends", len(out), len(ends))
	}
	return out
}

func (f *fixture) run(key string) jobstore.Run {
	f.Helper()
	run, _, err := f.b.Run(f.ctx, key)
	f.ok(err)
	return run
}

func (f *fixture) attempts(key string) []jobstore.Attempt {
	f.Helper()
	_, attempts, err := f.b.Run(f.ctx, key)
	f.ok(err)
	return attempts
}

// wants fails unless the run is in that state for that reason.
func (f *fixture) wants(key string, state jobstore.State, reason string) jobstore.Run {
	f.Helper()
	run := f.run(key)
	if run.State != state || run.Reason != reason {
		f.Fatalf("run %s is %s (%q), want %s (%q)", key, run.State, run.Reason, state, reason)
	}
	return run
}

func (f *fixture) target(job jobstore.Job, name string) jobstore.Target {
	f.Helper()
	targets, err := f.b.Targets(f.ctx)
	f.ok(err)
	for _, target := range targets {
		if target.JobID == job.ID && target.Target == name {
			return target
		}
	}
	f.Fatalf("job %s has no target %q", job.Name, name)
	return jobstore.Target{}
}

// balanced fails unless every job's ledger balances, and returns it by job.
func (f *fixture) balanced() map[string]jobstore.Balance {
	f.Helper()
	ledger, err := f.b.Ledger(f.ctx)
	f.ok(err)
	out := map[string]jobstore.Balance{}
	for _, b := range ledger {
		if b.Due != b.Runs+b.Ranges+b.Pruned {
			f.Fatalf("the ledger of %s does not balance: due %d, runs %d + ranges %d + pruned %d", b.Job, b.Due, b.Runs, b.Ranges, b.Pruned)
		}
		out[b.Job] = b
	}
	return out
}

func keysOf(runs []jobstore.Run) []string {
	out := []string{}
	for i := range runs {
		out = append(out, runs[i].Key)
	}
	return out
}

func named(i int) string { return fmt.Sprintf("job-%03d", i) }
