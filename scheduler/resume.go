package scheduler

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
)

// resumeRuns bounds the unfinished runs that a start looks at.
const resumeRuns = 1000

// Resume logs what a start finds: a line for each job that has something to
// catch up or to take over, and a summary. It changes nothing.
func (s *Scheduler) Resume(ctx context.Context, state jobstore.SyncState) error {
	s.loaded.RLock()
	defer s.loaded.RUnlock()
	unfinished, err := s.unfinished(ctx, state.Now)
	if err != nil {
		return err
	}
	watermarks, err := s.watermarks(ctx, state, len(unfinished) > 0)
	if err != nil {
		return err
	}
	var jobs, create, take int
	var missed, coalesced int64
	for _, stored := range state.Jobs {
		plan := s.owed(stored, state.Now)
		runs := unfinished[stored.ID]
		if plan.Due == 0 && len(runs) == 0 {
			continue
		}
		jobs++
		create += len(plan.Kept) * s.targets(stored.Name)
		take += len(runs)
		missed += plan.Expired
		coalesced += plan.Coalesced
		s.log.Info("catching up", append(resumeFields(stored, plan, runs), watermarks.field(stored.ID))...)
	}
	s.log.Info("ready", zap.Int("jobs", len(s.jobs)), zap.Int("jobs_to_catch_up", jobs), zap.Int("runs_to_create", create),
		zap.Int64("missed", missed), zap.Int64("coalesced", coalesced), zap.Int("runs_to_take_over", take))
	return nil
}

// owed is the plan of what is due of a job that is this node's to fire; empty
// where there is nothing.
func (s *Scheduler) owed(stored jobstore.Job, now time.Time) Plan {
	job := s.jobs[stored.Name]
	if job == nil || s.own[stored.ID] == "" || stored.NextFire.IsZero() || stored.NextFire.After(now) || stored.Pause.Active(now) {
		return Plan{}
	}
	return job.Plan(stored, now, planLimit)
}

func (s *Scheduler) targets(name string) int {
	if job := s.jobs[name]; job != nil {
		return len(job.Targets)
	}
	return 0
}

// unfinished are the runs that nobody works on any more, by job: attempts whose
// lease has ended, also those of a daemon that had this node's name.
func (s *Scheduler) unfinished(ctx context.Context, now time.Time) (map[int64][]jobstore.Run, error) {
	open, err := s.store.Runs(ctx, jobstore.RunFilter{States: []jobstore.State{jobstore.Running, jobstore.Retrying}, Limit: resumeRuns})
	if err != nil {
		return nil, fmt.Errorf("look for runs to take over: %w", err)
	}
	out := map[int64][]jobstore.Run{}
	for i := range open {
		if r := &open[i]; r.Node == s.opt.Node.Name || !r.ClaimAt.After(now) {
			out[r.JobID] = append(out[r.JobID], *r)
		}
	}
	return out, nil
}

func resumeFields(stored jobstore.Job, plan Plan, unfinished []jobstore.Run) []zap.Field {
	fields := []zap.Field{zap.String("job", stored.Name), zap.String("last_planned", jobstore.FormatTime(stored.LastPlanned))}
	if plan.Due > 0 {
		fields = append(fields, zap.Int64("due", plan.Due), zap.Int("runs", len(plan.Kept)),
			zap.Int64("missed", plan.Expired), zap.Int64("coalesced", plan.Coalesced))
	}
	if n := len(plan.Kept); n > 0 {
		fields = append(fields, zap.String("first_run", jobstore.FormatTime(plan.Kept[0].FireTime)), zap.String("last_run", jobstore.FormatTime(plan.Kept[n-1].FireTime)))
	}
	if plan.More {
		fields = append(fields, zap.Bool("more_follows", true))
	}
	if n := len(unfinished); n > 0 {
		oldest := unfinished[n-1]
		fields = append(fields, zap.Int("take_over", n), zap.String("unfinished", oldest.Key), zap.Int("attempts_so_far", oldest.Attempt))
	}
	return fields
}

// oldestWatermarks is, by job, the oldest watermark of its targets.
type oldestWatermarks map[int64]time.Time

func (w oldestWatermarks) field(id int64) zap.Field {
	if t, ok := w[id]; ok {
		return zap.String("watermark", jobstore.FormatTime(t))
	}
	return zap.Skip()
}

// watermarks reads them only where there is a line to write.
func (s *Scheduler) watermarks(ctx context.Context, state jobstore.SyncState, wanted bool) (oldestWatermarks, error) {
	for i := range state.Jobs {
		next := state.Jobs[i].NextFire
		wanted = wanted || !next.IsZero() && !next.After(state.Now)
	}
	if !wanted {
		return nil, nil
	}
	targets, err := s.store.Targets(ctx)
	if err != nil {
		return nil, fmt.Errorf("read watermarks: %w", err)
	}
	oldest := oldestWatermarks{}
	for _, t := range targets {
		if known, ok := oldest[t.JobID]; !t.Watermark.IsZero() && (!ok || t.Watermark.Before(known)) {
			oldest[t.JobID] = t.Watermark
		}
	}
	return oldest, nil
}
