package daemon

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// The ratio to the hand-written cycle is what `tidemark bench dispatch` prints.
func BenchmarkDispatch(b *testing.B) {
	for name, address := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(b.TempDir(), "bench.db"),
		"postgres": pgtest.NewDatabase(b),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				res, err := BenchDispatch(b.Context(), address, 20000, zap.NewNop())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(res.PerSecond, "runs/s")
				b.ReportMetric(res.Ratio, "of-handwritten")
			}
		})
	}
}

// A fire costs what is due, not what is registered.
func BenchmarkFireOneJobAmong(b *testing.B) {
	for name, address := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(b.TempDir(), "bench.db"),
		"postgres": pgtest.NewDatabase(b),
	} {
		for _, jobs := range []int{20, 20_000} {
			b.Run(fmt.Sprintf("%s/%d", name, jobs), func(b *testing.B) {
				store, drop, err := openScratch(b.Context(), address)
				if err != nil {
					b.Fatal(err)
				}
				defer func() {
					if err := drop(); err != nil {
						b.Error(err)
					}
				}()
				fireOneAmong(b, store, jobs)
			})
		}
	}
}

// fireOneAmong looks for due jobs, of which there is one among many, fires it
// and ends its run.
func fireOneAmong(b *testing.B, store jobstore.Store, jobs int) {
	b.Helper()
	now := time.Now()
	_, err := store.Sync(b.Context(), func(jobstore.SyncState) (c jobstore.Changes, _ error) {
		for i := range jobs {
			n := jobstore.NewJob{LastPlanned: now.Add(-time.Hour), NextFire: now.Add(24 * time.Hour)}
			n.Definition = jobstore.Definition{
				Name: fmt.Sprintf("job-%05d", i), JSON: []byte("{}"), Schedule: []byte("{}"),
				Overlap: jobstore.OverlapQueue, Coalesce: jobstore.CoalesceLatest, MaxInstances: 1, Windowed: true,
			}
			if i == 0 {
				n.NextFire = now.Add(-time.Hour)
			}
			c.Create = append(c.Create, n)
		}
		return c, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		due, err := store.Due(b.Context(), jobstore.DueRequest{Limit: 500})
		if err != nil || len(due.Jobs) != 1 {
			b.Fatal(len(due.Jobs), err)
		}
		job := due.Jobs[0]
		at := now.Add(-time.Hour + time.Duration(n)*time.Microsecond)
		fired, err := store.Fire(b.Context(), jobstore.FireRequest{Node: "n", Lease: time.Minute, Slots: 1, Firings: []jobstore.Firing{{
			JobID: job.ID, Version: job.Version, LastPlanned: at, NextFire: at.Add(time.Microsecond), Due: 1,
			Runs: []jobstore.NewRun{{Key: jobstore.Key(job.Name, "", at), FireTime: at, Trigger: jobstore.TriggerSchedule, NotBefore: at, Covers: 1, WindowTo: at}},
		}}})
		if err != nil || len(fired.Leased) != 1 {
			b.Fatal(len(fired.Leased), err)
		}
		run := fired.Leased[0]
		end := jobstore.End{Lease: jobstore.Lease{RunID: run.ID, Attempt: run.Attempt}, State: jobstore.Succeeded, Outcome: jobstore.AttemptSucceeded}
		if _, err := store.Finish(b.Context(), []jobstore.End{end}); err != nil {
			b.Fatal(err)
		}
	}
}
