package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

// known is what exists already of what plans would create: a clock that went
// back, or a job that was renamed, may plan an instant again.
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

func newKnown() known {
	return known{keys: map[string]bool{}, runs: map[runID]bool{}, fires: map[fireID]bool{}}
}

const selectKnown = `
SELECT r.key, r.job_id, r.target, r.fire_time, r.trigger
FROM tidemark_runs r
WHERE r.key = ANY ($1::text[])
UNION ALL
SELECT r.key, r.job_id, r.target, r.fire_time, r.trigger
FROM unnest($2::bigint[], $3::timestamptz[]) AS f (job_id, fire_time)
JOIN tidemark_runs r ON r.job_id = f.job_id AND r.fire_time = f.fire_time`

func (k known) queue(b *pgx.Batch, firings []jobstore.Firing) {
	var keys []string
	var jobs []int64
	var fires []pgtype.Timestamptz
	for i := range firings {
		var last time.Time
		for _, n := range firings[i].Runs {
			keys = append(keys, n.Key)
			if !n.FireTime.Equal(last) {
				last = n.FireTime
				jobs, fires = append(jobs, firings[i].JobID), append(fires, stamp(last))
			}
		}
	}
	b.Queue(selectKnown, keys, jobs, fires).Query(func(rows pgx.Rows) error {
		var key, trigger string
		var id runID
		var fire time.Time
		_, err := pgx.ForEachRow(rows, []any{&key, &id.job, &id.target, &fire, &trigger}, func() error {
			id.fire = fire.UnixMicro()
			k.keys[key] = true
			if trigger != string(jobstore.TriggerManual) {
				k.runs[id] = true
				k.fires[fireID{id.job, id.fire}] = true
			}
			return nil
		})
		return err
	})
}

// news are the plan's runs that do not exist and do not lie behind what was
// pruned; old counts the fire times that add nothing to the ledger.
func (k known) news(job *jobstore.Job, plan *jobstore.Firing) (news []jobstore.NewRun, old int64) {
	if len(k.keys) == 0 && (len(plan.Runs) == 0 || plan.Runs[0].FireTime.After(job.PrunedThrough)) {
		return plan.Runs, 0 // oldest first, so all of them are news
	}
	adds := map[int64]bool{} // by fire time
	for _, n := range plan.Runs {
		fire := jobstore.Instant(n.FireTime).UnixMicro()
		id := runID{job.ID, n.Target, fire}
		if k.keys[n.Key] || k.runs[id] || !n.FireTime.After(job.PrunedThrough) {
			adds[fire] = adds[fire] || false
			continue
		}
		k.keys[n.Key], k.runs[id] = true, true
		adds[fire] = true
		news = append(news, n)
	}
	for fire, any := range adds {
		if !any || k.fires[fireID{job.ID, fire}] {
			old++
		}
	}
	return news, old
}
