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

// jobColumns are where a whole job goes, in the order of the statements that
// select one.
func jobColumns(job *jobstore.Job) []any {
	return []any{
		&job.ID, &job.Version, &job.Name, (*text8)(&job.JSON), &job.Hash, (*text8)(&job.Schedule),
		&job.Fingerprint, (*string)(&job.Overlap), (*string)(&job.Coalesce), &job.MaxInstances,
		&job.Windowed, &job.UsesWindow, (*instant)(&job.WatermarkStart), &job.FilePaused,
		(*instant)(&job.LastPlanned), (*instant)(&job.CountsFrom), (*instant)(&job.NextFire), &job.Due, &job.Pruned,
		(*instant)(&job.PrunedThrough), (*instant)(&job.Pause.At), (*instant)(&job.Pause.Until),
		&job.Pause.Reason, &job.Pause.By, (*instant)(&job.Pause.ResumedAt), (*string)(&job.Pause.Policy),
		(*instant)(&job.CreatedAt), (*instant)(&job.RemovedAt),
	}
}

// text8 scans a text into bytes.
type text8 []byte

// ScanText implements pgtype.TextScanner.
func (t *text8) ScanText(v pgtype.Text) error {
	*t = text8(v.String)
	return nil
}

// ruleColumns are what the rules need to know of a job: not its definition's
// text.
func ruleColumns(job *jobstore.Job) []any {
	return []any{
		&job.ID, &job.Version, &job.Name, &job.Hash, &job.Fingerprint,
		(*string)(&job.Overlap), (*string)(&job.Coalesce), &job.MaxInstances, &job.Windowed, &job.UsesWindow,
		(*instant)(&job.WatermarkStart), (*instant)(&job.LastPlanned), (*instant)(&job.PrunedThrough),
		(*instant)(&job.Pause.At), (*instant)(&job.Pause.Until), (*instant)(&job.Pause.ResumedAt),
		(*instant)(&job.RemovedAt),
	}
}

func targetColumns(t *jobstore.Target) []any {
	return []any{
		&t.JobID, &t.Target, (*instant)(&t.Watermark), (*string)(&t.LastState),
		(*instant)(&t.LastFinishedAt), (*instant)(&t.LastSuccessAt), (*instant)(&t.LastSuccessFire),
		&t.LastSuccessKey, &t.Review,
	}
}

func runColumns(run *jobstore.Run) []any {
	return []any{
		&run.ID, &run.Key, &run.JobID, &run.Job, &run.Target, (*instant)(&run.FireTime),
		(*string)(&run.Trigger), &run.LogicalRun, (*string)(&run.State), &run.Reason, &run.Review,
		&run.CoalescedInto, &run.Covers, (*instant)(&run.NotBefore), (*instant)(&run.ClaimAt),
		(*instant)(&run.Deadline), &run.Attempt, &run.Failures, &run.Node, (*instant)(&run.CreatedAt),
		(*instant)(&run.StartedAt), (*instant)(&run.AttemptStartedAt), (*instant)(&run.FinishedAt),
		(*instant)(&run.WindowFrom), (*instant)(&run.WindowTo), &run.OwnWindow, &run.Fingerprint,
		&run.CancelRequested, &run.ExitCode, &run.Message,
	}
}

func rangeColumns(r *jobstore.Range) []any {
	return []any{
		&r.ID, &r.JobID, (*instant)(&r.First), (*instant)(&r.Last), &r.Count,
		(*string)(&r.Outcome), &r.Reason, (*instant)(&r.Into), (*instant)(&r.RecordedAt),
	}
}

// collect is a batch callback that reads the rows into a slice. columns says
// where a row's values go.
func collect[T any](into *[]T, columns func(*T) []any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*into = nil
		return each(rows, columns, func(row *T) { *into = append(*into, *row) })
	}
}

// each calls fn with one row after the other. fn must not keep the pointer.
func each[T any](rows pgx.Rows, columns func(*T) []any, fn func(*T)) error {
	var row T
	_, err := pgx.ForEachRow(rows, columns(&row), func() error {
		fn(&row)
		return nil
	})
	return err
}

// only is where the value of a single column goes.
func only[T any](v *T) []any { return []any{v} }

// column gathers one column of a set of rows.
func column[T, C any](rows []T, get func(*T) C) pgtype.FlatArray[C] {
	out := make(pgtype.FlatArray[C], len(rows))
	for i := range rows {
		out[i] = get(&rows[i])
	}
	return out
}
