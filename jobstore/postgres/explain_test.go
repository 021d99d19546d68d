package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// fill makes a store of some age: thousands of jobs, many ended runs, and one
// lane in which thousands wait.
const fill = `
INSERT INTO tidemark_jobs (name, definition, hash, schedule, fingerprint, overlap, coalesce, max_instances, windowed,
    uses_window, file_paused, last_planned, counts_from, next_fire, wake_at, created_at)
SELECT 'job-' || i, '{}', 'h', '{}', 'f', 'queue_all', 'all', 1, true, false, false, now(), now(),
    now() + i * interval '1 second', now() + i * interval '1 second', now()
FROM generate_series(1, 5000) AS i;
INSERT INTO tidemark_targets (job_id, target) SELECT id, '' FROM tidemark_jobs;
INSERT INTO tidemark_runs (key, job_id, target, fire_time, trigger, state, not_before, created_at, started_at, finished_at)
SELECT 'run-' || i, 1 + i % 5000, '', now() - i * interval '1 second', 'schedule', 'succeeded', now(), now(), now(), now()
FROM generate_series(1, 100000) AS i;
INSERT INTO tidemark_runs (key, job_id, target, fire_time, trigger, state, not_before, created_at, attempt, node, claim_at)
SELECT 'open-' || i, i, '', now(), 'schedule', 'running', now(), now(), 1, 'n', now() + i * interval '1 second'
FROM generate_series(1, 100) AS i;
INSERT INTO tidemark_runs (key, job_id, target, fire_time, trigger, state, not_before, created_at)
SELECT 'waiting-' || i, 1, '', now() + i * interval '1 second', 'schedule', 'pending', now(), now()
FROM generate_series(1, 5000) AS i;
INSERT INTO tidemark_outputs SELECT id, 1, '', '', 0, now() FROM tidemark_runs WHERE state = 'running';
ANALYZE;`

// What the loops ask for in every turn must cost by what is due, not by what is
// stored.
func TestNoStatementOfTheLoopsReadsMoreThanItNeeds(t *testing.T) {
	s := open(t)
	if _, err := s.pool.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	ids, ones, some := []int64{1, 2, 3}, []int64{1, 1, 1}, []string{"", "", ""}
	none, no := []int64{}, []string{"a", "b", "c"}
	at := []time.Time{time.Now(), time.Now(), time.Now()}
	tests := []struct {
		name, sql string
		args      []any
	}{
		{"Due", selectDue, []any{none, 100}},
		{"Due, next", selectNextDue, []any{none}},
		{"Fire, lock", lockPlanned, []any{ids, ones}},
		{"Fire, targets", selectTargets, []any{ids, some}},
		{"Fire, open runs", selectOpen, []any{ids, some}},
		{"Fire, crowd", selectCrowd, []any{ids, some}},
		{"Fire, known runs", selectKnown, []any{no, ids, at}},
		{"Fire, update jobs", updatePlanned, []any{ids, ones, at, at, at, ones, at}},
		{"Claim", lockClaimable, []any{none, none, 100}},
		{"Claim, rules", selectRules, []any{ids}},
		{"Claim, free targets", lockFreeTargets, []any{ids, some}},
		{"Claim, next", selectNextClaim, nil},
		{"Extend", selectHeld, []any{ids, "n"}},
		{"Extend, renew", renewLeases, []any{ids, ones, "n", time.Now()}},
		{"Report", reportOutputs, []any{ids, ones, [][]byte{{}, {}, {}}, [][]byte{{}, {}, {}}, ones}},
		{"Finish, lock", lockTargetsOfRuns, []any{ids}},
		{"Finish, update", finishRuns, []any{ids, ones, no, no, []bool{true, true, true}, ones, []bool{true, true, true}, ones, no}},
		{"Finish, bounds", selectBounds, []any{ids}},
		{"Finish, waiting", selectWaiting, []any{ids, some}},
		{"Finish, targets", updateTargets, []any{ids, some, at, no, at, at, at, no, []bool{true, true, true}}},
		{"Finish, review", clearReview, []any{ids, some, none}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := explain(t, s, test.sql, test.args)
			for line := range strings.Lines(plan) {
				var rows float64
				for _, before := range []string{"(actual rows=", "Rows Removed by Filter: "} {
					if _, n, ok := strings.Cut(line, before); ok {
						if _, err := fmt.Sscanf(n, "%g", &rows); err != nil {
							t.Fatal(err)
						}
					}
				}
				if strings.Contains(line, "Seq Scan on tidemark") || rows > 150 {
					t.Fatalf("%s%s", line, plan)
				}
			}
		})
	}
}

// explain runs the statement in a transaction such as the loops', and takes it
// back.
func explain(t *testing.T, s *Store, sql string, args []any) string {
	t.Helper()
	var lines []string
	err := s.transact(t.Context(), "explain", func(ctx context.Context, tx *txn) error {
		b := tx.pipeline()
		b.Queue("EXPLAIN (ANALYZE, TIMING off, SUMMARY off) "+sql, args...).Query(collect(&lines, only))
		return tx.send(ctx, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestTwentyThousandJobsAreReconciledInSeconds(t *testing.T) {
	s := open(t)
	began := time.Now()
	jobs := make([]jobstore.Definition, 20_000)
	for i := range jobs {
		jobs[i] = definition(fmt.Sprintf("job-%05d", i))
	}
	create(t, s, jobs...)
	created := time.Since(began)
	began = time.Now()
	state, err := s.Sync(t.Context(), func(state jobstore.SyncState) (c jobstore.Changes, err error) {
		for _, job := range state.Jobs {
			job.MaxInstances = 2
			c.Update = append(c.Update, jobstore.JobUpdate{ID: job.ID, Definition: job.Definition})
		}
		return c, nil
	})
	if err != nil || len(state.Jobs) != len(jobs) {
		t.Fatal(len(state.Jobs), err)
	}
	changed := time.Since(began)
	written := func() (n int64) {
		t.Helper()
		// Not what a statistics collector will say some time later.
		if err := s.pool.QueryRow(t.Context(), `SELECT sum(version) FROM tidemark_jobs`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := written()
	began = time.Now()
	if _, err := s.Sync(t.Context(), func(jobstore.SyncState) (c jobstore.Changes, err error) { return c, nil }); err != nil {
		t.Fatal(err)
	}
	t.Logf("created in %v, changed in %v, left as they are in %v", created, changed, time.Since(began))
	if after := written(); after != before {
		t.Errorf("unchanged jobs were written: %d, %d", before, after)
	}
	if limit := 30 * time.Second; created > limit || changed > limit {
		t.Errorf("created in %v, changed in %v", created, changed)
	}
}
