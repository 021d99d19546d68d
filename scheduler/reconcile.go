package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Reconcile decides how the store's jobs must change to be those of the file
// (semantics 6). It is pure. A file of a lower revision than the store's
// changes nothing: what differs is then run by the nodes that have the newer
// file.
func Reconcile(file []*Job, revision int64, state jobstore.SyncState) (jobstore.Changes, error) {
	if revision < state.Revision {
		return jobstore.Changes{Revision: state.Revision}, nil
	}
	r := reconciler{now: state.Now, stored: map[string]*jobstore.Job{}, wanted: map[string]bool{}}
	r.out.Revision = revision
	for i := range state.Jobs {
		r.stored[state.Jobs[i].Name] = &state.Jobs[i]
	}
	for _, job := range file {
		r.wanted[job.Name] = true
	}
	for _, job := range file {
		if err := r.job(job); err != nil {
			return jobstore.Changes{}, err
		}
	}
	for i := range state.Jobs {
		r.remove(&state.Jobs[i])
	}
	return r.out, nil
}

type reconciler struct {
	now     time.Time
	stored  map[string]*jobstore.Job
	wanted  map[string]bool
	renamed map[int64]bool
	out     jobstore.Changes
}

func (r *reconciler) job(job *Job) error {
	old, known := r.stored[job.Name]
	if !known && job.RenamedFrom != "" && !r.wanted[job.RenamedFrom] {
		if old, known = r.stored[job.RenamedFrom]; known {
			if r.renamed == nil {
				r.renamed = map[int64]bool{}
			}
			r.renamed[old.ID] = true
		}
	}
	switch {
	case !known:
		return r.create(job)
	case !old.RemovedAt.IsZero():
		r.update(job, old, true) // it continues its watermark, and counts from now
	case old.Hash != job.Hash || old.Name != job.Name:
		changed := string(old.Schedule) != string(job.Definition.Schedule)
		if changed {
			r.closeOld(job, old)
		}
		r.update(job, old, changed)
	}
	return nil
}

// create starts a job from now: it has missed nothing. A job of one-shots alone
// is judged from the first of them, though that may have passed.
func (r *reconciler) create(job *Job) error {
	from := r.now
	oneShots, err := onlyOneShots(job)
	if err != nil {
		return err
	}
	if first, ok := job.Schedule.Next(time.Time{}); oneShots && ok && !first.After(from) {
		from = first.Add(-time.Microsecond)
	}
	next, _ := job.Schedule.Next(from)
	n := jobstore.NewJob{Definition: job.Definition, LastPlanned: from, NextFire: next}
	if job.FilePaused {
		n.Pause = r.filePause(jobstore.Pause{})
	}
	r.out.Create = append(r.out.Create, n)
	return nil
}

func onlyOneShots(job *Job) (bool, error) {
	var spec ScheduleSpec
	if err := json.Unmarshal(job.Definition.Schedule, &spec); err != nil {
		return false, fmt.Errorf("read the schedule of job %s: %w", job.Name, err)
	}
	for _, e := range spec.Expressions {
		if fields := strings.Fields(e); len(fields) == 0 || fields[0] != "@at" {
			return false, nil
		}
	}
	return true, nil
}

func (r *reconciler) update(job *Job, old *jobstore.Job, reschedule bool) {
	u := jobstore.JobUpdate{ID: old.ID, Definition: job.Definition, Reschedule: reschedule, Pause: old.Pause}
	if reschedule {
		u.LastPlanned = r.now
		if old.LastPlanned.After(r.now) {
			u.LastPlanned = old.LastPlanned // the clock went back: nothing fires twice
		}
		u.NextFire, _ = job.Schedule.Next(u.LastPlanned)
	}
	switch {
	case job.FilePaused && (!u.Pause.Active(r.now) || !u.Pause.Until.IsZero()):
		u.Pause = r.filePause(u.Pause)
	case !job.FilePaused && old.FilePaused && u.Pause.By == jobstore.PausedByFile:
		u.Pause.ResumedAt = r.now
	}
	r.out.Update = append(r.out.Update, u)
}

// filePause is the pause of a job that the file pauses, and lasts until the file
// ends it. It takes the place of one that a person has set an end to; one
// without an end stays the person's, and outlasts the file's.
func (r *reconciler) filePause(old jobstore.Pause) jobstore.Pause {
	p := jobstore.FilePause(r.now)
	if old.Active(r.now) {
		p.At = old.At
	}
	return p
}

