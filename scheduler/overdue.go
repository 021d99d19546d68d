package scheduler

import (
	"slices"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Overdue is how long the oldest fire time without a success is past its
// grace: 0 when in order, while the job is paused, and for jobs that this node
// does not have. success is the newest fire time that a success covers, zero if
// there is none. Under unlimited grace a run is overdue from its instant on.
func (s *Scheduler) Overdue(stored jobstore.Job, success time.Time) time.Duration {
	s.loaded.RLock()
	job := s.jobs[stored.Name]
	s.loaded.RUnlock()
	now := time.Now().Add(-time.Duration(s.offset.Load()))
	if job == nil || stored.Pause.Active(now) {
		return 0
	}
	return job.Overdue(stored, success, now)
}

// Overdue is like Scheduler.Overdue, at a given instant.
func (j *Job) Overdue(stored jobstore.Job, success, now time.Time) time.Duration {
	after := stored.CountsFrom
	if success.After(after) {
		after = success
	}
	owed, ok := j.Schedule.Next(after)
	if !ok || owed.After(stored.LastPlanned) && owed.After(now) {
		return 0
	}
	return max(now.Sub(owed)-max(j.Grace, 0), 0)
}

// HasTarget reports whether the job, as this node knows it, has the target; of
// a job that it does not know every target counts.
func (s *Scheduler) HasTarget(job, target string) bool {
	s.loaded.RLock()
	defer s.loaded.RUnlock()
	known := s.jobs[job]
	return known == nil || slices.Contains(known.Targets, target)
}
