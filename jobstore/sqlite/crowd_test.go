package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// A run that ends and lets the next go costs the same however many wait.
func BenchmarkFinishInACrowd(b *testing.B) {
	for _, n := range []int{10, 1000, 30000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := openFile(b, inMemory, Options{Create: true})
			if err := s.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			run := crowd(b, s, n)
			b.ResetTimer()
			for range b.N {
				lease := jobstore.Lease{RunID: run.ID, Attempt: run.Attempt}
				if _, err := s.Finish(b.Context(), []jobstore.End{{Lease: lease, State: jobstore.Succeeded}}); err != nil {
					b.Fatal(err)
				}
				got, err := s.Claim(b.Context(), jobstore.ClaimRequest{Node: "n1", Lease: time.Minute, Limit: 1})
				if err != nil {
					b.Fatal(err)
				}
				if len(got.Runs) == 0 { // it has worked off all
					b.StopTimer()
					run = crowd(b, s, n)
					b.StartTimer()
					continue
				}
				run = got.Runs[0]
			}
		})
	}
}

// crowd is a job with n runs of one target, of which one is leased.
func crowd(b *testing.B, s *Store, n int) jobstore.Run {
	b.Helper()
	var job jobstore.Job
	state, err := s.Sync(b.Context(), func(st jobstore.SyncState) (jobstore.Changes, error) {
		d := jobstore.Definition{Name: fmt.Sprint("crowd-", len(st.Jobs)), Overlap: jobstore.OverlapQueueAll, MaxInstances: 1}
		return jobstore.Changes{Create: []jobstore.NewJob{{Definition: d, LastPlanned: st.Now.Add(-time.Hour)}}}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, j := range state.Jobs {
		if j.ID > job.ID {
			job = j
		}
	}
	p := jobstore.Firing{JobID: job.ID, Version: job.Version, LastPlanned: state.Now, Due: int64(n)}
	for i := range n {
		at := state.Now.Add(time.Duration(i-n) * time.Second)
		p.Runs = append(p.Runs, jobstore.NewRun{
			Key: jobstore.Key(job.Name, "", at), FireTime: at, Trigger: jobstore.TriggerCatchUp, NotBefore: at, Covers: 1,
		})
	}
	fired, err := s.Fire(b.Context(), jobstore.FireRequest{Node: "n1", Lease: time.Minute, Slots: 1, Firings: []jobstore.Firing{p}})
	if err != nil || len(fired.Leased) != 1 {
		b.Fatalf("leased %d, %v", len(fired.Leased), err)
	}
	return fired.Leased[0]
}
