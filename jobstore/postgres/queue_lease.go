package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkd/tidemark/jobstore"
)

const selectHeld = `
SELECT id, attempt, claim_at, cancel_requested
FROM tidemark_runs
WHERE id = ANY ($1::bigint[]) AND state = 'running' AND node = $2`

// A row that another transaction holds is left for the next call: leases are
// renewed long before they end.
const renewLeases = `
WITH held AS (
    SELECT r.id
    FROM unnest($1::bigint[], $2::integer[]) AS l (id, attempt)
    JOIN tidemark_runs r ON r.id = l.id AND r.attempt = l.attempt
    WHERE r.state = 'running' AND r.node = $3
    FOR NO KEY UPDATE OF r SKIP LOCKED
)
UPDATE tidemark_runs r SET claim_at = $4
FROM held
WHERE r.id = held.id`

// Extend implements jobstore.Queue. It writes only when leases are a third
// spent.
func (s *Store) Extend(ctx context.Context, req jobstore.ExtendRequest) (out jobstore.Signals, err error) {
	type hold struct {
		until  time.Time
		cancel bool
	}
	have := map[jobstore.Lease]hold{}
	b := &pgx.Batch{}
	queueNow(b, &out.Now)
	b.Queue(selectHeld, column(req.Leases, func(l *jobstore.Lease) int64 { return l.RunID }), req.Node).
		Query(func(rows pgx.Rows) error {
			var l jobstore.Lease
			var h hold
			_, err := pgx.ForEachRow(rows, []any{&l.RunID, &l.Attempt, (*instant)(&h.until), &h.cancel}, func() error {
				have[l] = h
				return nil
			})
			return err
		})
	if err := s.run(ctx, "renew leases", b); err != nil {
		return jobstore.Signals{}, err
	}
	var renew []jobstore.Lease
	for _, l := range req.Leases {
		h, ok := have[l]
		switch {
		case !ok:
			out.Lost = append(out.Lost, l)
			continue
		case h.cancel:
			out.Cancel = append(out.Cancel, l)
		}
		if h.until.Sub(out.Now) < req.Lease*2/3 {
			renew = append(renew, l)
		}
	}
	if len(renew) == 0 {
		return out, nil
	}
	b = &pgx.Batch{}
	b.Queue(renewLeases,
		column(renew, func(l *jobstore.Lease) int64 { return l.RunID }),
		column(renew, func(l *jobstore.Lease) int32 { return int32(l.Attempt) }),
		req.Node, stamp(out.Now.Add(req.Lease)))
	if err := s.run(ctx, "renew leases", b); err != nil {
		return jobstore.Signals{}, err
	}
	return out, nil
}

const reportOutputs = `
INSERT INTO tidemark_outputs (run_id, attempt, head, tail, size, updated_at)
SELECT o.run_id, o.attempt, o.head, o.tail, o.size, now()
FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::bytea[], $5::bigint[])
    AS o (run_id, attempt, head, tail, size)
JOIN tidemark_runs r ON r.id = o.run_id AND r.attempt = o.attempt AND r.state = 'running'
ORDER BY o.run_id
ON CONFLICT (run_id, attempt) DO UPDATE SET
    head = excluded.head, tail = excluded.tail, size = excluded.size, updated_at = excluded.updated_at`

// Report implements jobstore.Queue. The output of an attempt that is not its
// run's current one any more is dropped.
func (s *Store) Report(ctx context.Context, outputs []jobstore.RunOutput) error {
	if len(outputs) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	queueOutputs(b, reportOutputs, outputs)
	return s.run(ctx, "store output", b)
}

func queueOutputs(b *pgx.Batch, sql string, outputs []jobstore.RunOutput) {
	if len(outputs) == 0 {
		return
	}
	b.Queue(sql,
		column(outputs, func(o *jobstore.RunOutput) int64 { return o.RunID }),
		column(outputs, func(o *jobstore.RunOutput) int32 { return int32(o.Attempt) }),
		column(outputs, func(o *jobstore.RunOutput) []byte { return append([]byte{}, o.Output.Head...) }),
		column(outputs, func(o *jobstore.RunOutput) []byte { return append([]byte{}, o.Output.Tail...) }),
		column(outputs, func(o *jobstore.RunOutput) int64 { return o.Output.Size }))
}
