package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	sqlDue = `SELECT ` + jobColumns + ` FROM tidemark_jobs AS j
WHERE j.wake_at <= ?1 AND j.id NOT IN (SELECT value FROM json_each(?2))
ORDER BY j.wake_at, j.id LIMIT ?3`

	sqlNextDue = `SELECT min(j.wake_at) FROM tidemark_jobs AS j
WHERE j.wake_at > ?1 AND j.id NOT IN (SELECT value FROM json_each(?2))`
)

// Due implements jobstore.Queue.
func (s *Store) Due(ctx context.Context, req jobstore.DueRequest) (out jobstore.Due, err error) {
	exclude, err := list(append([]int64{}, req.Exclude...))
	if err != nil {
		return out, wrap("look for due jobs", err)
	}
	err = s.read(ctx, func(t *tx) error {
		out = jobstore.Due{Now: t.now}
		if out.Jobs, err = collect(scanJob)(t.query(sqlDue, micros(t.now), exclude, req.Limit+1)); err != nil {
			return err
		}
		if len(out.Jobs) > req.Limit {
			out.Jobs, out.Next = out.Jobs[:req.Limit], t.now
			return nil
		}
		return t.queryRow(sqlNextDue, micros(t.now), exclude).Scan((*at)(&out.Next))
	})
	return out, wrap("look for due jobs", err)
}

// Fire implements jobstore.Queue.
func (s *Store) Fire(ctx context.Context, req jobstore.FireRequest) (out jobstore.Fired, err error) {
	if len(req.Firings) == 0 {
		return jobstore.Fired{Now: now()}, nil
	}
	err = s.write(ctx, func(t *tx) error {
		f := firing{t: t, req: req, lanes: newLanes(t)}
		out, err = f.fire()
		return err
	})
	if err != nil {
		return jobstore.Fired{}, wrap("record plans", err)
	}
	return out, nil
}

// firing is one call of Fire, or what reconciling does of it.
type firing struct {
	t       *tx
	req     jobstore.FireRequest
	closing bool // what old definitions owe is recorded of paused jobs too
	lanes   *lanes
	known   known
	added   []*entry
}

func (f *firing) fire() (out jobstore.Fired, err error) {
	out.Now = f.t.now
	var ids []int64
	for i := range f.req.Firings {
		ids = append(ids, f.req.Firings[i].JobID)
	}
	if err := f.lanes.ofJobs(ids); err != nil {
		return out, err
	}
	if f.known, err = f.t.known(f.req.Firings); err != nil {
		return out, err
	}
	for i := range f.req.Firings {
		plan := &f.req.Firings[i]
		job := f.lanes.jobs[plan.JobID]
		if job == nil || job.Version != plan.Version || !job.RemovedAt.IsZero() || job.Pause.Active(f.t.now) && !f.closing {
			continue
		}
		if err := f.plan(job, plan); err != nil {
			return out, err
		}
		out.Jobs = append(out.Jobs, job.ID)
	}
	leased := f.lease(&out)
	if err := f.lanes.store(); err != nil {
		return out, err
	}
	out.Leased = make([]jobstore.Run, 0, len(leased))
	for _, e := range leased {
		out.Leased = append(out.Leased, e.Run)
	}
	for _, lane := range f.lanes.all {
		for _, e := range lane.runs {
			if e.State == jobstore.Coalesced {
				out.Coalesced = append(out.Coalesced, e.Run)
			}
		}
	}
	return out, nil
}

