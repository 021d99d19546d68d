package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/scheduler"
)

// maxCount bounds what one listing holds in memory.
const maxCount = 100_000

// scheduleFlags describe a schedule without any file.
type scheduleFlags struct {
	expressions []string
	timezone    string
	seconds     bool
}

func (f *scheduleFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.expressions, "schedule", nil, "a schedule `expression` in place of the config's jobs; given again: their union")
	flags.StringVar(&f.timezone, "timezone", "", "IANA `zone` of --schedule (default UTC)")
	flags.BoolVar(&f.seconds, "seconds", false, "--schedule has six fields, the first one seconds")
}

// spec is the schedule that the flags describe. @every counts from the given
// instant, as if that were its start_at.
func (f *scheduleFlags) spec(from time.Time) scheduler.ScheduleSpec {
	spec := scheduler.ScheduleSpec{Expressions: f.expressions, Timezone: f.timezone, Seconds: f.seconds}
	if slices.ContainsFunc(f.expressions, func(e string) bool { return strings.Contains(e, "@every") }) {
		spec.StartAt = &from
	}
	return spec
}

// check refuses what goes with --schedule alone, or not with it.
func (f *scheduleFlags) check(cmd *cobra.Command, jobs []string, onlyWith ...string) error {
	if cmd.Flags().Changed("schedule") {
		if len(jobs) > 0 {
			return usage(cmd, "--schedule stands in place of jobs, %q is one", jobs[0])
		}
		return nil
	}
	for _, name := range append([]string{"timezone", "seconds"}, onlyWith...) {
		if cmd.Flags().Changed(name) {
			return usage(cmd, "--%s goes with --schedule", name).hinted("a job has its own, in the config")
		}
	}
	return nil
}

// parse makes the schedule. A fault in it is one of the command line.
func (f *scheduleFlags) parse(cmd *cobra.Command, from time.Time) (*scheduler.Schedule, error) {
	schedule, err := scheduler.ParseSchedule(f.spec(from))
	if err == nil {
		return schedule, nil
	}
	out := &failure{exit: 2, code: "usage"}
	var texts []string
	for _, one := range joined(err) {
		var fault *scheduler.ScheduleError
		if !errors.As(one, &fault) {
			texts = append(texts, one.Error())
			continue
		}
		text, flag := fault.Msg, "--"+fault.Field
		if fault.Field == "schedule" && fault.Index < len(f.expressions) {
			text = fmt.Sprintf("%q, character %d: %s", f.expressions[fault.Index], fault.Offset+1, fault.Msg)
		}
		texts = append(texts, flag+": "+text)
		if out.at == "" {
			out.at, out.hint = flag, fault.Hint
		}
	}
	out.msg = strings.Join(texts, "; ")
	if out.hint == "" {
		out.hint = "see " + cmd.CommandPath() + " --help"
	}
	return nil, out
}

func joined(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

type nextFlags struct {
	scheduleFlags
	count int
	after string
}

func (c *cli) nextCommand() *cobra.Command {
	var f nextFlags
	cmd := &cobra.Command{
		Use:   "next [JOB…]",
		Short: "Print upcoming fire times",
		Long: `Prints the fire times of the config's jobs, or of an expression alone, strictly
after an instant: in the job's zone and in UTC, with a note where daylight
saving moves, drops or repeats one. It needs no store.`,
		Example: `  tidemark next
  tidemark next nightly-report -n 10
  tidemark next --schedule '30 2 * * *' --timezone Europe/Berlin --after 2026-03-28`,
		ValidArgsFunction: c.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.next(cmd, &f, args)
		},
	}
	f.register(cmd)
	cmd.Flags().IntVarP(&f.count, "count", "n", 5, "how many fire `times` of each job")
	cmd.Flags().StringVar(&f.after, "after", "now", "`time` after which to look")
	return cmd
}

// upcoming is what `next` says of one job.
type upcoming struct {
	Job      string     `json:"job"`
	Schedule string     `json:"schedule"`
	Timezone string     `json:"timezone"`
	Fires    []timeJSON `json:"fires"`
	Notes    []string   `json:"notes"`

	zone *time.Location
}

