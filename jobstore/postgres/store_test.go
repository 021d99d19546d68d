package postgres

import (
	"context"
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

var update = flag.Bool("update", false, "rewrite golden files")

// openAt opens a migrated store at url, closed when the test ends.
func openAt(t testing.TB, url string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t testing.TB) *Store {
	t.Helper()
	return openAt(t, pgtest.NewDatabase(t), Options{})
}

// definition is that of a job that runs one at a time, with windows.
func definition(name string) jobstore.Definition {
	text, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		panic(err)
	}
	return jobstore.Definition{
		Name: name, JSON: text, Hash: "hash of " + name, Schedule: []byte(`{}`), Fingerprint: "work of " + name,
		Overlap: jobstore.OverlapQueue, Coalesce: jobstore.CoalesceLatest, MaxInstances: 1, Windowed: true,
	}
}

// create makes jobs that are due now, and returns them by name.
func create(t testing.TB, s *Store, defs ...jobstore.Definition) map[string]jobstore.Job {
	t.Helper()
	state, err := s.Sync(t.Context(), func(state jobstore.SyncState) (c jobstore.Changes, err error) {
		for _, def := range defs {
			c.Create = append(c.Create, jobstore.NewJob{
				Definition: def, LastPlanned: state.Now.Add(-time.Hour), NextFire: state.Now.Add(-time.Minute),
			})
		}
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]jobstore.Job{}
	for _, job := range state.Jobs {
		jobs[job.Name] = job
	}
	return jobs
}

// plan fires one instant of a job for some targets.
func plan(job jobstore.Job, fire time.Time, targets ...string) jobstore.Firing {
	fire = jobstore.Instant(fire)
	f := jobstore.Firing{
		JobID: job.ID, Version: job.Version, LastPlanned: fire, NextFire: fire.Add(time.Hour), Due: 1,
	}
	for _, target := range targets {
		f.Runs = append(f.Runs, jobstore.NewRun{
			Key: jobstore.Key(job.Name, target, fire), Target: target, FireTime: fire, Trigger: jobstore.TriggerSchedule,
			NotBefore: fire, Covers: 1, WindowTo: fire,
		})
	}
	return f
}

func fire(t testing.TB, s *Store, slots int, firings ...jobstore.Firing) jobstore.Fired {
	t.Helper()
	fired, err := s.Fire(t.Context(), jobstore.FireRequest{Node: "n", Lease: time.Minute, Slots: slots, Firings: firings})
	if err != nil {
		t.Fatal(err)
	}
	return fired
}

func end(run jobstore.Run, state jobstore.State) jobstore.End {
	return jobstore.End{Lease: jobstore.Lease{RunID: run.ID, Attempt: run.Attempt}, State: state, Outcome: jobstore.AttemptSucceeded}
}

func TestARunGoesFromItsInstantToItsOutcome(t *testing.T) {
	s := open(t)
	job := create(t, s, definition("a"))["a"]
	due, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 10})
	if err != nil || len(due.Jobs) != 1 {
		t.Fatalf("due: %v %v", due, err)
	}
	fired := fire(t, s, 10, plan(job, due.Now, "x", "y"))
	if len(fired.Leased) != 2 {
		t.Fatalf("%+v", fired)
	}
	ended, err := s.Finish(t.Context(), []jobstore.End{end(fired.Leased[0], jobstore.Succeeded), end(fired.Leased[0], jobstore.Failed)})
	if err != nil || ended[0].Stale || !ended[1].Stale || ended[0].Run.State != jobstore.Succeeded {
		t.Fatalf("%+v %v", ended, err)
	}
	again, err := s.Finish(context.Background(), []jobstore.End{end(fired.Leased[0], jobstore.Succeeded)})
	if err != nil || !again[0].Stale {
		t.Fatalf("%+v %v", again, err)
	}
	targets, err := s.Targets(t.Context())
	if err != nil || len(targets) != 2 || !targets[0].Watermark.Equal(jobstore.Instant(due.Now)) {
		t.Fatalf("%+v %v", targets, err)
	}
	if lost := fire(t, s, 10, plan(job, due.Now.Add(time.Second), "x")); len(lost.Jobs) != 0 {
		t.Errorf("a stale plan fired: %+v", lost)
	}
	ledger, err := s.Ledger(t.Context())
	if err != nil || ledger[0].Due != 1 || ledger[0].Runs != 1 || ledger[0].Open[jobstore.Running] != 1 {
		t.Errorf("%+v %v", ledger, err)
	}
}
