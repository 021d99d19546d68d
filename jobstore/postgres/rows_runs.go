package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

// A key that exists fails it.
const insertRuns = `
INSERT INTO tidemark_runs (
    key, job_id, target, fire_time, trigger, logical_run, state, reason, coalesced_into, covers,
    not_before, claim_at, deadline, attempt, node, created_at, started_at, attempt_started_at,
    finished_at, window_from, window_to, own_window, fingerprint)
SELECT * FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[], $6::integer[], $7::text[], $8::text[],
    $9::text[], $10::bigint[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::integer[],
    $15::text[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[],
    $20::timestamptz[], $21::timestamptz[], $22::boolean[], $23::text[])
RETURNING id, key`

// queueInsertRuns creates runs and fills in their ids.
func queueInsertRuns(b *pgx.Batch, runs []*jobstore.Run) {
	if len(runs) == 0 {
		return
	}
	byKey := make(map[string]*jobstore.Run, len(runs))
	for _, r := range runs {
		byKey[r.Key] = r
	}
	b.Queue(insertRuns,
		column(runs, func(r **jobstore.Run) string { return (*r).Key }),
		column(runs, func(r **jobstore.Run) int64 { return (*r).JobID }),
		column(runs, func(r **jobstore.Run) string { return (*r).Target }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).FireTime) }),
		column(runs, func(r **jobstore.Run) string { return string((*r).Trigger) }),
		column(runs, func(r **jobstore.Run) int32 { return int32((*r).LogicalRun) }),
		column(runs, func(r **jobstore.Run) string { return string((*r).State) }),
		column(runs, func(r **jobstore.Run) string { return (*r).Reason }),
		column(runs, func(r **jobstore.Run) string { return (*r).CoalescedInto }),
		column(runs, func(r **jobstore.Run) int64 { return (*r).Covers }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).NotBefore) }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).ClaimAt) }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).Deadline) }),
		column(runs, func(r **jobstore.Run) int32 { return int32((*r).Attempt) }),
		column(runs, func(r **jobstore.Run) string { return (*r).Node }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).CreatedAt) }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).StartedAt) }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).AttemptStartedAt) }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).FinishedAt) }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).WindowFrom) }),
		column(runs, func(r **jobstore.Run) pgtype.Timestamptz { return stamp((*r).WindowTo) }),
		column(runs, func(r **jobstore.Run) bool { return (*r).OwnWindow }),
		column(runs, func(r **jobstore.Run) string { return (*r).Fingerprint }),
	).Query(func(rows pgx.Rows) error {
		var id int64
		var key string
		_, err := pgx.ForEachRow(rows, []any{&id, &key}, func() error {
			byKey[key].ID = id
			return nil
		})
		return err
	})
}

// updateRuns writes what a claim, a settlement or its turn in the queue changes
// in runs that the transaction holds.
const updateRuns = `
UPDATE tidemark_runs r SET
    state = v.state, reason = v.reason, review = v.review, coalesced_into = v.coalesced_into,
    covers = v.covers, claim_at = v.claim_at, attempt = v.attempt, node = v.node, started_at = v.started_at,
    attempt_started_at = v.attempt_started_at, finished_at = v.finished_at, window_from = v.window_from,
    window_to = v.window_to, fingerprint = v.fingerprint, exit_code = v.exit_code, message = v.message
FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::bigint[], $7::timestamptz[],
    $8::integer[], $9::text[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[],
    $14::timestamptz[], $15::text[], $16::integer[], $17::text[])
    AS v (id, state, reason, review, coalesced_into, covers, claim_at, attempt, node, started_at,
          attempt_started_at, finished_at, window_from, window_to, fingerprint, exit_code, message)
WHERE r.id = v.id AND r.finished_at IS NULL AND r.attempt <= v.attempt`

func queueUpdateRuns(b *pgx.Batch, runs []jobstore.Run) {
	if len(runs) == 0 {
		return
	}
	b.Queue(updateRuns,
		column(runs, func(r *jobstore.Run) int64 { return r.ID }),
		column(runs, func(r *jobstore.Run) string { return string(r.State) }),
		column(runs, func(r *jobstore.Run) string { return r.Reason }),
		column(runs, func(r *jobstore.Run) bool { return r.Review }),
		column(runs, func(r *jobstore.Run) string { return r.CoalescedInto }),
		column(runs, func(r *jobstore.Run) int64 { return r.Covers }),
		column(runs, func(r *jobstore.Run) pgtype.Timestamptz { return stamp(r.ClaimAt) }),
		column(runs, func(r *jobstore.Run) int32 { return int32(r.Attempt) }),
		column(runs, func(r *jobstore.Run) string { return r.Node }),
		column(runs, func(r *jobstore.Run) pgtype.Timestamptz { return stamp(r.StartedAt) }),
		column(runs, func(r *jobstore.Run) pgtype.Timestamptz { return stamp(r.AttemptStartedAt) }),
		column(runs, func(r *jobstore.Run) pgtype.Timestamptz { return stamp(r.FinishedAt) }),
		column(runs, func(r *jobstore.Run) pgtype.Timestamptz { return stamp(r.WindowFrom) }),
		column(runs, func(r *jobstore.Run) pgtype.Timestamptz { return stamp(r.WindowTo) }),
		column(runs, func(r *jobstore.Run) string { return r.Fingerprint }),
		column(runs, func(r *jobstore.Run) pgtype.Int4 { return code(r.ExitCode) }),
		column(runs, func(r *jobstore.Run) string { return r.Message }),
	)
}
