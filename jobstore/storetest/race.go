package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func raceTests() []test {
	return []test{
		{"ten thousand fires of two nodes: each key once, none lost", testFireRace},
		{"claimers never lease the same run", testClaimRace},
		{"an end and a fire at once: no two run, and none waits for ever", testOverlapRace},
		{"a fire beside an end: windows tile all the same", testTileRace},
		{"two results of one attempt: one counts", testFinishRace},
		{"one key triggered fifty times at once is one run", testTriggerRace},
		{"nodes that load the same file at once create each job once", testSyncRace},
		{"plans and reloads at once keep the ledger balanced", testReloadRace},
		{"of two daemons of one name one joins", testJoinRace},
	}
}

// both runs n goroutines on each handle and returns when all have.
func (f *fixture) both(n int, do func(s jobstore.Store, i int) error) {
	f.Helper()
	errs := make(chan error, 2*n)
	var all sync.WaitGroup
	for i := range 2 * n {
		s := f.a
		if i%2 == 1 {
			s = f.b
		}
		all.Go(func() { errs <- do(s, i) })
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			f.Error(err)
		}
	}
	if f.Failed() {
		f.FailNow()
	}
}

func testFireRace(f *fixture) {
	const jobs, each = 100, 100
	first := f.at(-each)
	var c jobstore.Changes
	for i := range jobs {
		c.Create = append(c.Create, f.newJob(named(i), func(n *jobstore.NewJob) {
			n.LastPlanned, n.NextFire = first.Add(-time.Second), first
			n.Overlap, n.Coalesce, n.MaxInstances = jobstore.OverlapQueueAll, jobstore.CoalesceAll, i%3
		}))
	}
	f.sync(c)
	var leases sync.Map
	f.both(3, func(s jobstore.Store, i int) error {
		for {
			due, err := s.Due(f.ctx, jobstore.DueRequest{Limit: 60})
			if err != nil {
				return err
			}
			if len(due.Jobs) == 0 {
				return nil
			}
			var plans []jobstore.Firing
			for _, job := range due.Jobs {
				p := f.plan(job, "", job.NextFire)
				if p.NextFire = job.NextFire.Add(time.Second); !p.NextFire.Before(f.base) {
					p.NextFire = time.Time{}
				}
				plans = append(plans, p)
			}
			fired, err := s.Fire(f.ctx, jobstore.FireRequest{Node: named(i), Lease: lease, Slots: 50, Firings: plans})
			if err != nil {
				return err
			}
			if err := f.finishOnce(s, &leases, fired.Leased); err != nil {
				return err
			}
		}
	})
	f.drain(&leases)
	for name, b := range f.balanced() {
		if b.Due != each || b.Runs != each || len(b.Open) != 0 {
			f.Errorf("ledger of %s is %+v", name, b)
		}
	}
	runs, err := f.a.Runs(f.ctx, jobstore.RunFilter{States: []jobstore.State{jobstore.Succeeded}})
	f.ok(err)
	if len(runs) != jobs*each {
		f.Errorf("%d runs succeeded, want %d", len(runs), jobs*each)
	}
}

// finishOnce ends runs well, and fails if one of their attempts was leased
// before or had been ended by another.
func (f *fixture) finishOnce(s jobstore.Store, leases *sync.Map, runs []jobstore.Run) error {
	var ends []jobstore.End
	for _, run := range runs {
		if _, twice := leases.LoadOrStore(leaseOf(run), true); twice {
			return errors.New("leased twice: " + run.Key)
		}
		ends = append(ends, succeeded(run))
	}
	out, err := s.Finish(f.ctx, ends)
	for _, e := range out {
		if e.Stale {
			return errors.New("a current attempt was told to be stale")
		}
	}
	return err
}

// drain claims and ends runs, by both handles, until none is open.
func (f *fixture) drain(leases *sync.Map) {
	f.Helper()
	f.both(2, func(s jobstore.Store, i int) error {
		for rounds := 0; ; rounds++ {
			got, err := s.Claim(f.ctx, jobstore.ClaimRequest{Node: named(i), Lease: lease, Limit: 20})
			if err != nil {
				return err
			}
			if err := f.finishOnce(s, leases, got.Runs); err != nil {
				return err
			}
			open, err := s.Backlog(f.ctx)
			if err != nil || len(open) == 0 {
				return err
			}
			if rounds > 10000 {
				return errors.New("a run waits for ever")
			}
		}
	})
}

