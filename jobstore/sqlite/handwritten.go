package sqlite

import (
	"context"
	"fmt"
	"time"
)

const (
	sqlHandInsert = `INSERT INTO tidemark_runs (key, job_id, target, fire_time, trigger, state, not_before, claim_at,
	attempt, node, created_at, started_at, attempt_started_at, window_from, window_to)
VALUES (?1, ?2, '', ?3, 'schedule', 'running', ?3, ?4, 1, 'hand', ?3, ?3, ?3, ?3, ?3)`

	sqlHandFinish = `UPDATE tidemark_runs SET state = 'succeeded', claim_at = NULL, finished_at = ?2
WHERE key = ?1 AND state = 'running' AND attempt = 1`
)

// HandwrittenCycle is what a person would write who needs no scheduler: it
// inserts runs as leased, and completes them, in transactions of batch runs
// each. It is the yardstick of `tidemark bench dispatch`. It returns how long
// that took; its rows stay.
func (s *Store) HandwrittenCycle(ctx context.Context, runs, batch int) (time.Duration, error) {
	began := time.Now()
	for done := 0; done < runs; done += batch {
		n := min(batch, runs-done)
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("hand//%d", done+i)
		}
		insert := func(t *tx) error {
			lease := t.now.Add(30 * time.Second).UnixMicro()
			for i, key := range keys {
				if _, err := t.exec(sqlHandInsert, key, -int64(done+i)-1, t.now.UnixMicro(), lease); err != nil {
					return err
				}
			}
			return nil
		}
		finish := func(t *tx) error {
			for _, key := range keys {
				if _, err := t.exec(sqlHandFinish, key, t.now.UnixMicro()); err != nil {
					return err
				}
			}
			return nil
		}
		for _, step := range []func(*tx) error{insert, finish} {
			if err := s.write(ctx, step); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(began), nil
}
