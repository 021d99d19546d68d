package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/metrics"
)

func TestARemovedJobStaysGoneWhateverEndsOfIt(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := metrics.NewRecorder(reg)
	r.Reloaded([]string{"kept", "removed"}, time.Now())
	end(r, "kept")
	end(r, "removed")
	if got := ofJob(scrape(t, reg), "removed"); len(got) < 10 {
		t.Fatal(got)
	}
	r.Reloaded([]string{"kept"}, time.Now())
	if got := ofJob(scrape(t, reg), "removed"); len(got) > 0 {
		t.Errorf("still there: %v", got)
	}
	end(r, "removed")
	end(r, "kept")
	got := scrape(t, reg)
	if back := ofJob(got, "removed"); len(back) > 0 {
		t.Errorf("back again: %v", back)
	}
	if !strings.Contains(got, `tidemark_runs_total{job_name="kept",outcome="succeeded"} 2`) {
		t.Error(got)
	}
	// Added again, it is counted from nothing.
	r.Reloaded([]string{"kept", "removed"}, time.Now())
	end(r, "removed")
	if got := scrape(t, reg); !strings.Contains(got, `tidemark_runs_total{job_name="removed",outcome="succeeded"} 1`) {
		t.Error(got)
	}
}

func TestARemovedJobHasNoGauges(t *testing.T) {
	b := newBench(t, "kept", "removed")
	defer b.store.Close()
	b.collect()
	for _, job := range []string{"kept", "removed"} {
		b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, b.fire(job, 2, "")...)
	}
	running := b.fire("removed", 1, "")
	if got := ofJob(scrape(t, b.registry), "removed"); len(got) < 10 {
		t.Fatal(got)
	}
	id := b.job("removed").ID
	b.sync(func(jobstore.SyncState) jobstore.Changes { return jobstore.Changes{Remove: []int64{id}} })
	b.recorder.Reloaded([]string{"kept"}, time.Now())
	if got := ofJob(scrape(t, b.registry), "removed"); len(got) > 0 {
		t.Errorf("still there: %v", got)
	}
	if got := ofJob(scrape(t, b.registry), "kept"); len(got) < 10 {
		t.Errorf("of the job that stays there is only %v", got)
	}
	// It had a run under way, which ends now.
	b.finish(jobstore.Succeeded, jobstore.AttemptSucceeded, running...)
	if got := ofJob(scrape(t, b.registry), "removed"); len(got) > 0 {
		t.Errorf("back again: %v", got)
	}
}
