package daemon

import (
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/internal/pgtest"
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
