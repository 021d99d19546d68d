package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs that the store has",
		Long: `Lists the jobs that the store has. One that was removed from the config is shown as
removed until retention forgets it.`,
		Example: `  tidemark jobs
  tidemark jobs --json`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd, func(store jobstore.Store) error {
				views, err := c.readJobs(cmd, store)
				if err != nil {
					return err
				}
				if c.json {
					return c.printJSON(jobViewsJSON(views))
				}
				c.printJobs(views)
				return nil
			})
		},
	}
	return cmd
}

// readJobs reads the jobs with all that belongs to them, removed ones included.
func (c *cli) readJobs(cmd *cobra.Command, store jobstore.Store) ([]*jobView, error) {
	ctx := cmd.Context()
	jobs, err := store.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	agenda, err := store.Agenda(ctx)
	if err != nil {
		return nil, err
	}
	var removed []string
	for i := range agenda {
		if !agenda[i].RemovedAt.IsZero() {
			removed = append(removed, agenda[i].Name)
		}
	}
	if len(removed) > 0 {
		gone, err := store.Jobs(ctx, removed...)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, gone...)
		slices.SortFunc(jobs, func(a, b jobstore.Job) int { return strings.Compare(a.Name, b.Name) })
	}
	targets, err := store.Targets(ctx)
	if err != nil {
		return nil, err
	}
	open, err := store.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	now := c.now()
	views := make([]*jobView, len(jobs))
	for i := range jobs {
		views[i] = newJobView(&jobs[i], targets, open[jobs[i].Name], now)
	}
	return views, nil
}

func (c *cli) printJobs(views []*jobView) {
	if len(views) == 0 {
		c.println("no jobs")
		return
	}
	t := c.table("JOB", "SCHEDULE", "ZONE", "NEXT", "LAST", "LAG", "WATERMARK", "OPEN", "NOTE")
	for _, v := range views {
		t.row(v.job.Name, shortened(v.schedule, 40), v.zone, v.nextText(), v.lastCell(), v.lagText(),
			jobstore.FormatTime(v.watermark), v.openText(), v.noteCell())
	}
	t.print()
}
