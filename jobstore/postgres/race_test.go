package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// Nodes and people do all that they can do on few targets, for a while. The
// order in which rows are locked must leave the database no deadlock to break,
// and in the end nothing may wait that has room.
func TestNoDeadlockIsFoundByHammeringFewTargets(t *testing.T) {
	url := pgtest.NewServer(t, "fsync=off", "deadlock_timeout=100ms").URL() // quick, to collide more often
	s := openAt(t, url, Options{})
	wide, all := definition("wide"), definition("all")
	wide.MaxInstances, wide.Windowed = 2, false
	all.Overlap, all.Coalesce = jobstore.OverlapQueueAll, jobstore.CoalesceAll
	create(t, s, definition("one"), wide, all)

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var nodes sync.WaitGroup
	for i := range 8 {
		h := hammer{t: t, s: openAt(t, url, Options{MaxConns: 2}), node: fmt.Sprintf("n%d", i), begun: time.Now()}
		nodes.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				h.hit(context.WithoutCancel(ctx), n)
			}
			if err := h.finish(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
			h.s.Close()
		})
	}
	nodes.Wait()
	drain(t, s)

	var deadlocks int
	if err := s.pool.QueryRow(t.Context(), `
		SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil {
		t.Fatal(err)
	}
	if deadlocks != 0 {
		t.Errorf("the database had to break %d deadlocks", deadlocks)
	}
	ledger, err := s.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range ledger {
		t.Logf("%+v", b)
		if b.Due != b.Runs+b.Ranges+b.Pruned || b.Due == 0 || len(b.Open) != 0 {
			t.Errorf("ledger %+v", b)
		}
	}
}

// hammer is one node of them.
type hammer struct {
	t     *testing.T
	s     *Store
	node  string
	begun time.Time
	runs  []jobstore.Run
}

func (h *hammer) hit(ctx context.Context, n int) {
	var err error
	switch rand.IntN(10) {
	case 0, 1:
		err = h.fire(ctx)
	case 2, 3:
		var claimed jobstore.Claimed
		claimed, err = h.s.Claim(ctx, jobstore.ClaimRequest{Node: h.node, Lease: time.Minute, Limit: 5})
		h.runs = append(h.runs, claimed.Runs...)
	case 4, 5, 6:
		err = h.finish(ctx)
	case 7:
		leases := column(h.runs, func(r *jobstore.Run) jobstore.Lease { return jobstore.Lease{RunID: r.ID, Attempt: r.Attempt} })
		_, err = h.s.Extend(ctx, jobstore.ExtendRequest{Node: h.node, Lease: 2 * time.Minute, Leases: leases})
	case 8:
		job, target := pick("one", "wide", "all"), pick("x", "y")
		_, _, err = h.s.Trigger(ctx, jobstore.TriggerRequest{
			Job: job, Target: target, Key: jobstore.ManualKey(job, target, fmt.Sprintf("%s-%d", h.node, n)),
		})
	case 9:
		err = h.disturb(ctx)
	}
	if err != nil && !errors.Is(err, jobstore.ErrState) && !errors.Is(err, jobstore.ErrNotFound) {
		h.t.Error(err)
	}
}

func pick[T any](of ...T) T { return of[rand.IntN(len(of))] }

// fire plans both targets of all jobs, as if a second had passed with every
// millisecond.
func (h *hammer) fire(ctx context.Context) error {
	jobs, err := h.s.Jobs(ctx)
	if err != nil {
		return err
	}
	var firings []jobstore.Firing
	for _, job := range jobs {
		firings = append(firings, plan(job, job.LastPlanned.Add(time.Millisecond), "y", "x"))
	}
	rand.Shuffle(len(firings), func(i, j int) { firings[i], firings[j] = firings[j], firings[i] })
	fired, err := h.s.Fire(ctx, jobstore.FireRequest{Node: h.node, Lease: time.Minute, Slots: rand.IntN(4), Firings: firings})
	h.runs = append(h.runs, fired.Leased...)
	return err
}

func (h *hammer) finish(ctx context.Context) error {
	var ends []jobstore.End
	for _, run := range h.runs {
		e := end(run, pick(jobstore.Succeeded, jobstore.Succeeded, jobstore.Failed, jobstore.Retrying))
		e.Review = e.State == jobstore.Failed
		ends = append(ends, e)
	}
	rand.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
	ended, err := h.s.Finish(ctx, ends)
	for _, e := range ended {
		if e.Stale {
			h.t.Errorf("run %d had another attempt than %d", e.RunID, e.Attempt)
		}
	}
	h.runs = nil
	return err
}

func (h *hammer) disturb(ctx context.Context) error {
	switch rand.IntN(6) {
	case 0:
		_, err := h.s.Pause(ctx, "wide", jobstore.Pause{Reason: "test"})
		return err
	case 1:
		_, err := h.s.Prune(ctx, h.begun, h.begun)
		return err
	case 2:
		_, err := h.s.Sync(ctx, func(state jobstore.SyncState) (c jobstore.Changes, err error) {
			for _, job := range state.Jobs {
				job.MaxInstances = 1 + rand.IntN(2)
				c.Update = append(c.Update, jobstore.JobUpdate{ID: job.ID, Definition: job.Definition})
			}
			return c, nil
		})
		return err
	}
	runs, err := h.s.Runs(ctx, jobstore.RunFilter{States: []jobstore.State{jobstore.Pending, jobstore.Running, jobstore.Retrying}})
	if err != nil || len(runs) == 0 {
		return err
	}
	_, err = h.s.Cancel(ctx, pick(runs...).Key, h.node)
	return err
}

// drain works off what is open. What waits for room that nobody gives it would
// stay.
func drain(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Sync(t.Context(), func(state jobstore.SyncState) (c jobstore.Changes, err error) {
		for _, job := range state.Jobs { // no pause
			c.Update = append(c.Update, jobstore.JobUpdate{ID: job.ID, Definition: job.Definition})
		}
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	for {
		claimed, err := s.Claim(t.Context(), jobstore.ClaimRequest{Node: "last", Lease: time.Minute, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed.Runs)+len(claimed.Settled) == 0 {
			return
		}
		var ends []jobstore.End
		for _, run := range claimed.Runs {
			ends = append(ends, end(run, jobstore.Succeeded))
		}
		if _, err := s.Finish(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
	}
}