func testClaimRace(f *fixture) {
	const n = 1000
	job := f.create("a", instances(0))
	var at []time.Time
	for i := range n {
		at = append(at, f.at(-n+i))
	}
	f.fire(0, f.plan(job, "", at...))
	var leased sync.Map
	var count atomic.Int64
	f.both(4, func(s jobstore.Store, i int) error {
		for {
			got, err := s.Claim(f.ctx, jobstore.ClaimRequest{Node: named(i), Lease: lease, Limit: 7})
			if err != nil {
				return err
			}
			for _, run := range got.Runs {
				if _, twice := leased.LoadOrStore(run.ID, i); twice || run.Attempt != 1 {
					return errors.New("leased twice: " + run.Key)
				}
			}
			if count.Add(int64(len(got.Runs))) >= n {
				return nil
			}
		}
	})
}

func testFinishRace(f *fixture) {
	const n = 200
	job := f.create("a", instances(0))
	var at []time.Time
	for i := range n {
		at = append(at, f.at(-n+i))
	}
	var ends []jobstore.End
	for _, run := range f.fire(n, f.plan(job, "", at...)).Leased {
		ends = append(ends, succeeded(run))
	}
	var counted atomic.Int64
	f.both(2, func(s jobstore.Store, i int) error {
		mine := append([]jobstore.End(nil), ends[i*n/8:]...) // in another order each
		mine = append(mine, ends[:i*n/8]...)
		for len(mine) > 0 {
			part := mine[:min(10, len(mine))]
			mine = mine[len(part):]
			out, err := s.Finish(f.ctx, part)
			if err != nil {
				return err
			}
			for _, e := range out {
				if !e.Stale {
					counted.Add(1)
				}
			}
		}
		return nil
	})
	if got := counted.Load(); got != n {
		f.Errorf("%d ends counted, want %d", got, n)
	}
}

func testTriggerRace(f *fixture) {
	f.create("a")
	req := jobstore.TriggerRequest{Job: "a", Target: "t", Key: jobstore.ManualKey("a", "t", "k")}
	var created, id atomic.Int64
	f.both(25, func(s jobstore.Store, _ int) error {
		run, first, err := s.Trigger(f.ctx, req)
		if err != nil {
			return err
		}
		if first {
			created.Add(1)
		}
		if !id.CompareAndSwap(0, run.ID) && id.Load() != run.ID {
			return errors.New("two runs of one key")
		}
		return nil
	})
	if got := created.Load(); got != 1 {
		f.Errorf("created %d times", got)
	}
}

func testSyncRace(f *fixture) {
	f.both(4, func(s jobstore.Store, i int) error {
		_, err := s.Sync(f.ctx, func(state jobstore.SyncState) (jobstore.Changes, error) {
			c := jobstore.Changes{Revision: int64(i)}
			have := map[string]bool{}
			for _, job := range state.Jobs {
				have[job.Name] = true
			}
			for n := range 20 {
				if !have[named(n)] {
					c.Create = append(c.Create, f.newJob(named(n)))
				}
			}
			return c, nil
		})
		return err
	})
	state := f.sync(jobstore.Changes{})
	if len(state.Jobs) != 20 || state.Revision != 7 {
		f.Errorf("%d jobs, revision %d", len(state.Jobs), state.Revision)
	}
}

func testReloadRace(f *fixture) {
	f.create("a", overlap(jobstore.OverlapQueueAll, jobstore.CoalesceAll))
	f.both(2, func(s jobstore.Store, i int) error {
		for n := range 30 {
			if i < 2 {
				_, err := s.Sync(f.ctx, func(state jobstore.SyncState) (jobstore.Changes, error) {
					u := update(state.Jobs[0])
					u.MaxInstances = 1 + n%3
					return jobstore.Changes{Update: []jobstore.JobUpdate{u}}, nil
				})
				if err != nil {
					return err
				}
				continue
			}
			jobs, err := s.Jobs(f.ctx, "a")
			if err != nil {
				return err
			}
			p := f.plan(jobs[0], "", jobs[0].LastPlanned.Add(time.Second))
			if _, err := s.Fire(f.ctx, jobstore.FireRequest{Node: named(i), Lease: lease, Slots: 1, Firings: []jobstore.Firing{p}}); err != nil {
				return err
			}
		}
		return nil
	})
	b := f.balanced()["a"]
	if got := f.job("a").LastPlanned.Sub(f.base.Add(-time.Hour)); got != time.Duration(b.Due)*time.Second {
		f.Errorf("%d instants were due in %v", b.Due, got)
	}
}

func testJoinRace(f *fixture) {
	var joined atomic.Int64
	f.both(4, func(s jobstore.Store, i int) error {
		err := s.Join(f.ctx, nodeNamed(node, named(i)))
		switch {
		case err == nil:
			joined.Add(1)
		case !errors.Is(err, jobstore.ErrNodeTaken):
			return err
		}
		return nil
	})
	if got := joined.Load(); got != 1 {
		f.Errorf("%d daemons joined", got)
	}
}
