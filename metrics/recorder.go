package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkd/tidemark/jobstore"
)

// HistogramJobs is the number of jobs above which histograms lose the job's
// name as a label, for a histogram has a dozen series for each.
const HistogramJobs = 2000

// Recorder counts what this node does. It is safe for concurrent use.
type Recorder struct {
	runs, missed, attempts *prometheus.CounterVec
	coalesced, storeErrors *prometheus.CounterVec
	duration, startDelay   *prometheus.HistogramVec
	planDuration           prometheus.Observer
	leasesLost, takeovers  prometheus.Counter
	reloadOK, reloadAt     prometheus.Gauge

	mu     sync.Mutex
	jobs   map[string]bool
	merged bool // histograms without the job's name
}

// NewRecorder registers the metrics with reg.
func NewRecorder(reg prometheus.Registerer) *Recorder {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		reg.MustRegister(h)
		return h
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	fine := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 1800, 7200, 43200}
	return &Recorder{
		runs:         counter("tidemark_runs_total", "Runs that ended, by outcome, counted by the node that ended them.", "job_name", "outcome"),
		missed:       counter("tidemark_missed_total", "Fire times that were missed, by reason.", "job_name", "reason"),
		coalesced:    counter("tidemark_coalesced_total", "Fire times that were folded into another run.", "job_name"),
		attempts:     counter("tidemark_attempts_total", "Attempts that ended, by outcome.", "job_name", "outcome"),
		storeErrors:  counter("tidemark_store_errors_total", "Operations on the store that failed.", "op"),
		duration:     histogram("tidemark_run_duration_seconds", "From a run's first start to its end.", fine, "job_name"),
		startDelay:   histogram("tidemark_start_delay_seconds", "From a run's scheduled instant plus jitter to the start of its first attempt.", fine, "job_name"),
		planDuration: histogram("tidemark_plan_duration_seconds", "Planning and recording one job's plan.", []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5}).WithLabelValues(),
		leasesLost:   counter("tidemark_leases_lost_total", "Attempts of this node that lost their lease.").WithLabelValues(),
		takeovers:    counter("tidemark_takeovers_total", "Attempts begun here after another one's lease had ended.").WithLabelValues(),
		reloadOK:     gauge("tidemark_config_last_reload_successful", "1 if the last load of the config file succeeded."),
		reloadAt:     gauge("tidemark_config_last_reload_timestamp_seconds", "When the config file was last loaded successfully."),
	}
}

// Planned counts the instants of a plan that make no run.
func (r *Recorder) Planned(job string, firing *jobstore.Firing, took time.Duration) {
	r.planDuration.Observe(took.Seconds())
	if !r.knows(job) {
		return
	}
	for i := range firing.Ranges {
		switch g := &firing.Ranges[i]; g.Outcome {
		case jobstore.OutcomeMissed:
			r.missed.WithLabelValues(job, g.Reason).Add(float64(g.Count))
		case jobstore.OutcomeCoalesced:
			r.coalesced.WithLabelValues(job).Add(float64(g.Count))
		}
	}
}

// Started observes the start of an attempt.
func (r *Recorder) Started(run *jobstore.Run, delay time.Duration) {
	if r.knows(run.Job) && run.Attempt == 1 && run.Trigger != jobstore.TriggerManual {
		r.startDelay.WithLabelValues(r.histogramJob(run.Job)).Observe(max(delay, 0).Seconds())
	}
}

// Attempted counts an attempt that ended.
func (r *Recorder) Attempted(job string, outcome jobstore.AttemptOutcome) {
	if r.knows(job) {
		r.attempts.WithLabelValues(job, string(outcome)).Inc()
	}
}

// Ended counts a run that ended.
func (r *Recorder) Ended(run *jobstore.Run) {
	if !r.knows(run.Job) {
		return
	}
	r.runs.WithLabelValues(run.Job, string(run.State)).Inc()
	switch run.State {
	case jobstore.Missed:
		r.missed.WithLabelValues(run.Job, run.Reason).Inc()
	case jobstore.Coalesced:
		r.coalesced.WithLabelValues(run.Job).Inc()
	}
	if !run.StartedAt.IsZero() {
		r.duration.WithLabelValues(r.histogramJob(run.Job)).Observe(run.FinishedAt.Sub(run.StartedAt).Seconds())
	}
}

// Leases counts leases lost and taken over.
func (r *Recorder) Leases(lost, taken int) {
	r.leasesLost.Add(float64(lost))
	r.takeovers.Add(float64(taken))
}

// StoreFailed counts an operation on the store that failed.
func (r *Recorder) StoreFailed(op string) { r.storeErrors.WithLabelValues(op).Inc() }

// Reloaded records a load of the config file; jobs are the names that it
// holds, nil if it failed. Series of jobs that are gone are dropped. It reports
// whether the histograms have just lost the job's name.
func (r *Recorder) Reloaded(jobs []string, now time.Time) (merged bool) {
	if jobs == nil {
		r.reloadOK.Set(0)
		return false
	}
	r.reloadOK.Set(1)
	r.reloadAt.Set(float64(now.UnixMilli()) / 1000)

	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.jobs
	r.jobs = make(map[string]bool, len(jobs))
	for _, job := range jobs {
		r.jobs[job] = true
	}
	for job := range old {
		if !r.jobs[job] {
			r.drop(job)
		}
	}
	was := r.merged
	r.merged = len(jobs) > HistogramJobs
	for job := range r.jobs {
		if !r.merged && (was || !old[job]) {
			r.begin(job)
		}
	}
	if r.merged != was {
		r.duration.Reset()
		r.startDelay.Reset()
	}
	return r.merged && !was
}

// knows reports whether the job is in the file: what is still to tell of a job
// that was removed must not bring its series back.
func (r *Recorder) knows(job string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs == nil || r.jobs[job]
}

// begin makes the series that alerts look at, at zero: a counter that is born
// with its first event has no increase.
func (r *Recorder) begin(job string) {
	r.coalesced.WithLabelValues(job)
	for _, reason := range []string{jobstore.ReasonGrace, jobstore.ReasonDeadline} {
		r.missed.WithLabelValues(job, reason)
	}
	for _, state := range []jobstore.State{jobstore.Succeeded, jobstore.Failed} {
		r.runs.WithLabelValues(job, string(state))
	}
}

func (r *Recorder) drop(job string) {
	label := prometheus.Labels{"job_name": job}
	for _, c := range []*prometheus.CounterVec{r.runs, r.missed, r.coalesced, r.attempts} {
		c.DeletePartialMatch(label)
	}
	r.duration.DeletePartialMatch(label)
	r.startDelay.DeletePartialMatch(label)
}

func (r *Recorder) histogramJob(job string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.merged {
		return ""
	}
	return job
}
