package sqlite

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidemarkd/tidemark/jobstore"
)

// lane is one (job, target) in a transaction: its row and its open runs, oldest
// first. The rules of jobstore are applied to it in memory, and each row that
// they changed is written once, by lanes.store.
type lane struct {
	job    *jobstore.Job
	target jobstore.Target
	stored bool // the target has its row
	dirty  bool // and that row has to be written
	clear  bool // earlier failures need no person any more
	runs   []*entry
}

// entry is a run in a lane.
type entry struct {
	jobstore.Run
	was   jobstore.Run // as it is stored; ID 0: not yet
	dirty bool
}

type laneKey struct {
	job    int64
	target string
}

// lanes are those that a transaction works on.
type lanes struct {
	t     *tx
	jobs  map[int64]*jobstore.Job
	byKey map[laneKey]*lane
	all   []*lane // in the order of their coming
	runs  map[int64]*entry
}

func newLanes(t *tx) *lanes {
	return &lanes{t: t, jobs: map[int64]*jobstore.Job{}, byKey: map[laneKey]*lane{}, runs: map[int64]*entry{}}
}

const (
	sqlJobsByID = `SELECT ` + jobBriefColumns + ` FROM tidemark_jobs AS j
WHERE j.id IN (SELECT value FROM json_each(?1))`

	sqlTargetsOfJobs = `SELECT ` + targetColumns + ` FROM tidemark_targets AS t
WHERE t.job_id IN (SELECT value FROM json_each(?1))`

	sqlOpenOfJobs = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE r.job_id IN (SELECT value FROM json_each(?1)) AND r.finished_at IS NULL`
)

// ofJobs loads all lanes of the jobs.
func (l *lanes) ofJobs(ids []int64) error {
	arg, err := list(ids)
	if err != nil {
		return err
	}
	return l.load(arg, sqlJobsByID, sqlTargetsOfJobs, sqlOpenOfJobs)
}

const (
	sqlJobsOfRuns = `SELECT ` + jobBriefColumns + ` FROM tidemark_jobs AS j
WHERE j.id IN (SELECT job_id FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)))`

	sqlTargetsOfRuns = `SELECT ` + targetColumns + ` FROM tidemark_targets AS t
WHERE (t.job_id, t.target) IN (SELECT job_id, target FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)))`

	sqlOpenOfRuns = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE (r.job_id, r.target) IN (SELECT job_id, target FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)))
  AND r.finished_at IS NULL`
)

// ofRuns loads the lanes that the runs are in.
func (l *lanes) ofRuns(ids []int64) error {
	arg, err := list(ids)
	if err != nil {
		return err
	}
	return l.load(arg, sqlJobsOfRuns, sqlTargetsOfRuns, sqlOpenOfRuns)
}

func (l *lanes) load(arg, jobs, targets, open string) error {
	js, err := collect(scanJob)(l.t.query(jobs, arg))
	if err != nil {
		return err
	}
	for i := range js {
		if l.jobs[js[i].ID] == nil {
			l.jobs[js[i].ID] = &js[i]
		}
	}
	ts, err := collect(scanTarget)(l.t.query(targets, arg))
	if err != nil {
		return err
	}
	for _, target := range ts {
		lane := l.lane(target.JobID, target.Target)
		lane.target, lane.stored = target, true
	}
	runs, err := collect(scanRun)(l.t.query(open, arg))
	if err != nil {
		return err
	}
	l.add(runs)
	return nil
}

// add puts open runs into their lanes.
func (l *lanes) add(runs []jobstore.Run) {
	slices.SortFunc(runs, olderRun)
	for i := range runs {
		run := &runs[i]
		lane := l.lane(run.JobID, run.Target)
		run.Job = lane.job.Name
		e := &entry{Run: *run, was: *run}
		lane.runs = append(lane.runs, e)
		l.runs[run.ID] = e
	}
}

func olderRun(a, b jobstore.Run) int {
	return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.ID, b.ID))
}

// lane is that of the job and target, begun if need be.
func (l *lanes) lane(jobID int64, target string) *lane {
	key := laneKey{jobID, target}
	if lane := l.byKey[key]; lane != nil {
		return lane
	}
	lane := &lane{job: l.jobs[jobID], target: jobstore.Target{JobID: jobID, Target: target}}
	l.byKey[key] = lane
	l.all = append(l.all, lane)
	return lane
}

// open are the lane's open runs, oldest first.
func (n *lane) open() []jobstore.Run {
	var out []jobstore.Run
	for _, e := range n.runs {
		if e.State.Open() {
			out = append(out, e.Run)
		}
	}
	return out
}

// enter sees to the target's row: its watermark begins where the file says, or
// where planning stood before the plan that first saw it.
func (n *lane) enter() {
	if !n.stored {
		n.dirty = true
	}
	if n.job.Windowed && n.target.Watermark.IsZero() {
		n.target.Watermark = n.job.WatermarkStart
		if n.target.Watermark.IsZero() {
			n.target.Watermark = n.job.LastPlanned
		}
		n.dirty = true
	}
}

// admit adds runs by the overlap rule, oldest first, and returns them.
func (n *lane) admit(incoming []jobstore.Run, t *tx) []*entry {
	n.enter()
	adm := jobstore.Admit(n.job.Definition, n.open(), incoming, t.now)
	for _, run := range adm.Update {
		n.set(n.byID(run.ID), run)
	}
	var added []*entry
	for _, run := range adm.Insert {
		e := &entry{Run: run, dirty: true}
		n.runs = append(n.runs, e)
		added = append(added, e)
	}
	slices.SortStableFunc(n.runs, func(a, b *entry) int { return a.FireTime.Compare(b.FireTime) })
	return added
}

