package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	sqlRevision = `SELECT revision FROM tidemark_meta`

	sqlAllJobs = `SELECT ` + jobColumns + ` FROM tidemark_jobs AS j ORDER BY j.name`

	sqlSetRevision = `UPDATE tidemark_meta SET revision = ?1 WHERE revision < ?1`
)

// Sync implements jobstore.Registry.
func (s *Store) Sync(ctx context.Context, decide func(jobstore.SyncState) (jobstore.Changes, error)) (out jobstore.SyncState, err error) {
	err = s.write(ctx, func(t *tx) error {
		if out, err = t.syncState(); err != nil {
			return err
		}
		changes, err := decide(out)
		if err != nil {
			return err
		}
		y := syncing{t: t, jobs: map[int64]*jobstore.Job{}}
		for i := range out.Jobs {
			y.jobs[out.Jobs[i].ID] = &out.Jobs[i]
		}
		if err := y.apply(changes); err != nil {
			return err
		}
		out, err = t.syncState()
		return err
	})
	if err != nil {
		return jobstore.SyncState{}, wrap("reconcile jobs", err)
	}
	return out, nil
}

func (t *tx) syncState() (out jobstore.SyncState, err error) {
	out.Now = t.now
	if err := t.queryRow(sqlRevision).Scan(&out.Revision); err != nil {
		return out, err
	}
	out.Jobs, err = collect(scanJob)(t.query(sqlAllJobs))
	return out, err
}

// syncing is one call of Sync.
type syncing struct {
	t    *tx
	jobs map[int64]*jobstore.Job
}

func (y *syncing) apply(c jobstore.Changes) error {
	if err := y.fire(c.Firings); err != nil {
		return err
	}
	if err := y.freeNames(c.Update); err != nil {
		return err
	}
	for i := range c.Create {
		if err := y.create(&c.Create[i]); err != nil {
			return fmt.Errorf("create job %s: %w", c.Create[i].Name, err)
		}
	}
	for i := range c.Update {
		if err := y.update(&c.Update[i]); err != nil {
			return fmt.Errorf("update job %s: %w", c.Update[i].Name, err)
		}
	}
	for _, id := range c.Remove {
		if err := y.remove(id); err != nil {
			return fmt.Errorf("remove job %d: %w", id, err)
		}
	}
	_, err := y.t.exec(sqlSetRevision, c.Revision)
	return err
}

// fire records what the old definitions still owe, and reads those jobs again.
func (y *syncing) fire(firings []jobstore.Firing) error {
	if len(firings) == 0 {
		return nil
	}
	f := firing{t: y.t, req: jobstore.FireRequest{Firings: firings}, closing: true, lanes: newLanes(y.t)}
	if _, err := f.fire(); err != nil {
		return err
	}
	for id, fired := range f.lanes.jobs {
		if job := y.jobs[id]; job != nil {
			job.Version, job.LastPlanned, job.NextFire = fired.Version, fired.LastPlanned, fired.NextFire
			job.Due, job.Pause, job.CountsFrom = fired.Due, fired.Pause, fired.CountsFrom
		}
	}
	return nil
}

// A job's own name never holds a slash, so this one is nobody's.
const sqlFreeName = `UPDATE tidemark_jobs SET name = '/' || id WHERE id = ?1`

// freeNames takes the names away from jobs that get another, so that a name
// may pass from one to the other in any order.
func (y *syncing) freeNames(updates []jobstore.JobUpdate) error {
	for i := range updates {
		job := y.jobs[updates[i].ID]
		if job == nil || job.Name == updates[i].Name {
			continue
		}
		if _, err := y.t.exec(sqlFreeName, job.ID); err != nil {
			return err
		}
	}
	return nil
}

const sqlCreateJob = `INSERT INTO tidemark_jobs (
	name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed, uses_window,
	watermark_start, file_paused, last_planned, counts_from, next_fire, wake_at,
	paused_at, paused_until, pause_reason, paused_by, resumed_at, resume_policy, created_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (y *syncing) create(n *jobstore.NewJob) error {
	job := jobstore.Job{Definition: n.Definition, LastPlanned: n.LastPlanned, NextFire: n.NextFire, Pause: n.Pause}
	d, p := &n.Definition, &n.Pause
	_, err := y.t.exec(sqlCreateJob, d.Name, string(d.JSON), d.Hash, string(d.Schedule), d.Fingerprint,
		string(d.Overlap), string(d.Coalesce), d.MaxInstances, d.Windowed, d.UsesWindow,
		micros(d.WatermarkStart), d.FilePaused, micros(n.LastPlanned), micros(n.LastPlanned), micros(n.NextFire), micros(wakeAt(&job, y.t.now)),
		micros(p.At), micros(p.Until), p.Reason, p.By, micros(p.ResumedAt), string(p.Policy), micros(y.t.now))
	if taken(err) {
		err = fmt.Errorf("%w: the name is another job's", jobstore.ErrConflict)
	}
	return err
}

func (y *syncing) update(u *jobstore.JobUpdate) error {
	job := y.jobs[u.ID]
	if job == nil {
		return jobstore.ErrNotFound
	}
	room := job.MaxInstances != u.MaxInstances
	job.Definition, job.Pause, job.RemovedAt = u.Definition, u.Pause, time.Time{}
	if u.Reschedule {
		job.LastPlanned, job.CountsFrom, job.NextFire = u.LastPlanned, u.LastPlanned, u.NextFire
	}
	if err := y.t.storeJob(job); err != nil || !room {
		return err
	}
	lanes := newLanes(y.t)
	if err := lanes.allOf(job); err != nil {
		return err
	}
	for _, lane := range lanes.all {
		lane.promote(y.t)
	}
	return lanes.store()
}

// remove ends a job's planning, and its runs that have not started: they say
// nothing about the work, so they are not the target's last outcome.
func (y *syncing) remove(id int64) error {
	job := y.jobs[id]
	if job == nil || !job.RemovedAt.IsZero() {
		return nil
	}
	job.RemovedAt, job.NextFire = y.t.now, time.Time{}
	if err := y.t.storeJob(job); err != nil {
		return err
	}
	lanes := newLanes(y.t)
	if err := lanes.allOf(job); err != nil {
		return err
	}
	for _, lane := range lanes.all {
		for _, e := range lane.runs {
			if e.State != jobstore.Pending {
				continue
			}
			run := e.Run
			run.State, run.Reason, run.ClaimAt, run.FinishedAt = jobstore.Skipped, jobstore.ReasonRemoved, time.Time{}, y.t.now
			lane.set(e, run)
		}
	}
	return lanes.store()
}

const sqlUpdateJob = `UPDATE tidemark_jobs SET
	version = version + 1, name = ?3, definition = ?4, hash = ?5, schedule = ?6, fingerprint = ?7,
	overlap = ?8, coalesce = ?9, max_instances = ?10, windowed = ?11, uses_window = ?12,
	watermark_start = ?13, file_paused = ?14, last_planned = ?15, counts_from = ?16, next_fire = ?17, wake_at = ?18,
	paused_at = ?19, paused_until = ?20, pause_reason = ?21, paused_by = ?22, resumed_at = ?23, resume_policy = ?24,
	removed_at = ?25
