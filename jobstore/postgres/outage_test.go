package postgres

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// live takes a store through everything that a daemon asks of it.
func live(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Check(ctx))
	node := jobstore.Node{Name: "n", Instance: "i", StartedAt: time.Now(), ConfigErr: "a\x00b\xff"}
	must(s.Join(ctx, node))
	_, err := s.Beat(ctx, node)
	must(err)
	job := create(t, s, definition("a"), definition("b"))["a"]
	due, err := s.Due(ctx, jobstore.DueRequest{Limit: 1, Exclude: []int64{-1}})
	must(err)
	p := plan(job, due.Now, "x", "y")
	p.Ranges = []jobstore.Range{{First: due.Now, Last: due.Now, Count: 1, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace}}
	run := fire(t, s, 1, p).Leased[0]
	lease := jobstore.Lease{RunID: run.ID, Attempt: run.Attempt}
	_, err = s.Extend(ctx, jobstore.ExtendRequest{Node: "n", Lease: time.Hour, Leases: []jobstore.Lease{lease}})
	must(err)
	must(s.Report(ctx, []jobstore.RunOutput{{Lease: lease, Output: jobstore.Output{Head: []byte("a\x00b\xff"), Size: 4}}}))
	again := jobstore.End{
		Lease: lease, State: jobstore.Retrying, Outcome: jobstore.AttemptFailed, Message: "a\x00b\xff",
		Output: &jobstore.Output{Tail: []byte{0}, Size: 9},
	}
	_, err = s.Finish(ctx, []jobstore.End{again})
	must(err)
	claimed, err := s.Claim(ctx, jobstore.ClaimRequest{Node: "n", Lease: time.Minute, Limit: 9})
	must(err)
	if len(claimed.Runs) != 2 || claimed.Runs[0].Attempt+claimed.Runs[1].Attempt != 3 {
		t.Fatalf("claimed %+v", claimed.Runs)
	}
	manual, created, err := s.Trigger(ctx, jobstore.TriggerRequest{Job: "a", Target: "x", Key: jobstore.ManualKey("a", "x", "k")})
	must(err)
	if !created || !manual.Waiting() {
		t.Errorf("triggered %+v", manual)
	}
	_, err = s.Cancel(ctx, claimed.Runs[0].Key, "somebody")
	must(err)
	code := 3
	ends := []jobstore.End{end(claimed.Runs[0], jobstore.Canceled), end(claimed.Runs[1], jobstore.Failed)}
	ends[1].ExitCode, ends[1].Review = &code, true
	_, err = s.Finish(ctx, ends)
	must(err)
	_, err = s.Cancel(ctx, manual.Key, "somebody")
	must(err)
	_, err = s.Pause(ctx, "b", jobstore.Pause{Reason: "a\x00b"})
	must(err)
	_, err = s.Unpause(ctx, "b", jobstore.ResumeSkip)
	must(err)
	looks(t, s, job, run)
	_, err = s.Prune(ctx, due.Now.Add(time.Hour), due.Now.Add(time.Hour))
	must(err)
	must(s.Leave(ctx, node))
}

// looks reads all that there is to read.
func looks(t *testing.T, s *Store, job jobstore.Job, run jobstore.Run) {
	t.Helper()
	target := "x"
	filters := []jobstore.RunFilter{
		{}, {Job: "a", Target: &target, Limit: 5}, {States: jobstore.States()}, {Review: true}, {Since: job.LastPlanned},
	}
	for _, filter := range filters {
		if runs, err := s.Runs(t.Context(), filter); err != nil || len(runs) == 0 {
			t.Errorf("runs by %+v: %d, %v", filter, len(runs), err)
		}
	}
	_, attempts, err := s.Run(t.Context(), run.Key)
	if err != nil || len(attempts) != 1 || attempts[0].Message != "a\uFFFDb\uFFFD" {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
	out, err := s.Output(t.Context(), run.ID, 0)
	if err != nil || out.Size != 9 || !reflect.DeepEqual(out.Tail, []byte{0}) {
		t.Errorf("output %+v, %v", out, err)
	}
	if ranges, err := s.Ranges(t.Context(), job.ID, time.Time{}, time.Now()); err != nil || len(ranges) != 1 {
		t.Errorf("ranges %+v, %v", ranges, err)
	}
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	if _, err := s.Backlog(t.Context()); err != nil {
		t.Error(err)
	}
	if jobs, err := s.Jobs(t.Context(), "a", "a\x00b"); err != nil || len(jobs) != 1 {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}

func TestAStoreLivesInEveryModeOfTheDriver(t *testing.T) {
	for _, mode := range []string{"cache_describe", "cache_statement", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			url := pgtest.NewDatabase(t) + "&pool_max_conns=1&default_query_exec_mode=" + mode
			live(t, openAt(t, url, Options{}))
		})
	}
}

func TestAStoreLivesBehindATransactionModePooler(t *testing.T) {
	live(t, openAt(t, newPooler(t, pgtest.NewDatabase(t)).url, Options{}))
}

