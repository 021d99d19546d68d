package scheduler

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
)

// Resume logs what a start finds: a line for each job that has something to
// catch up or take over, and a summary. It changes nothing.
func (s *Scheduler) Resume(ctx context.Context, state jobstore.SyncState) error {
	s.loaded.RLock()
	defer s.loaded.RUnlock()
	watermarks, err := s.watermarks(ctx, state)
	if err != nil {
		return err
	}
	var planned, create, missed, coalesced int64
	for _, stored := range state.Jobs {
		job := s.jobs[stored.Name]
		if job == nil || s.own[stored.ID] == "" || stored.NextFire.IsZero() || stored.NextFire.After(state.Now) || stored.Pause.Active(state.Now) {
			continue
		}
		plan := job.Plan(stored, state.Now, planLimit)
		planned++
		create += int64(len(plan.Kept) * len(job.Targets))
		missed += plan.Expired
		coalesced += plan.Coalesced
		s.log.Info("catching up", append(resumeFields(stored, plan), watermarks.field(stored.ID))...)
	}
	open, err := s.store.Runs(ctx, jobstore.RunFilter{States: []jobstore.State{jobstore.Running, jobstore.Retrying}, Limit: 1000})
	if err != nil {
		return fmt.Errorf("look for runs to take over: %w", err)
	}
	taken := 0
	for i := range open {
		if open[i].Node == s.opt.Node.Name {
			taken++
			s.log.Info("unfinished run, its next attempt follows", zap.String("key", open[i].Key), zap.Int("attempts_so_far", open[i].Attempt))
		}
	}
	s.log.Info("ready", zap.Int("jobs", len(s.jobs)), zap.Int64("jobs_to_catch_up", planned), zap.Int64("runs_to_create", create),
		zap.Int64("missed", missed), zap.Int64("coalesced", coalesced), zap.Int("runs_to_take_over", taken))
	return nil
}

func resumeFields(stored jobstore.Job, plan Plan) []zap.Field {
	fields := []zap.Field{
		zap.String("job", stored.Name), zap.String("last_planned", jobstore.FormatTime(stored.LastPlanned)),
		zap.Int64("due", plan.Due), zap.Int("runs", len(plan.Kept)), zap.Int64("missed", plan.Expired), zap.Int64("coalesced", plan.Coalesced),
	}
	if n := len(plan.Kept); n > 0 {
		fields = append(fields, zap.String("first_run", jobstore.FormatTime(plan.Kept[0].FireTime)), zap.String("last_run", jobstore.FormatTime(plan.Kept[n-1].FireTime)))
	}
	if plan.More {
		fields = append(fields, zap.Bool("more_follows", true))
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

func (s *Scheduler) watermarks(ctx context.Context, state jobstore.SyncState) (oldestWatermarks, error) {
	due := false
	for i := range state.Jobs {
		next := state.Jobs[i].NextFire
		due = due || !next.IsZero() && !next.After(state.Now)
	}
	if !due {
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
