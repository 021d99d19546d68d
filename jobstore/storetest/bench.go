package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// benchBatch is how many runs one call takes in Bench.
const benchBatch = 1000

// byHand is what a store offers to be compared with: the same rows inserted and
// updated without any rule.
type byHand interface {
	HandwrittenCycle(ctx context.Context, runs, batch int) (time.Duration, error)
}

// Bench measures runs that are fired with their leases and finished, in batches
// of a thousand, and beside that, in a store of the same kind, rows by hand.
func Bench(b *testing.B, open Open) {
	b.Run("store", func(b *testing.B) {
		f := newFixture(b, open)
		var c jobstore.Changes
		for i := range benchBatch {
			c.Create = append(c.Create, f.newJob(named(i), windowed))
		}
		jobs := f.sync(c).Jobs
		b.ResetTimer()
		for i := range b.N {
			at := f.base.Add(time.Duration(i-1000000) * time.Millisecond)
			var plans []jobstore.Firing
			for j := range jobs {
				plans = append(plans, f.plan(jobs[j], "", at))
				jobs[j].Version++
			}
			fired := f.fire(benchBatch, plans...)
			if len(fired.Leased) != benchBatch {
				b.Fatalf("leased %d", len(fired.Leased))
			}
			var ends []jobstore.End
			for _, run := range fired.Leased {
				ends = append(ends, succeeded(run))
			}
			f.finish(ends...)
		}
		perSecond(b)
	})
	b.Run("by-hand", func(b *testing.B) {
		f := newFixture(b, open)
		b.ResetTimer()
		_, err := f.a.(byHand).HandwrittenCycle(f.ctx, b.N*benchBatch, benchBatch)
		f.ok(err)
		perSecond(b)
	})
}

func perSecond(b *testing.B) {
	b.ReportMetric(float64(b.N*benchBatch)/b.Elapsed().Seconds(), "runs/s")
}
