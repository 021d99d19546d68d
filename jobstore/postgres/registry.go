package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkd/tidemark/jobstore"
)

const selectJobs = `
SELECT id, version, name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed,
       uses_window, watermark_start, file_paused, last_planned, counts_from, next_fire, due, pruned, pruned_through,
       paused_at, paused_until, pause_reason, paused_by, resumed_at, resume_policy, created_at, removed_at
FROM tidemark_jobs
WHERE CASE WHEN cardinality($1::text[]) = 0 THEN removed_at IS NULL ELSE name = ANY ($1::text[]) END
ORDER BY name`

// Jobs implements jobstore.Registry. Removed jobs are listed by their names.
func (s *Store) Jobs(ctx context.Context, names ...string) (jobs []jobstore.Job, err error) {
	b := &pgx.Batch{}
	b.Queue(selectJobs, column(names, func(n *string) string { return text(*n) })).
		Query(collect(&jobs, jobColumns))
	err = s.run(ctx, "list jobs", b)
	return jobs, err
}

const selectAgenda = `
SELECT id, version, name, '', hash, '', fingerprint, overlap, coalesce, max_instances, windowed,
       uses_window, watermark_start, file_paused, last_planned, counts_from, next_fire, due, pruned, pruned_through,
       paused_at, paused_until, pause_reason, paused_by, resumed_at, resume_policy, created_at, removed_at
FROM tidemark_jobs
ORDER BY name`

// Agenda implements jobstore.Registry.
func (s *Store) Agenda(ctx context.Context) (jobs []jobstore.Job, err error) {
	b := &pgx.Batch{}
	b.Queue(selectAgenda).Query(collect(&jobs, jobColumns))
	err = s.run(ctx, "list jobs", b)
	return jobs, err
}

const selectAllTargets = `
SELECT t.job_id, t.target, t.watermark, t.last_state, t.last_finished_at, t.last_success_at,
       t.last_success_fire, t.last_success_key, t.review
FROM tidemark_targets t
ORDER BY t.job_id, t.target`

// Targets implements jobstore.Registry.
func (s *Store) Targets(ctx context.Context) (targets []jobstore.Target, err error) {
	b := &pgx.Batch{}
	b.Queue(selectAllTargets).Query(collect(&targets, targetColumns))
	err = s.run(ctx, "list targets", b)
	return targets, err
}

const selectBacklog = `
SELECT j.name, r.state, count(*)
FROM (
    SELECT job_id, state FROM tidemark_runs WHERE claim_at IS NOT NULL
    UNION ALL
    SELECT job_id, state FROM tidemark_runs WHERE claim_at IS NULL AND finished_at IS NULL
) r
JOIN tidemark_jobs j ON j.id = r.job_id
GROUP BY j.name, r.state`

// Backlog implements jobstore.Registry.
func (s *Store) Backlog(ctx context.Context) (map[string]map[jobstore.State]int64, error) {
	b := &pgx.Batch{}
	backlog := map[string]map[jobstore.State]int64{}
	queueBacklog(b, backlog)
	err := s.run(ctx, "count open runs", b)
	return backlog, err
}

func queueBacklog(b *pgx.Batch, into map[string]map[jobstore.State]int64) {
	b.Queue(selectBacklog).Query(func(rows pgx.Rows) error {
		clear(into)
		var job, state string
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&job, &state, &n}, func() error {
			if into[job] == nil {
				into[job] = map[jobstore.State]int64{}
			}
			into[job][jobstore.State(state)] = n
			return nil
		})
		return err
	})
}