func TestALostReplyToCommitIsSafeToRepeat(t *testing.T) {
	p := newPooler(t, pgtest.NewDatabase(t))
	s := openAt(t, p.url, Options{})
	job := create(t, s, definition("a"))["a"]
	req := jobstore.FireRequest{Node: "n", Lease: time.Minute, Slots: 9, Firings: []jobstore.Firing{plan(job, time.Now(), "x")}}
	lost := func(what string, call func() error) {
		t.Helper()
		p.lose.Store(true)
		if err := call(); !errors.Is(err, jobstore.ErrUnavailable) || p.lose.Load() {
			t.Fatalf("%s: %v", what, err)
		}
		if err := call(); err != nil {
			t.Fatalf("%s again: %v", what, err)
		}
	}
	lost("fire", func() error {
		fired, err := s.Fire(t.Context(), req)
		if len(fired.Jobs) != 0 {
			t.Errorf("fired again: %+v", fired)
		}
		return err
	})
	runs, err := s.Runs(t.Context(), jobstore.RunFilter{})
	if err != nil || len(runs) != 1 || runs[0].State != jobstore.Running {
		t.Fatalf("%+v, %v", runs, err)
	}
	lost("finish", func() error {
		ended, err := s.Finish(t.Context(), []jobstore.End{end(runs[0], jobstore.Succeeded)})
		if err == nil && !ended[0].Stale {
			t.Errorf("ended again: %+v", ended)
		}
		return err
	})
	lost("trigger", func() error {
		_, created, err := s.Trigger(t.Context(), jobstore.TriggerRequest{Job: "a", Target: "x", Key: jobstore.ManualKey("a", "x", "k")})
		if err == nil && created {
			t.Error("triggered twice")
		}
		return err
	})
	ledger, err := s.Ledger(t.Context())
	if err != nil || ledger[0].Due != 1 || ledger[0].Runs != 1 || ledger[0].Open[jobstore.Pending] != 1 {
		t.Errorf("%+v, %v", ledger, err)
	}
}

func TestAServerThatSaysNothingHoldsACallNoLongerThanItsDeadline(t *testing.T) {
	p := newPooler(t, pgtest.NewDatabase(t))
	s := openAt(t, p.url, Options{Timeout: 500 * time.Millisecond})
	p.mute.Store(true)
	for range 3 {
		began := time.Now()
		if _, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1}); !errors.Is(err, jobstore.ErrUnavailable) {
			t.Fatalf("error %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("took %v", took)
		}
	}
	p.mute.Store(false)
	if _, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1}); err != nil {
		t.Errorf("once it speaks again: %v", err)
	}
}

func TestAStoreOutlivesItsServer(t *testing.T) {
	server := pgtest.NewServer(t)
	s := openAt(t, server.URL(), Options{Timeout: 5 * time.Second})
	job := create(t, s, definition("a"))["a"]
	for name, down := range map[string]func(){"stopped": server.Stop, "killed": server.Kill} {
		down()
		for _, err := range []error{s.Check(t.Context()), s.Report(t.Context(), []jobstore.RunOutput{{}})} {
			if !errors.Is(err, jobstore.ErrUnavailable) {
				t.Errorf("%s: error %v", name, err)
			}
		}
		if _, err := s.Fire(t.Context(), jobstore.FireRequest{Firings: []jobstore.Firing{plan(job, time.Now(), "x")}}); !errors.Is(err, jobstore.ErrUnavailable) {
			t.Errorf("%s: error %v", name, err)
		}
		server.Start()
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("after it was %s: %v", name, err)
		}
	}
	if fired := fire(t, s, 1, plan(job, time.Now(), "x")); len(fired.Leased) != 1 {
		t.Errorf("fired %+v", fired)
	}
}

func TestTerminatedSessionsCostACallAtMost(t *testing.T) {
	url := pgtest.NewDatabase(t)
	s, other := openAt(t, url, Options{}), openAt(t, url, Options{MaxConns: 1})
	for range 20 {
		_, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1})
		if err != nil && !errors.Is(err, jobstore.ErrUnavailable) {
			t.Fatal(err)
		}
		if err != nil {
			if _, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1}); err != nil {
				t.Fatalf("the next call: %v", err)
			}
		}
		if _, err := other.pool.Exec(t.Context(), `
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchHearsOtherProcesses(t *testing.T) {
	url := pgtest.NewDatabase(t)
	s, other := openAt(t, url, Options{}), openAt(t, url, Options{})
	create(t, s, definition("a"))
	woken, result := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		result <- s.Watch(t.Context(), func() { woken <- struct{}{} })
	}()
	<-woken // it listens
	if _, _, err := other.Trigger(t.Context(), jobstore.TriggerRequest{Job: "a", Key: jobstore.ManualKey("a", "", "k")}); err != nil {
		t.Fatal(err)
	}
	<-woken
	if _, err := other.pool.Exec(t.Context(), `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, jobstore.ErrUnavailable) {
		t.Errorf("a watch that cannot hear any more ended with %v", err)
	}
}
