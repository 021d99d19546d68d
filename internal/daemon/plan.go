package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// JobPlan is what a start would do to one job.
type JobPlan struct {
	Job    *scheduler.Job
	State  jobstore.Job // as reconciling the file would leave it
	Plan   scheduler.Plan
	Firing jobstore.Firing
}

// Plan says what starting at now with this file would do to the named jobs, or
// to all. It reconciles as a start would, and changes nothing. A zero now is
// the store's own.
func Plan(ctx context.Context, store jobstore.Store, cfg *config.Config, names []string, now time.Time, limit int) ([]JobPlan, error) {
	state, err := readState(ctx, store)
	if err != nil {
		return nil, err
	}
	if !now.IsZero() {
		state.Now = now
	}
	jobs := plainJobs(cfg)
	changes, err := scheduler.Reconcile(jobs, cfg.Revision, state)
	if err != nil {
		return nil, err
	}
	after := scheduler.Reconciled(changes, state)
	var out []JobPlan
	for _, job := range jobs {
		if len(names) > 0 && !slices.Contains(names, job.Name) {
			continue
		}
		stored, ok := after[job.Name]
		if !ok { // a newer file, known by its revision, has dropped it
			stored.RemovedAt = state.Now
		}
		p := JobPlan{Job: job, State: stored}
		if stored.RemovedAt.IsZero() && !stored.Pause.Active(state.Now) {
			p.Plan = job.Plan(stored, state.Now, limit)
			p.Firing = job.Firing(stored, p.Plan, state.Now)
		}
		out = append(out, p)
	}
	if len(out) < len(names) {
		return nil, fmt.Errorf("%w: no such job in %s", jobstore.ErrNotFound, cfg.Path)
	}
	return out, nil
}

var errNothingToChange = errors.New("only reading")

// readState reads what a load would start from, and changes nothing.
func readState(ctx context.Context, store jobstore.Store) (jobstore.SyncState, error) {
	var seen jobstore.SyncState
	_, err := store.Sync(ctx, func(s jobstore.SyncState) (jobstore.Changes, error) {
		seen = s
		return jobstore.Changes{}, errNothingToChange
	})
	if err != nil && !errors.Is(err, errNothingToChange) {
		return seen, err
	}
	return seen, nil
}
