package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// BenchmarkCycle fires and finishes runs in batches of a thousand, beside the
// cycle that a person would write by hand who needs no scheduler. ratio is how
// many runs Tidemark records in the time of one by hand, and 1 if it were free.
func BenchmarkCycle(b *testing.B) {
	const batch = 1000
	for _, shape := range []struct {
		name          string
		jobs, targets int
	}{
		{"one job of a thousand targets", 1, batch},
		{"a thousand jobs", batch, 1},
	} {
		b.Run(shape.name, func(b *testing.B) {
			s := open(b)
			var defs []jobstore.Definition
			for i := range shape.jobs {
				defs = append(defs, definition(fmt.Sprintf("job-%04d", i)))
			}
			create(b, s, defs...)
			targets := make([]string, shape.targets)
			for i := range targets {
				targets[i] = fmt.Sprintf("target-%04d", i)
			}
			at := time.Now().Add(-time.Hour)
			var own, hand time.Duration
			for b.Loop() {
				took, err := s.HandwrittenCycle(b.Context(), batch, batch)
				if err != nil {
					b.Fatal(err)
				}
				hand += took
				if _, err := s.pool.Exec(b.Context(), "DELETE FROM tidemark_runs WHERE node = 'hand'"); err != nil {
					b.Fatal(err)
				}
				jobs, err := s.Jobs(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				at = at.Add(time.Second)
				began := time.Now()
				cycle(b, s, jobs, at, targets)
				own += time.Since(began)
			}
			b.ReportMetric(batch*float64(b.N)/own.Seconds(), "runs/s")
			b.ReportMetric(float64(hand)/float64(own), "ratio")
		})
	}
}

func cycle(b *testing.B, s *Store, jobs []jobstore.Job, at time.Time, targets []string) {
	firings := make([]jobstore.Firing, len(jobs))
	for i := range jobs {
		firings[i] = plan(jobs[i], at, targets...)
	}
	fired := fire(b, s, 1000, firings...)
	if len(fired.Leased) != 1000 {
		b.Fatalf("leased %d", len(fired.Leased))
	}
	ends := make([]jobstore.End, len(fired.Leased))
	for i := range fired.Leased {
		ends[i] = end(fired.Leased[i], jobstore.Succeeded)
	}
	if _, err := s.Finish(b.Context(), ends); err != nil {
		b.Fatal(err)
	}
}
