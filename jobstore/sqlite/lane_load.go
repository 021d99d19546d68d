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

	sqlTargetsOfJobs = `SELECT ` + targetColumns + ` FROM tidemark_targets AS t
WHERE t.job_id IN (SELECT value FROM json_each(?1))`

	// Where the job bounds its instances; of each lane one more than ?2 are enough
	// to know that some wait.
	sqlOpenOfJobs = `SELECT ` + runColumns + `, ''
FROM tidemark_targets AS t CROSS JOIN tidemark_jobs AS j CROSS JOIN tidemark_runs AS r
WHERE t.job_id IN (SELECT value FROM json_each(?1)) AND j.id = t.job_id AND j.max_instances > 0
  AND r.job_id = t.job_id AND r.target = t.target AND r.finished_at IS NULL
  AND r.id <= coalesce((
	SELECT o.id FROM tidemark_runs AS o
	WHERE o.job_id = t.job_id AND o.target = t.target AND o.finished_at IS NULL
	ORDER BY o.id LIMIT 1 OFFSET ?2), 9223372036854775807)`
)

// ofJobs loads the lanes that the jobs have.
func (l *lanes) ofJobs(ids []int64) error {
	return l.load(ids, sqlJobsByID, sqlTargetsOfJobs, sqlOpenOfJobs)
}

const (
	sqlJobsOfRuns = `SELECT ` + jobBriefColumns + ` FROM tidemark_jobs AS j
WHERE j.id IN (SELECT job_id FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)))`

	sqlTargetsOfRuns = `SELECT ` + targetColumns + ` FROM tidemark_targets AS t
WHERE (t.job_id, t.target) IN (SELECT job_id, target FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1)))`

	sqlOpenOfRuns = `SELECT ` + runColumns + `, ''
FROM (SELECT DISTINCT job_id, target FROM tidemark_runs WHERE id IN (SELECT value FROM json_each(?1))) AS lane
CROSS JOIN tidemark_jobs AS j CROSS JOIN tidemark_runs AS r
WHERE j.id = lane.job_id AND j.max_instances > 0
  AND r.job_id = lane.job_id AND r.target = lane.target AND r.finished_at IS NULL
  AND r.id <= coalesce((
	SELECT o.id FROM tidemark_runs AS o
	WHERE o.job_id = lane.job_id AND o.target = lane.target AND o.finished_at IS NULL
	ORDER BY o.id LIMIT 1 OFFSET ?2), 9223372036854775807)`

	sqlOpenByID = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE r.id IN (SELECT value FROM json_each(?1)) AND r.finished_at IS NULL`
)

// ofRuns loads the lanes that the runs are in, and those of the runs that are
// open.
func (l *lanes) ofRuns(ids []int64) error {
	if err := l.load(ids, sqlJobsOfRuns, sqlTargetsOfRuns, sqlOpenOfRuns); err != nil {
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

const sqlAllOpenOfJob = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r
WHERE r.job_id = ?1 AND r.finished_at IS NULL`

// allOf loads all open runs of a job, however many wait.
func (l *lanes) allOf(job *jobstore.Job) error {
	l.jobs[job.ID] = job
	return l.open(sqlAllOpenOfJob, job.ID)
}

func (l *lanes) load(ids []int64, jobs, targets, open string) error {
	arg, err := list(ids)
	if err != nil {
		return err
	}
	bound := 0
	rows, err := l.t.query(jobs, arg)
	err = each(rows, err, func(rows *sql.Rows) error {
		job := new(jobstore.Job)
		err := scanJob(rows, job)
		l.jobs[job.ID] = job
		bound = max(bound, job.MaxInstances)
		return err
	})
	if err != nil {
		return err
	}
	rows, err = l.t.query(targets, arg)
	err = each(rows, err, func(rows *sql.Rows) error {
		var target jobstore.Target
		err := scanTarget(rows, &target)
		lane := l.lane(target.JobID, target.Target)
		lane.target, lane.stored = target, true
		return err
	})
	if err != nil {
		return err
	}
	if err := l.open(open, arg, bound); err != nil {
		return err
	}
	return l.crowds(bound)
}

// Of a crowd, what Admit and Promote need to see: as many that have their turn
// as the bound, as many of the oldest that wait, and the scheduled one that
// waited last. So a long backlog costs no more than a short one.
const sqlCrowd = `SELECT ` + runColumns + `, '' FROM tidemark_runs AS r WHERE r.id IN (
	SELECT id FROM (
		SELECT o.id FROM tidemark_runs AS o
		WHERE o.job_id = ?1 AND o.target = ?2 AND o.finished_at IS NULL AND o.claim_at IS NOT NULL
		LIMIT ?3)
	UNION SELECT id FROM (
		SELECT o.id FROM tidemark_runs AS o
		WHERE o.job_id = ?1 AND o.target = ?2 AND o.finished_at IS NULL AND o.claim_at IS NULL
		ORDER BY o.fire_time, o.id LIMIT ?3)
	UNION SELECT id FROM (
		SELECT o.id FROM tidemark_runs AS o
		WHERE o.job_id = ?1 AND o.target = ?2 AND o.finished_at IS NULL AND o.claim_at IS NULL AND o.trigger <> 'manual'
		ORDER BY o.fire_time DESC, o.id DESC LIMIT 1))`

// crowds loads the rest of what matters of lanes of which only a part was
// loaded: more than bound.
func (l *lanes) crowds(bound int) error {
	for _, lane := range l.all {
		if lane.job.MaxInstances == 0 || len(lane.runs) <= bound {
			continue
		}
		if err := l.open(sqlCrowd, lane.job.ID, lane.target.Target, lane.job.MaxInstances); err != nil {
			return err
		}
	}
	return nil
}

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
