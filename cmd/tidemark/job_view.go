package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// jobView is a job as people see it: its targets taken together.
type jobView struct {
	job      *jobstore.Job
	now      time.Time
	schedule string
	zone     string
	targets  []jobstore.Target
	open     map[jobstore.State]int64

	last      jobstore.Target // the target that ended last
	watermark time.Time       // the oldest of its targets
	success   time.Time       // newest fire time that all targets' successes cover
	review    bool            // a failure of any target waits for a person
	overdue   time.Duration
}

func newJobView(job *jobstore.Job, targets []jobstore.Target, open map[jobstore.State]int64, now time.Time) *jobView {
	v := &jobView{job: job, now: now, open: open, schedule: expressionText(specOf(job.Schedule))}
	wanted := targetsOf(job)
	for i, t := range targets {
		if t.JobID == job.ID && (len(wanted) == 0 || slices.Contains(wanted, t.Target)) {
			v.add(&targets[i], len(v.targets) == 0)
		}
	}
	if len(v.targets) < len(wanted) {
		v.success = time.Time{} // one has not ended once
	}
	v.judge()
	return v
}

func (v *jobView) add(t *jobstore.Target, first bool) {
	v.targets = append(v.targets, *t)
	if v.last.LastFinishedAt.Before(t.LastFinishedAt) {
		v.last = *t
	}
	if first || t.Watermark.Before(v.watermark) {
		v.watermark = t.Watermark
	}
	if first || t.LastSuccessFire.Before(v.success) {
		v.success = t.LastSuccessFire
	}
	v.review = v.review || t.Review
}

// judge works out what the schedule says.
func (v *jobView) judge() {
	spec := specOf(v.job.Schedule)
	v.zone = spec.Timezone
	schedule, err := scheduler.ParseSchedule(spec)
	if err != nil {
		return // written by another version; the rest can be shown all the same
	}
	v.zone = schedule.Location().String()
	if v.state() == "active" {
		judged := scheduler.Job{Schedule: schedule, Grace: graceOf(v.job)}
		v.overdue = judged.Overdue(*v.job, v.success, v.now)
	}
}

// graceOf is the grace in a job's stored definition.
func graceOf(job *jobstore.Job) time.Duration {
	var def struct {
		Grace string `json:"misfire_grace_time"`
	}
	if json.Unmarshal(job.JSON, &def) != nil {
		return scheduler.Unlimited
	}
	d, err := parseGrace(def.Grace)
	if err != nil {
		return scheduler.Unlimited
	}
	return d
}

func (v *jobView) state() string {
	switch {
	case !v.job.RemovedAt.IsZero():
		return "removed"
	case v.job.Pause.Active(v.now):
		return "paused"
	}
	return "active"
}

// lag is how far results trail the newest fire time that was planned; ok is
// false while nothing is known.
func (v *jobView) lag() (d time.Duration, ok bool) {
	done := v.watermark
	if done.IsZero() {
		done = v.success
	}
	if done.IsZero() {
		return 0, false
	}
	planned := v.job.LastPlanned
	if planned.After(v.now) {
		planned = v.now
	}
	return max(0, planned.Sub(done)), true
}

func (v *jobView) lagText() string {
	d, ok := v.lag()
	if !ok {
		return ""
	}
	return roughly(d)
}

// nextFire is none while the job is paused or removed.
func (v *jobView) nextFire() time.Time {
	if v.state() != "active" {
		return time.Time{}
	}
	return v.job.NextFire
}

func (v *jobView) nextText() string {
	if v.state() != "active" {
		return ""
	}
	if v.job.NextFire.IsZero() {
		return "never"
	}
	return jobstore.FormatTime(v.job.NextFire) + " (" + away(v.job.NextFire, v.now) + ")"
}

func (v *jobView) lastCell() cell {
	if v.last.LastState == "" {
		return cell{}
	}
	return cell{string(v.last.LastState) + " " + away(v.last.LastFinishedAt, v.now), stateColour(v.last.LastState)}
}

