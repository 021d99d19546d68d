package postgres

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemarkd/tidemark/jobstore"
)

// instant scans a timestamptz; null is the zero time.
type instant time.Time

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (i *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*i = instant(time.Time{})
	if v.Valid {
		*i = instant(v.Time.UTC())
	}
	return nil
}

// stamp binds a time; the zero time is null.
func stamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: jobstore.Instant(t), Valid: !t.IsZero()}
}

// text is s as the database can keep it: valid UTF-8 without NUL. What people,
// commands and servers say passes through it.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// code binds an exit code.
func code(c *int) pgtype.Int4 {
	if c == nil {
		return pgtype.Int4{}
	}
	return pgtype.Int4{Int32: int32(*c), Valid: true}
}

// scanJob reads a whole job, in the order of the statements that select one.
func scanJob(row pgx.CollectableRow) (job jobstore.Job, err error) {
	err = row.Scan(&job.ID, &job.Version, &job.Name, (*text8)(&job.JSON), &job.Hash, (*text8)(&job.Schedule),
		&job.Fingerprint, (*string)(&job.Overlap), (*string)(&job.Coalesce), &job.MaxInstances,
		&job.Windowed, &job.UsesWindow, (*instant)(&job.WatermarkStart), &job.FilePaused,
		(*instant)(&job.LastPlanned), (*instant)(&job.CountsFrom), (*instant)(&job.NextFire), &job.Due, &job.Pruned,
		(*instant)(&job.PrunedThrough), (*instant)(&job.Pause.At), (*instant)(&job.Pause.Until),
		&job.Pause.Reason, &job.Pause.By, (*instant)(&job.Pause.ResumedAt), (*string)(&job.Pause.Policy),
		(*instant)(&job.CreatedAt), (*instant)(&job.RemovedAt))
	return job, err
}

// text8 scans a text into bytes.
type text8 []byte

// ScanText implements pgtype.TextScanner.
func (t *text8) ScanText(v pgtype.Text) error {
	*t = text8(v.String)
	return nil
}

// scanRules reads what the rules need to know of a job: not its definition's
// text.
func scanRules(row pgx.CollectableRow) (job jobstore.Job, err error) {
	err = row.Scan(&job.ID, &job.Version, &job.Name, &job.Hash, &job.Fingerprint,
		(*string)(&job.Overlap), (*string)(&job.Coalesce), &job.MaxInstances, &job.Windowed, &job.UsesWindow,
		(*instant)(&job.WatermarkStart), (*instant)(&job.LastPlanned), (*instant)(&job.PrunedThrough),
		(*instant)(&job.Pause.At), (*instant)(&job.Pause.Until), (*instant)(&job.Pause.ResumedAt),
		(*instant)(&job.RemovedAt))
	return job, err
}

func scanTarget(row pgx.CollectableRow) (t jobstore.Target, err error) {
	err = row.Scan(&t.JobID, &t.Target, (*instant)(&t.Watermark), (*string)(&t.LastState),
		(*instant)(&t.LastFinishedAt), (*instant)(&t.LastSuccessAt), (*instant)(&t.LastSuccessFire),
		&t.LastSuccessKey, &t.Review)
	return t, err
}

func scanRun(row pgx.CollectableRow) (run jobstore.Run, err error) {
	err = row.Scan(&run.ID, &run.Key, &run.JobID, &run.Job, &run.Target, (*instant)(&run.FireTime),
		(*string)(&run.Trigger), &run.LogicalRun, (*string)(&run.State), &run.Reason, &run.Review,
		&run.CoalescedInto, &run.Covers, (*instant)(&run.NotBefore), (*instant)(&run.ClaimAt),
		(*instant)(&run.Deadline), &run.Attempt, &run.Failures, &run.Node, (*instant)(&run.CreatedAt),
		(*instant)(&run.StartedAt), (*instant)(&run.AttemptStartedAt), (*instant)(&run.FinishedAt),
		(*instant)(&run.WindowFrom), (*instant)(&run.WindowTo), &run.OwnWindow, &run.Fingerprint,
		&run.CancelRequested, &run.ExitCode, &run.Message)
	return run, err
}

func scanRange(row pgx.CollectableRow) (r jobstore.Range, err error) {
	err = row.Scan(&r.ID, &r.JobID, (*instant)(&r.First), (*instant)(&r.Last), &r.Count,
		(*string)(&r.Outcome), &r.Reason, (*instant)(&r.Into), (*instant)(&r.RecordedAt))
	return r, err
}

// collect is a batch callback that reads the rows into a slice.
func collect[T any](into *[]T, scan pgx.RowToFunc[T]) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, scan)
		return err
	}
}

// column gathers one column of a set of rows.
func column[T, C any](rows []T, get func(*T) C) []C {
	out := make([]C, len(rows))
	for i := range rows {
		out[i] = get(&rows[i])
	}
	return out
}
