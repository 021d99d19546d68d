package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkd/tidemark/internal/config"
)

// manyJobs writes a config of n jobs and returns its path.
func manyJobs(tb testing.TB, n int) string {
	tb.Helper()
	var b strings.Builder
	b.WriteString("defaults: {misfire_grace_time: 10m, coalesce: latest}\njobs:\n")
	for i := range n {
		fmt.Fprintf(&b, "  job-%05d:\n    schedule: \"%d %d %d %d *\"\n    exec: {command: [\"true\"]}\n", i, i%60, i/60%24, 1+i%28, 1+i%12)
	}
	path := filepath.Join(tb.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// What a start with twenty thousand jobs reads and makes before the store.
func BenchmarkLoadTwentyThousandJobs(b *testing.B) {
	path := manyJobs(b, 20000)
	b.ReportAllocs()
	for b.Loop() {
		cfg, err := config.Load(path, config.Options{})
		if err != nil {
			b.Fatal(err)
		}
		var d databases
		if jobs, err := d.jobs(cfg); err != nil || len(jobs) != 20000 {
			b.Fatal(len(jobs), err)
		}
	}
}