// closeOld deals with what the old schedule still owes: superseded, or planned
// by it first where the job says `on_schedule_change: finish`.
func (r *reconciler) closeOld(job *Job, old *jobstore.Job) {
	schedule, err := storedSchedule(old)
	if err != nil {
		return // a schedule that cannot be read any more owes nothing
	}
	if job.OnScheduleChange == "finish" {
		r.finishOld(job, old, schedule)
		return
	}
	r.supersede(schedule, old, jobstore.ReasonSuperseded)
}

// finishOld plans what is due by the old schedule: not more runs than one plan
// may make, and nothing of a pause that goes on. What is left is superseded.
func (r *reconciler) finishOld(job *Job, old *jobstore.Job, schedule *Schedule) {
	before, state := *job, *old
	before.Schedule, before.Name = schedule, old.Name
	if state.Pause.Active(r.now) {
		state.Pause.ResumedAt, state.Pause.Until, state.Pause.Policy = r.now, time.Time{}, jobstore.ResumeSkip
	}
	plan := before.Plan(state, r.now, planLimit)
	if plan.Due == 0 {
		return
	}
	firing := before.Firing(state, plan, r.now)
	firing.EndPause = false
	if rest, ok := rangeOf(schedule, Interval{plan.LastPlanned, r.now}); ok {
		rest.Outcome, rest.Reason = jobstore.OutcomeSuperseded, jobstore.ReasonSuperseded
		firing.Ranges = append(firing.Ranges, rest)
		firing.Due, firing.LastPlanned = firing.Due+rest.Count, rest.Last
	}
	r.out.Firings = append(r.out.Firings, firing)
}

func (r *reconciler) supersede(schedule *Schedule, old *jobstore.Job, reason string) {
	owed, ok := rangeOf(schedule, Interval{old.LastPlanned, r.now})
	if !ok {
		return
	}
	owed.Outcome, owed.Reason = jobstore.OutcomeSuperseded, reason
	r.out.Firings = append(r.out.Firings, jobstore.Firing{
		JobID: old.ID, Version: old.Version, LastPlanned: owed.Last, NextFire: old.NextFire,
		Due: owed.Count, Ranges: []jobstore.Range{owed},
	})
}

func (r *reconciler) remove(old *jobstore.Job) {
	if r.wanted[old.Name] || r.renamed[old.ID] || !old.RemovedAt.IsZero() {
		return
	}
	if schedule, err := storedSchedule(old); err == nil {
		r.supersede(schedule, old, jobstore.ReasonRemoved)
	}
	r.out.Remove = append(r.out.Remove, old.ID)
}

// storedSchedule is the schedule that the store has for a job.
func storedSchedule(job *jobstore.Job) (*Schedule, error) {
	var spec ScheduleSpec
	if err := json.Unmarshal(job.Schedule, &spec); err != nil {
		return nil, fmt.Errorf("read the stored schedule of job %s: %w", job.Name, err)
	}
	s, err := ParseSchedule(spec)
	if err != nil {
		return nil, fmt.Errorf("read the stored schedule of job %s: %w", job.Name, err)
	}
	return s, nil
}

// Reconciled is the store's jobs by name as the changes would leave them, but
// for their versions. It is what `plan` plans from.
func Reconciled(changes jobstore.Changes, state jobstore.SyncState) map[string]jobstore.Job {
	byID := map[int64]jobstore.Job{}
	for _, job := range state.Jobs {
		byID[job.ID] = job
	}
	for _, id := range changes.Remove {
		delete(byID, id)
	}
	for _, f := range changes.Firings {
		if job, ok := byID[f.JobID]; ok {
			job.LastPlanned, job.NextFire, job.Due = f.LastPlanned, f.NextFire, job.Due+f.Due
			byID[f.JobID] = job
		}
	}
	for _, u := range changes.Update {
		job := byID[u.ID]
		job.Definition, job.Pause, job.RemovedAt = u.Definition, u.Pause, time.Time{}
		if u.Reschedule {
			job.LastPlanned, job.NextFire = u.LastPlanned, u.NextFire
		}
		byID[u.ID] = job
	}
	out := make(map[string]jobstore.Job, len(byID)+len(changes.Create))
	for _, job := range byID {
		out[job.Name] = job
	}
	for _, n := range changes.Create {
		out[n.Name] = jobstore.Job{Definition: n.Definition, LastPlanned: n.LastPlanned, NextFire: n.NextFire, Pause: n.Pause, CreatedAt: state.Now}
	}
	return out
}
