package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// testOverlapRace has runs of one target come due, be asked for and be canceled
// while others end: nothing that the rules let go may overlap or be forgotten.
func testOverlapRace(f *fixture) {
	const each = 40
	f.create("a", windowed)
	work := func(s jobstore.Store, runs []jobstore.Run) error {
		for _, run := range runs {
			running, err := s.Runs(f.ctx, jobstore.RunFilter{States: []jobstore.State{jobstore.Running, jobstore.Retrying}})
			if err != nil {
				return err
			}
			if len(running) > 1 {
				return fmt.Errorf("at once: %v", keysOf(running))
			}
			if _, err := s.Finish(f.ctx, []jobstore.End{succeeded(run)}); err != nil {
				return err
			}
		}
		return nil
	}
	f.both(4, func(s jobstore.Store, i int) error {
		for n := range each {
			var runs []jobstore.Run
			switch i / 2 {
			case 0:
				jobs, err := s.Jobs(f.ctx, "a")
				if err != nil {
					return err
				}
				fired, err := s.Fire(f.ctx, jobstore.FireRequest{
					Node: named(i), Lease: lease, Slots: n % 2,
					Firings: []jobstore.Firing{f.plan(jobs[0], "", jobs[0].LastPlanned.Add(time.Second))},
				})
				if err != nil {
					return err
				}
				runs = fired.Leased
			case 1:
				key := jobstore.ManualKey("a", "", named(1000*i+n))
				if _, _, err := s.Trigger(f.ctx, jobstore.TriggerRequest{Job: "a", Key: key}); err != nil {
					return err
				}
				if n%3 == 0 {
					_, err := s.Cancel(f.ctx, key, "ops")
					if err != nil && !errors.Is(err, jobstore.ErrState) {
						return err
					}
				}
			default:
				got, err := s.Claim(f.ctx, jobstore.ClaimRequest{Node: named(i), Lease: lease, Limit: 2})
				if err != nil {
					return err
				}
				runs = got.Runs
			}
			if err := work(s, runs); err != nil {
				return err
			}
		}
		return nil
	})
	for rounds := 0; ; rounds++ {
		open, err := f.a.Backlog(f.ctx)
		f.ok(err)
		if len(open) == 0 {
			break
		}
		if rounds > 10*each {
			f.Fatalf("left for ever: %v", open)
		}
		f.ok(work(f.b, f.claim(2).Runs))
	}
	f.balanced()
}

func testTileRace(f *fixture) {
	const jobs, rounds = 40, 15
	var firings func(k int) []jobstore.Firing
	for i := range jobs {
		f.create(fmt.Sprintf("job-%02d", i), windowed)
	}
	firings = func(k int) (out []jobstore.Firing) {
		for i := range jobs {
			out = append(out, f.plan(f.job(fmt.Sprintf("job-%02d", i)), "", f.at(k-rounds)))
		}
		return out
	}
	running := f.fire(jobs, firings(0)...).Leased
	for k := 1; k < rounds; k++ {
		next := firings(k)
		var leased []jobstore.Run
		var both sync.WaitGroup
		both.Go(func() { leased = f.fire(jobs, next...).Leased })
		both.Go(func() {
			for i := 0; i < len(running); i += 5 {
				for _, run := range running[i:min(i+5, len(running))] {
					_, err := f.b.Finish(f.ctx, []jobstore.End{succeeded(run)})
					f.ok(err)
				}
			}
		})
		both.Wait()
		running = append(leased, f.claim(jobs).Runs...)
	}
	for i := range jobs {
		runs, err := f.a.Runs(f.ctx, jobstore.RunFilter{Job: fmt.Sprintf("job-%02d", i), States: []jobstore.State{jobstore.Succeeded}})
		f.ok(err)
		for n := 1; n < len(runs); n++ {
			if !runs[n-1].WindowFrom.Equal(runs[n].WindowTo) {
				f.Errorf("%s begins at %v, %s ended at %v", runs[n-1].Key, runs[n-1].WindowFrom, runs[n].Key, runs[n].WindowTo)
			}
		}
	}
}
