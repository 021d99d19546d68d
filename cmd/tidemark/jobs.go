package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) jobsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs that the store has",
		Example: `  tidemark jobs
  tidemark jobs --all
  tidemark jobs --json`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd, func(store jobstore.Store) error {
				views, err := c.readJobs(cmd, store, all)
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
	cmd.Flags().BoolVar(&all, "all", false, "also jobs that were removed from the config")
	return cmd
}

// readJobs reads the jobs with all that belongs to them.
func (c *cli) readJobs(cmd *cobra.Command, store jobstore.Store, all bool) ([]*jobView, error) {
	ctx := cmd.Context()
	var names []string
	if all {
		balances, err := store.Ledger(ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range balances {
			names = append(names, b.Job)
		}
	}
	jobs, err := store.Jobs(ctx, names...)
	if err != nil {
		return nil, err
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