func (c *cli) next(cmd *cobra.Command, f *nextFlags, names []string) error {
	if err := f.check(cmd, names); err != nil {
		return err
	}
	if f.count < 1 || f.count > maxCount {
		return usage(cmd, "--count is %d", f.count).hinted(fmt.Sprintf("1 to %d", maxCount))
	}
	now := c.now()
	after, err := parseTime(f.after, now)
	if err != nil {
		return usageAt(cmd, "--after", err)
	}
	var all []upcoming
	if cmd.Flags().Changed("schedule") {
		schedule, err := f.parse(cmd, after)
		if err != nil {
			return err
		}
		all = append(all, upcomingOf("", f.spec(after), schedule, after, f.count))
	} else {
		cfg, err := c.loadConfig()
		if err != nil {
			return err
		}
		jobs, err := pick(cfg, names)
		if err != nil {
			return err
		}
		all = make([]upcoming, 0, len(jobs))
		for _, job := range jobs {
			one := upcomingOf(job.Name, specOf(job.Definition.Schedule), job.Schedule, after, f.count)
			if job.FilePaused {
				one.Notes = append(one.Notes, "paused in the config: nothing is planned or started")
			}
			all = append(all, one)
		}
	}
	if c.json {
		return c.printJSON(all)
	}
	c.printUpcoming(all, now)
	return nil
}

// pick returns the named jobs of the config, or all.
func pick(cfg *config.Config, names []string) ([]*scheduler.Job, error) {
	byName := map[string]*scheduler.Job{}
	var all []*scheduler.Job
	var known []string
	for i := range cfg.Jobs {
		job := &cfg.Jobs[i].Job
		byName[job.Name] = job
		known = append(known, job.Name)
		all = append(all, job)
	}
	if len(names) == 0 {
		return all, nil
	}
	picked := make([]*scheduler.Job, 0, len(names))
	for _, name := range names {
		job, ok := byName[name]
		if !ok {
			return nil, unknownJob(name, "in "+cfg.Path, known)
		}
		if !slices.Contains(picked, job) {
			picked = append(picked, job)
		}
	}
	return picked, nil
}

// unknownJob says which jobs there are.
func unknownJob(name, where string, known []string) *failure {
	f := failed("not_found", "no job %q %s", name, where)
	f.at = name
	switch {
	case len(known) == 0:
		f.hint = "it has no jobs"
	case len(known) <= 20:
		f.hint = "there are " + strings.Join(known, ", ")
	default:
		f.hint = fmt.Sprintf("`tidemark jobs` lists all %d", len(known))
	}
	return f
}

func specOf(stored []byte) scheduler.ScheduleSpec {
	var spec scheduler.ScheduleSpec
	_ = json.Unmarshal(stored, &spec) // tidemark wrote it; what cannot be read shows as empty
	return spec
}

// expressionText is a schedule in one line.
func expressionText(spec scheduler.ScheduleSpec) string { return strings.Join(spec.Expressions, "; ") }

func upcomingOf(name string, spec scheduler.ScheduleSpec, schedule *scheduler.Schedule, after time.Time, n int) upcoming {
	fires := schedule.FirstN(after, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), n)
	notes := []string{}
	if len(fires) > 0 {
		notes = append(notes, schedule.Notes(after, fires[len(fires)-1])...)
	}
	return upcoming{
		Job: name, Schedule: expressionText(spec), Timezone: schedule.Location().String(),
		Fires: timesJSON(fires), Notes: notes, zone: schedule.Location(),
	}
}

func (c *cli) printUpcoming(all []upcoming, now time.Time) {
	for i, one := range all {
		if i > 0 {
			c.println()
		}
		title := one.Schedule + ", " + one.Timezone
		if one.Job != "" {
			title = c.tint(safe(one.Job), cyan) + "  " + title
		}
		c.println(title)
		if len(one.Fires) == 0 {
			c.println("  fires no more")
		}
		t := table{c: c, tints: make([]bool, 3)}
		for _, fire := range one.Fires {
			at := time.Time(fire)
			t.row("  "+local(at, one.zone), at.Format(time.RFC3339Nano), away(at, now))
		}
		t.print()
		for _, note := range one.Notes {
			c.println("  note: " + safe(note))
		}
	}
	if len(all) == 0 {
		c.println("no jobs")
	}
}
