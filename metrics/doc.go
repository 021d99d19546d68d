// Package metrics exposes what Tidemark does to Prometheus. Recorder is the
// scheduler's observer: it counts what this node does. Collector reads the
// store when it is scraped: what must survive a restart, such as the time of
// the last success, is never kept in memory. Labels are bounded: a job's name,
// an outcome, a state, a reason; never a target or a run.
package metrics
