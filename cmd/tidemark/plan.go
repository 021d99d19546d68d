package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/internal/daemon"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

type planFlags struct {
	scheduleFlags
	since, now string
	grace      string
	coalesce   string
	catchupMax string
}

func (c *cli) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [JOB…]",
		Short: "Explain what a start would do about what is due",
		Long: `Explains what starting at --now would do: every run it would create, what it
would coalesce, what has expired, and why. It changes nothing.

With --since it takes the jobs as last planned then and needs no store; without,
it reads from the store where each job stands. With --schedule it needs no file
either: the quickest way to understand a setting.`,
		Example: `  tidemark plan
  tidemark plan nightly-report --since 2026-11-21 --now '2026-11-29 03:30'
  tidemark plan --schedule '* * * * *' --grace 3m --coalesce latest --since -10m`,
		ValidArgsFunction: c.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.plan(cmd, &f, args)
		},
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "`time` of the last plan (default: what the store says)")
	flags.StringVar(&f.now, "now", "now", "`time` of the start")
	flags.StringVar(&f.grace, "grace", "", "misfire_grace_time of --schedule: a `duration` or unlimited")
	flags.StringVar(&f.coalesce, "coalesce", "", "coalesce of --schedule: latest, earliest or `all`")
	flags.StringVar(&f.catchupMax, "catchup-max", "unlimited", "catchup.max of --schedule under all: a `number` or unlimited")
	return cmd
}

func (c *cli) plan(cmd *cobra.Command, f *planFlags, names []string) error {
	if err := f.check(cmd, names, "grace", "coalesce", "catchup-max"); err != nil {
		return err
	}
	now, err := parseTime(f.now, c.now())
	if err != nil {
		return usageAt(cmd, "--now", err)
	}
	since := time.Time{}
	if cmd.Flags().Changed("since") {
		if since, err = parseTime(f.since, now); err != nil {
			return usageAt(cmd, "--since", err)
		}
	}
	var plans []planned
	switch {
	case cmd.Flags().Changed("schedule"):
		plans, err = f.ofExpression(cmd, since, now)
	case !since.IsZero():
		plans, err = c.plansSince(names, since, now)
	default:
		plans, err = c.plansOfStore(cmd, names, now)
	}
	if err != nil {
		return err
	}
	if c.json {
		out := make([]planJSON, len(plans))
		for i := range plans {
			out[i] = plans[i].json()
		}
		return c.printJSON(out)
	}
	c.printPlans(plans)
	return nil
}

// ofExpression plans a schedule that no file knows.
func (f *planFlags) ofExpression(cmd *cobra.Command, since, now time.Time) ([]planned, error) {
	if since.IsZero() {
		return nil, usage(cmd, "--schedule needs --since").hinted("the time of the last plan, such as -2h")
	}
	job := &scheduler.Job{Targets: []string{""}}
	job.Windowed = true
	var err error
	if job.Grace, err = parseGrace(f.grace); err != nil {
		return nil, usageAt(cmd, "--grace", err)
	}
	job.Coalesce = jobstore.Coalesce(f.coalesce)
	switch job.Coalesce {
	case jobstore.CoalesceLatest, jobstore.CoalesceEarliest, jobstore.CoalesceAll:
	case "":
		return nil, usage(cmd, "--coalesce is missing").hinted("which of several late fire times becomes a run has no default: latest, earliest or all")
	default:
		return nil, usage(cmd, "--coalesce is %q", f.coalesce).hinted("latest, earliest or all")
	}
	if f.catchupMax != "unlimited" {
		if job.Coalesce != jobstore.CoalesceAll {
			return nil, usage(cmd, "--catchup-max goes with --coalesce all")
		}
		if job.CatchupMax, err = strconv.Atoi(f.catchupMax); err != nil || job.CatchupMax < 1 {
			return nil, usage(cmd, "--catchup-max is %q", f.catchupMax).hinted("a number from 1 on, or unlimited")
		}
	}
	if job.Schedule, err = f.parse(cmd, since); err != nil {
		return nil, err
	}
	p := plannedSince(job, since, now)
	p.schedule = expressionText(f.spec(since))
	return []planned{p}, nil
}

// parseGrace reads a misfire_grace_time.
func parseGrace(text string) (time.Duration, error) {
	switch text {
	case "unlimited":
		return scheduler.Unlimited, nil
	case "":
		return 0, &failure{msg: "is missing", hint: "how late a run may start has no default: a duration such as 10m, or unlimited"}
	}
	d, err := parseSpan(text)
	switch {
	case err != nil:
		return 0, &failure{msg: fmt.Sprintf("%q is not a duration", text), hint: "write one such as 90s, 10m, 6h or 1d, or unlimited"}
	case d < time.Second:
		return 0, &failure{msg: fmt.Sprintf("%q allows only the exact instant", text), hint: "use 1s or more, or unlimited"}
	}
	return d, nil
}