func (n *lane) byID(id int64) *entry {
	for _, e := range n.runs {
		if e.ID == id {
			return e
		}
	}
	return nil
}

func (n *lane) set(e *entry, run jobstore.Run) {
	e.Run, e.dirty = run, true
}

// end sets a run that has ended, with what that means for the target.
func (n *lane) end(e *entry, run jobstore.Run) {
	n.set(e, run)
	review := n.target.Review
	n.target = n.target.Ended(run, n.job.Windowed)
	n.dirty = true
	n.clear = n.clear || review && !n.target.Review
}

// promote lets waiting runs go where there is room, and returns them.
func (n *lane) promote(t *tx) []*entry {
	var out []*entry
	for _, run := range jobstore.Promote(n.job.Definition, n.open(), t.now) {
		e := n.byID(run.ID)
		n.set(e, run)
		out = append(out, e)
	}
	return out
}

// store writes what has changed.
func (l *lanes) store() error {
	for _, n := range l.all {
		if n.clear {
			if _, err := l.t.exec(sqlClearReview, n.target.JobID, n.target.Target); err != nil {
				return err
			}
		}
		for _, e := range n.runs {
			if !e.dirty {
				continue
			}
			if err := l.t.storeRun(e); err != nil {
				return err
			}
		}
		if n.dirty {
			if err := l.t.storeTarget(&n.target); err != nil {
				return err
			}
			n.dirty, n.stored = false, true
		}
	}
	return nil
}

const (
	sqlClearReview = `UPDATE tidemark_runs SET review = 0 WHERE job_id = ?1 AND target = ?2 AND review`

	sqlInsertRun = `INSERT INTO tidemark_runs (
	key, job_id, target, fire_time, trigger, logical_run,
	state, reason, review, coalesced_into, covers, not_before, claim_at, deadline,
	attempt, failures, node, created_at, started_at, attempt_started_at, finished_at,
	window_from, window_to, own_window, fingerprint, cancel_requested, exit_code, message
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// Only from the state and attempt that the transaction has read.
	sqlUpdateRun = `UPDATE tidemark_runs SET
	state = ?4, reason = ?5, review = ?6, coalesced_into = ?7, covers = ?8, claim_at = ?9,
	attempt = ?10, failures = ?11, node = ?12, started_at = ?13, attempt_started_at = ?14, finished_at = ?15,
	window_from = ?16, window_to = ?17, fingerprint = ?18, cancel_requested = ?19, exit_code = ?20, message = ?21
WHERE id = ?1 AND state = ?2 AND attempt = ?3`
)

func (t *tx) storeRun(e *entry) error {
	r := &e.Run
	e.dirty = false
	if e.was.ID != 0 {
		res, err := t.exec(sqlUpdateRun, r.ID, string(e.was.State), e.was.Attempt,
			string(r.State), r.Reason, r.Review, r.CoalescedInto, r.Covers, micros(r.ClaimAt),
			r.Attempt, r.Failures, r.Node, micros(r.StartedAt), micros(r.AttemptStartedAt), micros(r.FinishedAt),
			micros(r.WindowFrom), micros(r.WindowTo), r.Fingerprint, r.CancelRequested, number(r.ExitCode), r.Message)
		if err != nil {
			return err
		}
		e.was = *r
		return one(res, "run", r.ID)
	}
	res, err := t.exec(sqlInsertRun, r.Key, r.JobID, r.Target, micros(r.FireTime), string(r.Trigger), r.LogicalRun,
		string(r.State), r.Reason, r.Review, r.CoalescedInto, r.Covers, micros(r.NotBefore), micros(r.ClaimAt), micros(r.Deadline),
		r.Attempt, r.Failures, r.Node, micros(r.CreatedAt), micros(r.StartedAt), micros(r.AttemptStartedAt), micros(r.FinishedAt),
		micros(r.WindowFrom), micros(r.WindowTo), r.OwnWindow, r.Fingerprint, r.CancelRequested, number(r.ExitCode), r.Message)
	if err != nil {
		return err
	}
	r.ID, err = res.LastInsertId()
	e.was = *r
	return err
}

const sqlStoreTarget = `INSERT INTO tidemark_targets (
	job_id, target, watermark, last_state, last_finished_at, last_success_at, last_success_fire, last_success_key, review
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id, target) DO UPDATE SET
	watermark = excluded.watermark, last_state = excluded.last_state, last_finished_at = excluded.last_finished_at,
	last_success_at = excluded.last_success_at, last_success_fire = excluded.last_success_fire,
	last_success_key = excluded.last_success_key, review = excluded.review`

func (t *tx) storeTarget(g *jobstore.Target) error {
	_, err := t.exec(sqlStoreTarget, g.JobID, g.Target, micros(g.Watermark), string(g.LastState), micros(g.LastFinishedAt),
		micros(g.LastSuccessAt), micros(g.LastSuccessFire), g.LastSuccessKey, g.Review)
	return err
}

// one makes sure that a statement changed the row that it expected.
func one(res interface{ RowsAffected() (int64, error) }, what string, id int64) error {
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("%s %d changed in the middle of a transaction", what, id)
	}
	return err
}
