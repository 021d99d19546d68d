package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) pauseCommand() *cobra.Command {
	var until, reason string
	cmd := &cobra.Command{
		Use:   "pause JOB",
		Short: "Stop planning and starting a job",
		Long: `Pauses a job: nothing of it is planned or started; what runs goes on. When the
pause ends, what came due meanwhile is passed over or caught up, as the job's
on_resume says, and recorded either way.`,
		Example: `  tidemark pause nightly-report --reason "warehouse is being moved"
  tidemark pause nightly-report --until +2h --reason maintenance`,
		Args:              wants("JOB"),
		ValidArgsFunction: c.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pause := jobstore.Pause{Reason: reason, By: whoami()}
			if reason == "" {
				return usage(cmd, "--reason is missing").hinted("say why, for those who find the job paused")
			}
			if cmd.Flags().Changed("until") {
				end, err := parseTime(until, c.now())
				if err != nil {
					return usageAt(cmd, "--until", err)
				}
				if !end.After(c.now()) {
					return usage(cmd, "--until: %s has passed", jobstore.FormatTime(end)).hinted("write a time to come, such as +2h")
				}
				pause.Until = end
			}
			return c.changeJob(cmd, args[0], func(store jobstore.Store) (jobstore.Job, error) {
				return store.Pause(cmd.Context(), args[0], pause)
			})
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "`time` at which the pause ends by itself")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for those who find the job paused; required")
	return cmd
}

func (c *cli) unpauseCommand() *cobra.Command {
	var catchUp, skip bool
	cmd := &cobra.Command{
		Use:   "unpause JOB",
		Short: "End the pause of a job",
		Long: `Ends the pause of a job. What came due meanwhile is treated as the job's
on_resume says, unless a flag says otherwise: --catch-up treats it like downtime,
--skip passes it over. A job that the config pauses stays paused.`,
		Example: `  tidemark unpause nightly-report
  tidemark unpause nightly-report --catch-up`,
		Args:              wants("JOB"),
		ValidArgsFunction: c.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			policy := jobstore.ResumePolicy("")
			switch {
			case catchUp && skip:
				return usage(cmd, "--catch-up and --skip exclude each other")
			case catchUp:
				policy = jobstore.ResumeCatchUp
			case skip:
				policy = jobstore.ResumeSkip
			}
			return c.changeJob(cmd, args[0], func(store jobstore.Store) (jobstore.Job, error) {
				return store.Unpause(cmd.Context(), args[0], policy)
			})
		},
	}
	cmd.Flags().BoolVar(&catchUp, "catch-up", false, "treat what came due meanwhile like downtime")
	cmd.Flags().BoolVar(&skip, "skip", false, "pass over what came due meanwhile")
	return cmd
}

// changeJob makes a change and says how the job stands after it.
func (c *cli) changeJob(cmd *cobra.Command, name string, change func(jobstore.Store) (jobstore.Job, error)) error {
	return c.withStore(cmd, func(store jobstore.Store) error {
		if _, err := c.storedJob(cmd, store, name); err != nil {
			return err
		}
		job, err := change(store)
		if err != nil {
			return err
		}
		if c.json {
			views, err := c.readJobs(cmd, store)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(views, func(v *jobView) bool { return v.job.ID == job.ID })
			if i < 0 {
				return c.printJSON(newJobView(&job, nil, nil, c.now()).json())
			}
			return c.printJSON(views[i].json())
		}
		if job.Pause.Active(c.now()) {
			c.printf("job %s is paused %s\n", safe(name), safe(pauseText(job.Pause)))
		} else {
			c.printf("job %s goes on\n", safe(name))
		}
		return nil
	})
}

// pauseText says by whom, why and until when a job is paused.
func pauseText(p jobstore.Pause) string {
	if p.By == jobstore.PausedByFile {
		return "by the config" // `paused: true`
	}
	text := "by " + p.By
	if !p.Until.IsZero() {
		text += " until " + jobstore.FormatTime(p.Until)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// pauseJSON is a pause that holds.
type pauseJSON struct {
	At     timeJSON `json:"at"`
	Until  timeJSON `json:"until"`
	Reason string   `json:"reason"`
	By     string   `json:"by"`
}

func toPauseJSON(p jobstore.Pause, now time.Time) *pauseJSON {
	if !p.Active(now) {
		return nil
	}
	return &pauseJSON{timeJSON(p.At), timeJSON(p.Until), p.Reason, p.By}
}