const (
	sqlPlanned = `UPDATE tidemark_jobs SET
	version = version + 1, last_planned = ?, next_fire = ?, wake_at = ?, due = due + ?, counts_from = ?,
	paused_at = ?, paused_until = ?, pause_reason = ?, paused_by = ?, resumed_at = ?, resume_policy = ?
WHERE id = ? AND version = ?`

	sqlInsertRange = `INSERT INTO tidemark_ranges (job_id, first, last, count, outcome, reason, into_fire, recorded_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
)

// plan records one job's plan: its runs, its ranges, and where it now stands.
func (f *firing) plan(job *jobstore.Job, plan *jobstore.Firing) error {
	due := plan.Due - f.runs(job, plan)
	for _, r := range plan.Ranges {
		_, err := f.t.exec(sqlInsertRange, job.ID, micros(r.First), micros(r.Last), r.Count,
			string(r.Outcome), r.Reason, micros(r.Into), micros(f.t.now))
		if err != nil {
			return err
		}
	}
	job.LastPlanned, job.NextFire = plan.LastPlanned, plan.NextFire
	job.Due += due
	if plan.EndPause {
		if end, _ := job.Pause.End(f.t.now); end.After(job.CountsFrom) {
			job.CountsFrom = end
		}
		job.Pause = jobstore.Pause{}
	}
	p := &job.Pause
	res, err := f.t.exec(sqlPlanned, micros(job.LastPlanned), micros(job.NextFire), micros(wakeAt(job, f.t.now)), due, micros(job.CountsFrom),
		micros(p.At), micros(p.Until), p.Reason, p.By, micros(p.ResumedAt), string(p.Policy),
		job.ID, job.Version)
	if err != nil {
		return err
	}
	job.Version++
	return one(res, "job", job.ID)
}

// runs admits the plan's runs, and returns how many of its fire times are no
// news: there are runs of them already (a clock that went back, a job that was
// renamed), or they lie behind what was pruned.
func (f *firing) runs(job *jobstore.Job, plan *jobstore.Firing) (old int64) {
	fires := map[int64]bool{} // fire time: does the plan add it?
	byTarget := map[string][]jobstore.Run{}
	var targets []string
	for i := range plan.Runs {
		n := &plan.Runs[i]
		fire := n.FireTime.UnixMicro()
		id := runID{job.ID, n.Target, fire}
		if f.known.keys[n.Key] || f.known.runs[id] || !n.FireTime.After(job.PrunedThrough) {
			fires[fire] = fires[fire] || false
			continue
		}
		f.known.keys[n.Key], f.known.runs[id] = true, true
		fires[fire] = true
		if byTarget[n.Target] == nil {
			targets = append(targets, n.Target)
		}
		byTarget[n.Target] = append(byTarget[n.Target], n.Run(*job, f.t.now))
	}
	for fire, adds := range fires {
		if !adds || f.known.fires[fireID{job.ID, fire}] {
			old++
		}
	}
	for _, target := range targets {
		f.added = append(f.added, f.lanes.lane(job.ID, target).admit(byTarget[target], f.t)...)
	}
	return old
}

// lease gives the caller the new runs that may start at once, as far as its
// slots go. One that may not start any more is left for Claim to settle.
func (f *firing) lease(out *jobstore.Fired) (leased []*entry) {
	for _, e := range f.added {
		if e.State != jobstore.Pending || e.ClaimAt.IsZero() || e.ClaimAt.After(f.t.now) {
			continue
		}
		if len(leased) < f.req.Slots {
			lane := f.lanes.lane(e.JobID, e.Target)
			run := jobstore.Begin(e.Run, lane.job.Definition, lane.target, f.req.Node, f.t.now, f.req.Lease)
			if run.State == jobstore.Running {
				lane.set(e, run)
				leased = append(leased, e)
				continue
			}
		}
		out.Left = true
	}
	return leased
}

// known is what exists already of what plans would create.
type known struct {
	keys  map[string]bool
	runs  map[runID]bool
	fires map[fireID]bool
}

type runID struct {
	job    int64
	target string
	fire   int64
}

type fireID struct{ job, fire int64 }

const (
	sqlKnownKeys = `SELECT r.key, r.job_id, r.target, r.fire_time, r.trigger FROM tidemark_runs AS r
WHERE r.key IN (SELECT value FROM json_each(?1))`

	sqlKnownFires = `SELECT r.key, r.job_id, r.target, r.fire_time, r.trigger
FROM json_each(?1) AS w CROSS JOIN tidemark_runs AS r
WHERE r.job_id = w.value ->> 0 AND r.fire_time = w.value ->> 1`
)

func (t *tx) known(firings []jobstore.Firing) (known, error) {
	k := known{map[string]bool{}, map[runID]bool{}, map[fireID]bool{}}
	var keys []string
	var fires [][2]int64
	for i := range firings {
		var last time.Time
		for _, n := range firings[i].Runs {
			keys = append(keys, n.Key)
			if !n.FireTime.Equal(last) {
				last = n.FireTime
				fires = append(fires, [2]int64{firings[i].JobID, last.UnixMicro()})
			}
		}
	}
	if len(keys) == 0 {
		return k, nil
	}
	keyList, err := list(keys)
	if err != nil {
		return k, err
	}
	fireList, err := list(fires)
	if err != nil {
		return k, err
	}
	if err := t.scanKnown(k, sqlKnownKeys, keyList); err != nil {
		return k, err
	}
	return k, t.scanKnown(k, sqlKnownFires, fireList)
}

func (t *tx) scanKnown(k known, query, arg string) error {
	rows, err := t.query(query, arg)
	return each(rows, err, func(rows *sql.Rows) error {
		var key, trigger string
		var id runID
		if err := rows.Scan(&key, &id.job, &id.target, &id.fire, &trigger); err != nil {
			return err
		}
		k.keys[key] = true
		if trigger != string(jobstore.TriggerManual) {
			k.runs[id] = true
			k.fires[fireID{id.job, id.fire}] = true
		}
		return nil
	})
}
