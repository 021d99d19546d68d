package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Source is what a scrape reads.
type Source struct {
	Store jobstore.Registry
	// Overdue is how long the oldest fire time since after, plus grace, has been
	// due without a success; 0 when in order.
	Overdue func(job jobstore.Job, after time.Time) time.Duration
	// Current reports whether the job still has the target: one that has left the
	// file keeps its history, and holds up nothing.
	Current func(job, target string) bool
	// Node is what this node says of itself.
	Node func() NodeState
	// Failed is told of a scrape that could not read the store.
	Failed func(error)
	// Timeout bounds the reads of one scrape.
	Timeout time.Duration
}

// NodeState is a node's own gauges.
type NodeState struct {
	ClockOffset time.Duration // node minus store
	Mismatched  []string      // jobs whose definition here differs from the store's
}

// Collector reads the store at scrape time. When the store cannot be read, the
// scrape goes on without what it holds.
type Collector struct {
	src                                                      Source
	runs, backlog, nextFire, lastSuccess, overdue, watermark *prometheus.Desc
	offset, mismatch                                         *prometheus.Desc
}

// NewCollector makes a collector; register it.
func NewCollector(src Source) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Collector{
		src:         src,
		runs:        desc("tidemark_runs", "Runs that have not ended, by state.", "job_name", "state"),
		backlog:     desc("tidemark_dispatch_backlog", "Runs that wait to be started, over all jobs."),
		nextFire:    desc("tidemark_next_fire_timestamp_seconds", "The job's next fire time.", "job_name"),
		lastSuccess: desc("tidemark_last_success_timestamp_seconds", "When a run of the job last succeeded; the oldest of its targets.", "job_name"),
		overdue:     desc("tidemark_overdue_seconds", "How long the oldest fire time without a success is past its grace; 0 when in order.", "job_name"),
		watermark:   desc("tidemark_watermark_timestamp_seconds", "Up to where results are confirmed; the oldest of the job's targets.", "job_name"),
		offset:      desc("tidemark_store_clock_offset_seconds", "The node's clock minus the store's."),
		mismatch:    desc("tidemark_config_mismatch", "1 for a job whose definition on this node differs from the store's.", "job_name"),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.runs, c.backlog, c.nextFire, c.lastSuccess, c.overdue, c.watermark, c.offset, c.mismatch} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	node := c.src.Node()
	gauge(c.offset, node.ClockOffset.Seconds())
	for _, job := range node.Mismatched {
		if job != "" {
			gauge(c.mismatch, 1, job)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.src.Timeout)
	defer cancel()
	if err := c.collectStore(ctx, gauge); err != nil {
		c.src.Failed(err)
	}
}

func (c *Collector) collectStore(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) error {
	jobs, err := c.src.Store.Agenda(ctx)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j jobstore.Job) bool { return !j.RemovedAt.IsZero() })
	targets, err := c.src.Store.Targets(ctx)
	if err != nil {
		return err
	}
	open, err := c.src.Store.Backlog(ctx)
	if err != nil {
		return err
	}
	names := make(map[int64]string, len(jobs))
	for i := range jobs {
		names[jobs[i].ID] = jobs[i].Name
	}
	targets = slices.DeleteFunc(targets, func(t jobstore.Target) bool { return !c.src.Current(names[t.JobID], t.Target) })
	oldest := oldestTargets(targets)
	pending := int64(0)
	for i := range jobs {
		job := &jobs[i]
		c.collectJob(job, oldest[job.ID], gauge)
		for state, n := range open[job.Name] {
			gauge(c.runs, float64(n), job.Name, string(state))
			if state == jobstore.Pending {
				pending += n
			}
		}
	}
	gauge(c.backlog, float64(pending))
	return nil
}

func (c *Collector) collectJob(job *jobstore.Job, t jobstore.Target, gauge func(*prometheus.Desc, float64, ...string)) {
	at := func(d *prometheus.Desc, t time.Time) {
		if !t.IsZero() {
			gauge(d, float64(t.UnixMicro())/1e6, job.Name)
		}
	}
	if !job.Pause.Active(time.Now()) {
		at(c.nextFire, job.NextFire)
	}
	at(c.lastSuccess, t.LastSuccessAt)
	at(c.watermark, t.Watermark)
	gauge(c.overdue, c.src.Overdue(*job, t.LastSuccessFire).Seconds(), job.Name)
}

// oldestTargets merges a job's targets: of each time the oldest, and none
// where a target has none.
func oldestTargets(targets []jobstore.Target) map[int64]jobstore.Target {
	oldest := make(map[int64]jobstore.Target, len(targets))
	earlier := func(a, b time.Time) time.Time {
		if b.Before(a) {
			return b
		}
		return a
	}
	for _, t := range targets {
		if t.LastSuccessFire.IsZero() {
			t.LastSuccessFire = t.Watermark // a new target owes nothing from before it
		}
		if known, ok := oldest[t.JobID]; ok {
			t.Watermark = earlier(t.Watermark, known.Watermark)
			t.LastSuccessAt = earlier(t.LastSuccessAt, known.LastSuccessAt)
			t.LastSuccessFire = earlier(t.LastSuccessFire, known.LastSuccessFire)
		}
		oldest[t.JobID] = t
	}
	return oldest
}