// plansSince plans the config's jobs as if last planned at since.
func (c *cli) plansSince(names []string, since, now time.Time) ([]planned, error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	jobs, err := pick(cfg, names)
	if err != nil {
		return nil, err
	}
	plans := make([]planned, len(jobs))
	for i, job := range jobs {
		plans[i] = plannedSince(job, since, now)
	}
	return plans, nil
}

// plansOfStore plans the config's jobs from where the store says they stand.
func (c *cli) plansOfStore(cmd *cobra.Command, names []string, now time.Time) ([]planned, error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	if _, err := pick(cfg, names); err != nil {
		return nil, err
	}
	var plans []planned
	err = c.withStore(cmd, func(store jobstore.Store) (err error) {
		plans, err = plansFrom(cmd, store, cfg, names, now)
		return err
	})
	return plans, err
}

func plansFrom(cmd *cobra.Command, store jobstore.Store, cfg *config.Config, names []string, now time.Time) ([]planned, error) {
	of, err := daemon.Plan(cmd.Context(), store, cfg, names, now, maxCount)
	if err != nil {
		return nil, err
	}
	targets, err := store.Targets(cmd.Context())
	if err != nil {
		return nil, err
	}
	plans := make([]planned, len(of))
	for i, p := range of {
		plans[i] = planned{
			job: p.Job, state: p.State, now: now, plan: p.Plan, runs: p.Firing.Runs,
			schedule: expressionText(specOf(p.Job.Definition.Schedule)), marks: map[string]time.Time{},
		}
		plans[i].countLeftOut()
		for _, t := range targets {
			if t.JobID == p.State.ID && p.State.ID != 0 && !t.Watermark.IsZero() {
				plans[i].marks[t.Target] = t.Watermark
			}
		}
		if p.State.Pause.Active(now) {
			plans[i].paused = pauseText(p.State.Pause)
			plans[i].plan.Next = p.State.NextFire
		}
	}
	return plans, nil
}

// planned is what a start would do to one job.
type planned struct {
	job      *scheduler.Job
	schedule string
	state    jobstore.Job // where it stood before
	now      time.Time
	plan     scheduler.Plan
	runs     []jobstore.NewRun
	leftOut  int64                // kept fire times beyond what is listed
	marks    map[string]time.Time // watermarks by target, where there are any
	paused   string               // by whom and why; empty: it is not
}

// plannedSince plans a job as if last planned at since.
func plannedSince(job *scheduler.Job, since, now time.Time) planned {
	p := planned{
		job: job, schedule: expressionText(specOf(job.Definition.Schedule)), now: now,
		state: jobstore.Job{Definition: job.Definition, LastPlanned: since},
	}
	if job.FilePaused {
		p.paused = "by the config"
		p.plan.LastPlanned = since
		p.plan.Next, _ = job.Schedule.Next(slices.MaxFunc([]time.Time{since, now}, time.Time.Compare))
		return p
	}
	p.plan = job.Plan(p.state, now, maxCount)
	p.runs = job.Firing(p.state, p.plan, now).Runs
	p.countLeftOut()
	return p
}

// countLeftOut counts what the limit of the listing left: all of it would be
// kept, for what expired is older.
func (p *planned) countLeftOut() {
	if p.plan.More {
		p.leftOut = p.job.Schedule.Count(p.plan.LastPlanned, p.now)
		p.plan.Due += p.leftOut
		p.plan.Next, _ = p.job.Schedule.Next(p.now)
	}
}

// windows returns the window of each run, if all before it succeed.
func (p *planned) windows() []scheduler.Interval {
	out := make([]scheduler.Interval, len(p.runs))
	if !p.job.Windowed {
		return out
	}
	marks := map[string]time.Time{}
	for i, run := range p.runs {
		from, ok := marks[run.Target]
		if !ok {
			if from, ok = p.marks[run.Target]; !ok {
				from = p.state.LastPlanned
				if !p.job.WatermarkStart.IsZero() {
					from = p.job.WatermarkStart
				}
			}
		}
		if from.After(run.WindowTo) { // covered already: an empty window
			out[i] = scheduler.Interval{After: run.WindowTo, Until: run.WindowTo}
			continue
		}
		out[i] = scheduler.Interval{After: from, Until: run.WindowTo}
		marks[run.Target] = run.WindowTo
	}
	return out
}
