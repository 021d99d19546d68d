package sqlite

import (
	"testing"

	"github.com/tidemarkd/tidemark/jobstore/storetest"
)

func BenchmarkFireFinish(b *testing.B) { storetest.Bench(b, openTwo) }
