package metrics_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/metrics"
)

func jobNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("job-%d", i)
	}
	return names
}

// run is one that started and has ended.
func run(job string, state jobstore.State) *jobstore.Run {
	at := time.Unix(1e9, 0)
	return &jobstore.Run{Job: job, State: state, Attempt: 1, Trigger: jobstore.TriggerSchedule, StartedAt: at, FinishedAt: at.Add(time.Second)}
}

func end(r *metrics.Recorder, job string) {
	r.Planned(job, &jobstore.Firing{Ranges: []jobstore.Range{
		{Count: 1, Outcome: jobstore.OutcomeMissed, Reason: jobstore.ReasonGrace}, {Count: 1, Outcome: jobstore.OutcomeCoalesced},
	}}, time.Millisecond)
	r.Started(run(job, jobstore.Running), time.Second)
	r.Attempted(job, jobstore.AttemptSucceeded)
	r.Ended(run(job, jobstore.Succeeded))
	r.Ended(&jobstore.Run{Job: job, State: jobstore.Missed, Reason: jobstore.ReasonDeadline})
	r.Ended(&jobstore.Run{Job: job, State: jobstore.Coalesced})
}

func TestALoadThatFailedTouchesNoSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := metrics.NewRecorder(reg)
	at := time.UnixMilli(1_700_000_000_500)
	r.Reloaded([]string{"a"}, at)
	end(r, "a")
	before := len(series(scrape(t, reg)))
	r.Reloaded(nil, at.Add(time.Hour))
	got := scrape(t, reg)
	for _, line := range []string{"tidemark_config_last_reload_successful 0", "tidemark_config_last_reload_timestamp_seconds 1.7000000005e+09"} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
	if after := len(series(got)); after != before {
		t.Errorf("%d series, %d before", after, before)
	}
	r.Reloaded([]string{"a"}, at)
	if got := scrape(t, reg); !strings.Contains(got, "tidemark_config_last_reload_successful 1\n") {
		t.Error(got)
	}
}

// `jobs: {}` is a file like any other.
func TestAFileWithoutJobsIsALoadThatSucceeded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := metrics.NewRecorder(reg)
	r.Reloaded([]string{"a"}, time.Now())
	end(r, "a")
	r.Reloaded([]string{}, time.Now())
	got := scrape(t, reg)
	if !strings.Contains(got, "tidemark_config_last_reload_successful 1\n") || len(ofJob(got, "a")) > 0 {
		t.Error(got)
	}
}

func TestAboveTwoThousandJobsHistogramsLoseTheJobsName(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := metrics.NewRecorder(reg)
	histograms := func() (named, merged int) {
		for _, s := range series(scrape(t, reg)) {
			if strings.HasPrefix(s, "tidemark_run_duration_seconds_count") || strings.HasPrefix(s, "tidemark_start_delay_seconds_count") {
				if strings.Contains(s, `job_name="job-`) {
					named++
				} else {
					merged++
				}
			}
		}
		return named, merged
	}
	many := jobNames(metrics.HistogramJobs + 1)
	few := many[:metrics.HistogramJobs]
	for i, step := range []struct {
		jobs          []string
		lost          bool
		named, merged int
	}{
		{few, false, 4, 0},
		{many, true, 0, 2},
		{many, false, 0, 2}, // said once
	} {
		if lost := r.Reloaded(step.jobs, time.Now()); lost != step.lost {
			t.Errorf("step %d: Reloaded reports %v", i, lost)
		}
		end(r, "job-1")
		end(r, "job-2")
		if named, merged := histograms(); named != step.named || merged != step.merged {
			t.Errorf("step %d: %d histograms with a job's name and %d without, not %d and %d", i, named, merged, step.named, step.merged)
		}
		if got := scrape(t, reg); !strings.Contains(got, `tidemark_runs_total{job_name="job-1",outcome="succeeded"}`) {
			t.Errorf("step %d: counters keep the name, always", i)
		}
	}
}

func TestReloadsAndRunsMayMeet(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := metrics.NewRecorder(reg)
	names := jobNames(20)
	r.Reloaded(names, time.Now())
	var wg sync.WaitGroup
	for _, name := range names[:8] {
		wg.Go(func() {
			for range 200 {
				end(r, name)
			}
		})
	}
	wg.Go(func() {
		for i := range 200 {
			r.Reloaded(names[:1+i%len(names)], time.Now())
		}
	})
	wg.Go(func() {
		for range 20 {
			scrape(t, reg)
		}
	})
	wg.Wait()
	r.Reloaded(names[:1], time.Now())
	for _, name := range names[1:] {
		if got := ofJob(scrape(t, reg), name); len(got) > 0 {
			t.Errorf("of %s there is still %v", name, got)
		}
	}
}