WHERE id = ?1 AND version = ?2`

// storeJob writes all of a job that reconciling or a person may change.
func (t *tx) storeJob(job *jobstore.Job) error {
	d, p := &job.Definition, &job.Pause
	res, err := t.exec(sqlUpdateJob, job.ID, job.Version, d.Name, string(d.JSON), d.Hash, string(d.Schedule), d.Fingerprint,
		string(d.Overlap), string(d.Coalesce), d.MaxInstances, d.Windowed, d.UsesWindow,
		micros(d.WatermarkStart), d.FilePaused, micros(job.LastPlanned), micros(job.CountsFrom), micros(job.NextFire), micros(wakeAt(job, t.now)),
		micros(p.At), micros(p.Until), p.Reason, p.By, micros(p.ResumedAt), string(p.Policy), micros(job.RemovedAt))
	switch {
	case taken(err):
		return fmt.Errorf("%w: the name is another job's", jobstore.ErrConflict)
	case err != nil:
		return err
	}
	job.Version++
	return one(res, "job", job.ID)
}

const (
	sqlJobs = `SELECT ` + jobColumns + ` FROM tidemark_jobs AS j WHERE j.removed_at IS NULL ORDER BY j.name`

	sqlJobsByName = `SELECT ` + jobColumns + ` FROM tidemark_jobs AS j
WHERE j.name IN (SELECT value FROM json_each(?1)) ORDER BY j.name`
)

// Jobs implements jobstore.Registry. Removed jobs are listed by their names.
func (s *Store) Jobs(ctx context.Context, names ...string) (out []jobstore.Job, err error) {
	query, args := sqlJobs, []any{}
	if len(names) > 0 {
		arg, err := list(names)
		if err != nil {
			return nil, wrap("list jobs", err)
		}
		query, args = sqlJobsByName, []any{arg}
	}
	err = s.read(ctx, func(t *tx) error {
		out, err = collect(scanJob)(t.query(query, args...))
		return err
	})
	return out, wrap("list jobs", err)
}

const sqlAgenda = `SELECT ` + jobBriefColumns + ` FROM tidemark_jobs AS j ORDER BY j.name`

// Agenda implements jobstore.Registry.
func (s *Store) Agenda(ctx context.Context) (out []jobstore.Job, err error) {
	err = s.read(ctx, func(t *tx) error {
		out, err = collect(scanJob)(t.query(sqlAgenda))
		return err
	})
	return out, wrap("list jobs", err)
}

const sqlTargets = `SELECT ` + targetColumns + ` FROM tidemark_targets AS t ORDER BY t.job_id, t.target`

// Targets implements jobstore.Registry.
func (s *Store) Targets(ctx context.Context) (out []jobstore.Target, err error) {
	err = s.read(ctx, func(t *tx) error {
		out, err = collect(scanTarget)(t.query(sqlTargets))
		return err
	})
	return out, wrap("list targets", err)
}

const sqlBacklog = `SELECT j.name, r.state, count(*) FROM tidemark_runs AS r
JOIN tidemark_jobs AS j ON j.id = r.job_id
WHERE r.id IN (` + openRuns + `) GROUP BY r.job_id, r.state`

// Backlog implements jobstore.Registry.
func (s *Store) Backlog(ctx context.Context) (out map[string]map[jobstore.State]int64, err error) {
	err = s.read(ctx, func(t *tx) error {
		out, err = t.backlog()
		return err
	})
	return out, wrap("count open runs", err)
}

func (t *tx) backlog() (map[string]map[jobstore.State]int64, error) {
	out := map[string]map[jobstore.State]int64{}
	rows, err := t.query(sqlBacklog)
	err = each(rows, err, func(rows *sql.Rows) error {
		var job string
		var state jobstore.State
		var n int64
		if err := rows.Scan(&job, (*string)(&state), &n); err != nil {
			return err
		}
		if out[job] == nil {
			out[job] = map[jobstore.State]int64{}
		}
		out[job][state] = n
		return nil
	})
	return out, err
}