func (v *jobView) openText() string {
	var parts []string
	for _, s := range jobstore.States() {
		if n := v.open[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

// noteCell says what a person should know.
func (v *jobView) noteCell() cell {
	var notes []string
	with := plain
	switch v.state() {
	case "removed":
		notes = append(notes, "removed from the config "+away(v.job.RemovedAt, v.now))
	case "paused":
		notes, with = append(notes, "paused "+pauseText(v.job.Pause)), yellow
	}
	if v.review {
		notes, with = append(notes, "failed, for review"), red
	}
	if v.overdue > 0 {
		notes, with = append(notes, "overdue for "+roughly(v.overdue)), red
	}
	return cell{strings.Join(notes, "; "), with}
}

type jobJSON struct {
	Job            string       `json:"job"`
	State          string       `json:"state"` // active, paused, removed
	Schedule       string       `json:"schedule"`
	Timezone       string       `json:"timezone"`
	NextFire       timeJSON     `json:"next_fire"`
	LastPlanned    timeJSON     `json:"last_planned"`
	LastOutcome    string       `json:"last_outcome"`
	LastFinishedAt timeJSON     `json:"last_finished_at"`
	LastSuccess    timeJSON     `json:"last_success_fire_time"`
	LagSeconds     *float64     `json:"lag_seconds"`
	Watermark      timeJSON     `json:"watermark"`
	OverdueSeconds float64      `json:"overdue_seconds"`
	Review         bool         `json:"review"`
	Pending        int64        `json:"pending"`
	Running        int64        `json:"running"`
	Retrying       int64        `json:"retrying"`
	Due            int64        `json:"due"`
	Coalesce       string       `json:"coalesce"`
	Overlap        string       `json:"overlap"`
	MaxInstances   int          `json:"max_instances"`
	Pause          *pauseJSON   `json:"pause"`
	Targets        []targetJSON `json:"targets"`
	CreatedAt      timeJSON     `json:"created_at"`
	RemovedAt      timeJSON     `json:"removed_at"`
}

type targetJSON struct {
	Target         string   `json:"target"`
	Watermark      timeJSON `json:"watermark"`
	LastOutcome    string   `json:"last_outcome"`
	LastFinishedAt timeJSON `json:"last_finished_at"`
	LastSuccessAt  timeJSON `json:"last_success_at"`
	LastSuccess    timeJSON `json:"last_success_fire_time"`
	Review         bool     `json:"review"`
}

func (v *jobView) json() jobJSON {
	j := v.job
	out := jobJSON{
		Job: j.Name, State: v.state(), Schedule: v.schedule, Timezone: v.zone,
		NextFire: timeJSON(v.nextFire()), LastPlanned: timeJSON(j.LastPlanned),
		LastOutcome: string(v.last.LastState), LastFinishedAt: timeJSON(v.last.LastFinishedAt), LastSuccess: timeJSON(v.success),
		Watermark: timeJSON(v.watermark), OverdueSeconds: v.overdue.Seconds(), Review: v.review,
		Pending: v.open[jobstore.Pending], Running: v.open[jobstore.Running], Retrying: v.open[jobstore.Retrying],
		Due: j.Due, Coalesce: string(j.Coalesce), Overlap: string(j.Overlap), MaxInstances: j.MaxInstances,
		Pause: toPauseJSON(j.Pause, v.now), Targets: make([]targetJSON, len(v.targets)),
		CreatedAt: timeJSON(j.CreatedAt), RemovedAt: timeJSON(j.RemovedAt),
	}
	if d, ok := v.lag(); ok {
		seconds := d.Seconds()
		out.LagSeconds = &seconds
	}
	for i, t := range v.targets {
		out.Targets[i] = targetJSON{
			t.Target, timeJSON(t.Watermark), string(t.LastState), timeJSON(t.LastFinishedAt),
			timeJSON(t.LastSuccessAt), timeJSON(t.LastSuccessFire), t.Review,
		}
	}
	return out
}

func jobViewsJSON(views []*jobView) []jobJSON {
	out := make([]jobJSON, len(views))
	for i, v := range views {
		out[i] = v.json()
	}
	return out
}
