package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Columns in the order in which the functions below scan and bind them.
const (
	// A run's last column is the job's name, from wherever the statement has it.
	runColumns = `r.id, r.key, r.job_id, r.target, r.fire_time, r.trigger, r.logical_run,
	r.state, r.reason, r.review, r.coalesced_into, r.covers, r.not_before, r.claim_at, r.deadline,
	r.attempt, r.failures, r.node, r.created_at, r.started_at, r.attempt_started_at, r.finished_at,
	r.window_from, r.window_to, r.own_window, r.fingerprint, r.cancel_requested, r.exit_code, r.message`

	jobColumns = `j.id, j.version, j.name, j.definition, j.hash, j.schedule, ` + jobStateColumns

	// jobBriefColumns leave out what only people and the planner read.
	jobBriefColumns = `j.id, j.version, j.name, '', j.hash, '', ` + jobStateColumns

	jobStateColumns = `j.fingerprint, j.overlap, j.coalesce, j.max_instances, j.windowed, j.uses_window,
	j.watermark_start, j.file_paused, j.last_planned, j.counts_from, j.next_fire, j.due, j.pruned, j.pruned_through,
	j.paused_at, j.paused_until, j.pause_reason, j.paused_by, j.resumed_at, j.resume_policy, j.created_at, j.removed_at`

	targetColumns = `t.job_id, t.target, t.watermark, t.last_state, t.last_finished_at,
	t.last_success_at, t.last_success_fire, t.last_success_key, t.review`
)

// micros binds t: microseconds since the epoch, the zero time as null.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// at scans what micros bound.
type at time.Time

func (t *at) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*t = at{}
	case int64:
		*t = at(time.UnixMicro(v).UTC())
	default:
		return fmt.Errorf("a time is kept as an integer, not as %T", src)
	}
	return nil
}

// number binds an optional number.
func number(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}

// blob binds b; a BLOB is never null.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// list binds many values as one argument, for json_each.
func list[T any](values []T) (string, error) {
	b, err := json.Marshal(values)
	return string(b), err
}

func scanRun(rows *sql.Rows, r *jobstore.Run) error {
	return rows.Scan(&r.ID, &r.Key, &r.JobID, &r.Target, (*at)(&r.FireTime), (*string)(&r.Trigger), &r.LogicalRun,
		(*string)(&r.State), &r.Reason, &r.Review, &r.CoalescedInto, &r.Covers, (*at)(&r.NotBefore), (*at)(&r.ClaimAt), (*at)(&r.Deadline),
		&r.Attempt, &r.Failures, &r.Node, (*at)(&r.CreatedAt), (*at)(&r.StartedAt), (*at)(&r.AttemptStartedAt), (*at)(&r.FinishedAt),
		(*at)(&r.WindowFrom), (*at)(&r.WindowTo), &r.OwnWindow, &r.Fingerprint, &r.CancelRequested, &r.ExitCode, &r.Message,
		&r.Job)
}

func scanJob(rows *sql.Rows, j *jobstore.Job) error {
	return rows.Scan(&j.ID, &j.Version, &j.Name, &j.JSON, &j.Hash, &j.Schedule,
		&j.Fingerprint, (*string)(&j.Overlap), (*string)(&j.Coalesce), &j.MaxInstances, &j.Windowed, &j.UsesWindow,
		(*at)(&j.WatermarkStart), &j.FilePaused, (*at)(&j.LastPlanned), (*at)(&j.CountsFrom), (*at)(&j.NextFire), &j.Due, &j.Pruned, (*at)(&j.PrunedThrough),
		(*at)(&j.Pause.At), (*at)(&j.Pause.Until), &j.Pause.Reason, &j.Pause.By, (*at)(&j.Pause.ResumedAt), (*string)(&j.Pause.Policy),
		(*at)(&j.CreatedAt), (*at)(&j.RemovedAt))
}

func scanTarget(rows *sql.Rows, t *jobstore.Target) error {
	return rows.Scan(&t.JobID, &t.Target, (*at)(&t.Watermark), (*string)(&t.LastState), (*at)(&t.LastFinishedAt),
		(*at)(&t.LastSuccessAt), (*at)(&t.LastSuccessFire), &t.LastSuccessKey, &t.Review)
}

// scanLane scans laneColumns.
func scanLane(rows *sql.Rows, t *jobstore.Target, waits *bool) error {
	return rows.Scan(&t.JobID, &t.Target, (*at)(&t.Watermark), (*string)(&t.LastState), (*at)(&t.LastFinishedAt),
		(*at)(&t.LastSuccessAt), (*at)(&t.LastSuccessFire), &t.LastSuccessKey, &t.Review, waits)
}

func scanRange(rows *sql.Rows, r *jobstore.Range) error {
	return rows.Scan(&r.ID, &r.JobID, (*at)(&r.First), (*at)(&r.Last), &r.Count,
		(*string)(&r.Outcome), &r.Reason, (*at)(&r.Into), (*at)(&r.RecordedAt))
}

func scanID(rows *sql.Rows, id *int64) error {
	return rows.Scan(id)
}

// wakeAt is when the planner must look at the job: at its next fire, but while
// it is paused at the end of the pause, and then at once, however far the next
// fire is, so that what the pause passed over is recorded.
func wakeAt(job *jobstore.Job, now time.Time) time.Time {
	switch end, ended := job.Pause.End(now); {
	case !job.RemovedAt.IsZero():
		return time.Time{}
	case ended:
		return end
	case !job.Pause.At.IsZero():
		return job.Pause.Until
	}
	return job.NextFire
}
