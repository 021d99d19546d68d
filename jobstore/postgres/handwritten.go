package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// handInsert binds $1: keys, $2: numbers in place of jobs.
const handInsert = `
INSERT INTO tidemark_runs (key, job_id, target, fire_time, trigger, state, not_before, claim_at,
    attempt, node, created_at, started_at, attempt_started_at, window_from, window_to)
SELECT key, job, '', now(), 'schedule', 'running', now(), now() + interval '30 seconds',
    1, 'hand', now(), now(), now(), now(), now()
FROM unnest($1::text[], $2::bigint[]) AS v (key, job)`

// handFinish binds $1: keys.
const handFinish = `
UPDATE tidemark_runs SET state = 'succeeded', claim_at = NULL, finished_at = now()
WHERE key = ANY ($1) AND state = 'running' AND attempt = 1`

// HandwrittenCycle is what a person would write who needs no scheduler: it
// inserts runs as leased, and completes them, in transactions of batch runs
// each. It is the yardstick of `tidemark bench dispatch`. It returns how long
// that took; its rows stay.
func (s *Store) HandwrittenCycle(ctx context.Context, runs, batch int) (time.Duration, error) {
	began := time.Now()
	for done := 0; done < runs; done += batch {
		n := min(batch, runs-done)
		keys, jobs := make([]string, n), make([]int64, n)
		for i := range keys {
			keys[i], jobs[i] = fmt.Sprintf("hand//%d", done+i), -int64(done+i)-1
		}
		if _, err := s.pool.Exec(ctx, handInsert, keys, jobs); err != nil {
			return 0, wrap(ctx, "insert runs by hand", err)
		}
		if _, err := s.pool.Exec(ctx, handFinish, keys); err != nil {
			return 0, wrap(ctx, "complete runs by hand", err)
		}
	}
	return time.Since(began), nil
}

// Scratch makes an empty schema in the database at address, and returns an
// address at which it is the connection's own. drop takes it away again.
func Scratch(ctx context.Context, address string) (own string, drop func() error, err error) {
	name := "tidemark_scratch_" + strings.ToLower(rand.Text())
	run := func(ctx context.Context, before, after string) error {
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return wrap(ctx, "make a scratch schema", err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, before+pgx.Identifier{name}.Sanitize()+after); err != nil {
			return wrap(ctx, "make a scratch schema", err)
		}
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, fmt.Errorf("read the store's address: %w", err)
	}
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	if err := run(ctx, "CREATE SCHEMA ", ""); err != nil {
		return "", nil, err
	}
	return u.String(), func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		return run(ctx, "DROP SCHEMA ", " CASCADE")
	}, nil
}
