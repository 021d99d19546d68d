package sqlite

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	sqlJobsByID = `SELECT ` + jobBriefColumns + ` FROM tidemark_jobs AS j
WHERE j.id IN (SELECT value FROM json_each(?1))`

	sqlTargetsOfJobs = `SELECT ` + laneColumns + ` FROM tidemark_targets AS t
WHERE t.job_id IN (SELECT value FROM json_each(?1))`

	// What has its turn, where the job bounds its instances.
	sqlTurnOfJobs = `SELECT ` + runColumns + `, '' FROM tidemark_jobs AS j CROSS JOIN tidemark_runs AS r
WHERE j.id IN (SELECT value FROM json_each(?1)) AND j.max_instances > 0
  AND r.job_id = j.id AND r.claim_at IS NOT NULL`

	// A target, and whether a run of it waits.
	laneColumns = targetColumns + `, EXISTS (
	SELECT 1 FROM tidemark_runs AS o
	WHERE o.job_id = t.job_id AND o.target = t.target AND o.claim_at IS NULL AND o.finished_at IS NULL)`
)

// ofJobs loads the lanes that the jobs have.
func (l *lanes) ofJobs(ids []int64) error {
	return l.load(ids, sqlJobsByID, sqlTargetsOfJobs, sqlTurnOfJobs)
}

const (
	sqlJobsOfRuns = `SELECT ` + jobBriefColumns + ` FROM tidemark_jobs AS j
WHERE j.id IN (SELECT job_id FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)))`

	sqlTargetsOfRuns = `SELECT ` + laneColumns + ` FROM tidemark_targets AS t
WHERE (t.job_id, t.target) IN (SELECT job_id, target FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)))`

	sqlTurnOfRuns = `SELECT ` + runColumns + `, ''
FROM (SELECT DISTINCT job_id, target FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1))) AS lane
CROSS JOIN tidemark_jobs AS j CROSS JOIN tidemark_runs AS r
WHERE j.id = lane.job_id AND j.max_instances > 0
  AND r.job_id = lane.job_id AND r.target = lane.target AND r.claim_at IS NOT NULL`

	sqlOpenByID = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE r.id IN (SELECT value FROM json_each(?1)) AND r.finished_at IS NULL`
)

// ofRuns loads the lanes that the runs are in, and those of the runs that are
// open.
func (l *lanes) ofRuns(ids []int64) error {
	if err := l.load(ids, sqlJobsOfRuns, sqlTargetsOfRuns, sqlTurnOfRuns); err != nil {
		return err
	}
	var missing []int64
	for _, id := range ids {
		if l.runs[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	arg, err := list(missing)
	if err != nil {
		return err
	}
	return l.open(sqlOpenByID, arg)
}

const (
	sqlTurnOfJob = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE r.job_id = ?1 AND r.claim_at IS NOT NULL`

	sqlWaitingOfJob = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE r.job_id = ?1 AND r.claim_at IS NULL AND r.finished_at IS NULL`
)

// allOf loads all open runs of a job, however many wait.
func (l *lanes) allOf(job *jobstore.Job) error {
	l.jobs[job.ID] = job
	if err := l.open(sqlTurnOfJob, job.ID); err != nil {
		return err
	}
	return l.open(sqlWaitingOfJob, job.ID)
}

const (
	sqlTargetOf = `SELECT ` + targetColumns + ` FROM tidemark_targets AS t WHERE t.job_id = ?1 AND t.target = ?2`

	sqlTurnOf = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE r.job_id = ?1 AND r.target = ?2 AND r.claim_at IS NOT NULL`
)

// forManual loads the lane for a run that is neither skipped nor coalesced: what
// waits there does not matter to it.
func (l *lanes) forManual(job *jobstore.Job, target string) (*lane, error) {
	l.jobs[job.ID] = job
	lane := l.lane(job.ID, target)
	targets, err := collect(scanTarget)(l.t.query(sqlTargetOf, job.ID, target))
	if err != nil {
		return nil, err
	}
	if len(targets) > 0 {
		lane.target, lane.stored = targets[0], true
	}
	return lane, l.open(sqlTurnOf, job.ID, target)
}

// load loads jobs, targets and the runs that have their turn, and what matters
// of those that wait.
func (l *lanes) load(ids []int64, jobs, targets, turn string) error {
	arg, err := list(ids)
	if err != nil {
		return err
	}
	rows, err := l.t.query(jobs, arg)
	err = each(rows, err, func(rows *sql.Rows) error {
		job := new(jobstore.Job)
		err := scanJob(rows, job)
		l.jobs[job.ID] = job
		return err
	})
	if err != nil {
		return err
	}
	var crowds []*lane
	rows, err = l.t.query(targets, arg)
	err = each(rows, err, func(rows *sql.Rows) error {
		var target jobstore.Target
		var waits bool
		err := scanLane(rows, &target, &waits)
		lane := l.lane(target.JobID, target.Target)
		lane.target, lane.stored = target, true
		if waits {
			crowds = append(crowds, lane)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := l.open(turn, arg); err != nil {
		return err
	}
	for _, lane := range crowds {
		if err := l.open(sqlCrowd, lane.job.ID, lane.target.Target, max(lane.job.MaxInstances, 1)); err != nil {
			return err
		}
	}
	return nil
}

// Of a crowd that waits, what Admit and Promote need to see: as many of the
// oldest as may have their turn at once, and the scheduled one that came last.
// So a long backlog costs no more than a short one.
const sqlCrowd = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r WHERE r.id IN (
	SELECT id FROM (
		SELECT o.id FROM tidemark_runs AS o
		WHERE o.job_id = ?1 AND o.target = ?2 AND o.claim_at IS NULL AND o.finished_at IS NULL
		ORDER BY o.fire_time, o.id LIMIT ?3)
	UNION SELECT id FROM (
		SELECT o.id FROM tidemark_runs AS o
		WHERE o.job_id = ?1 AND o.target = ?2 AND o.claim_at IS NULL AND o.finished_at IS NULL AND o.trigger <> 'manual'
		ORDER BY o.fire_time DESC, o.id DESC LIMIT 1))`

// open puts open runs into their lanes, oldest first.
func (l *lanes) open(query string, args ...any) error {
	touched := map[*lane]bool{}
	rows, err := l.t.query(query, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		e := &entry{stored: true}
		if err := scanRun(rows, &e.Run); err != nil || l.runs[e.ID] != nil {
			return err
		}
		lane := l.lane(e.JobID, e.Target)
		e.Job, e.state, e.attempt = lane.job.Name, e.State, e.Attempt
		lane.runs = append(lane.runs, e)
		l.runs[e.ID] = e
		if len(lane.runs) > 1 {
			touched[lane] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for lane := range touched {
		slices.SortFunc(lane.runs, older)
	}
	return nil
}

func older(a, b *entry) int {
	return cmp.Or(a.FireTime.Compare(b.FireTime), cmp.Compare(a.ID, b.ID))
}
