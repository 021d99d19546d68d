package scheduler

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// planLimit bounds the runs that one plan of one job creates at once under
// `catchup: {max: unlimited}`; the rest follows in the next plan.
const planLimit = 1000

// Plan plans the job from where the store says it stands.
func (j *Job) Plan(state jobstore.Job, now time.Time, limit int) Plan {
	in := PlanInput{
		Schedule: j.Schedule, Grace: j.Grace, Coalesce: j.Coalesce, CatchupMax: j.CatchupMax,
		LastPlanned: state.LastPlanned, Now: now, Limit: limit,
	}
	if end, ok := state.Pause.End(now); ok {
		policy := state.Pause.Policy
		if policy == "" {
			policy = j.OnResume
		}
		if policy != jobstore.ResumeCatchUp {
			in.Passed = Interval{state.Pause.At, end}
		}
	}
	return MakePlan(in)
}

// Firing is the plan as the store records it.
func (j *Job) Firing(state jobstore.Job, plan Plan, now time.Time) jobstore.Firing {
	f := jobstore.Firing{
		JobID: state.ID, Version: state.Version,
		LastPlanned: plan.LastPlanned, NextFire: plan.Next, Due: plan.Due, Ranges: plan.Ranges,
	}
	if _, ended := state.Pause.End(now); ended && !plan.More {
		f.EndPause = true
	}
	for _, k := range plan.Kept {
		trigger := jobstore.TriggerSchedule
		if k.Late {
			trigger = jobstore.TriggerCatchUp
		}
		for _, target := range j.Targets {
			run := jobstore.NewRun{
				Key: jobstore.Key(j.Name, target, k.FireTime), Target: target, FireTime: k.FireTime,
				Trigger: trigger, NotBefore: k.FireTime, Covers: k.Covers, WindowTo: k.WindowTo,
			}
			if j.Jitter > 0 {
				run.NotBefore = k.FireTime.Add(Jitter(run.Key, j.Jitter))
			}
			if j.Grace != Unlimited {
				run.Deadline = k.FireTime.Add(j.Grace)
			}
			f.Runs = append(f.Runs, run)
		}
	}
	return f
}
