package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

type runsFlags struct {
	job, target, since string
	states             []string
	limit              int
}

func (c *cli) runsCommand() *cobra.Command {
	var f runsFlags
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List runs, newest first",
		Example: `  tidemark runs
  tidemark runs --job nightly-report --state failed,missed --since -7d
  tidemark runs --target seoul --limit 5 --json`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := c.runFilter(cmd, &f)
			if err != nil {
				return err
			}
			return c.withStore(cmd, func(store jobstore.Store) error {
				runs, err := store.Runs(cmd.Context(), filter)
				if err != nil {
					return err
				}
				if len(runs) == 0 && f.job != "" {
					if _, err := c.storedJob(cmd, store, f.job); err != nil {
						return err
					}
				}
				return c.printRuns(runs)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.job, "job", "", "only runs of this `job`")
	flags.StringVar(&f.target, "target", "", "only runs of this `target`")
	flags.StringSliceVar(&f.states, "state", nil, "only runs in these `states`: "+joinStates())
	flags.StringVar(&f.since, "since", "", "only fire times from this `time` on")
	flags.IntVar(&f.limit, "limit", 50, "at most this `number` of runs; 0 for all")
	_ = cmd.RegisterFlagCompletionFunc("job", c.completeJobs)
	return cmd
}

func joinStates() string {
	var names []string
	for _, s := range jobstore.States() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func (c *cli) runFilter(cmd *cobra.Command, f *runsFlags) (jobstore.RunFilter, error) {
	filter := jobstore.RunFilter{Job: f.job, Limit: f.limit}
	if cmd.Flags().Changed("target") {
		filter.Target = &f.target
	}
	for _, name := range f.states {
		state := jobstore.State(strings.TrimSpace(name))
		if !state.Valid() {
			return filter, usage(cmd, "--state: no state %q", name).hinted("one of " + joinStates())
		}
		filter.States = append(filter.States, state)
	}
	if f.limit < 0 {
		return filter, usage(cmd, "--limit is %d", f.limit).hinted("a number from 1 on, or 0 for all")
	}
	if f.since != "" {
		since, err := parseTime(f.since, c.now())
		if err != nil {
			return filter, usageAt(cmd, "--since", err)
		}
		filter.Since = since
	}
	return filter, nil
}

func (c *cli) printRuns(runs []jobstore.Run) error {
	if c.json {
		out := make([]runJSON, len(runs))
		for i := range runs {
			out[i] = toRunJSON(&runs[i])
		}
		return c.printJSON(out)
	}
	if len(runs) == 0 {
		c.println("no runs")
		return nil
	}
	now := c.now()
	t := c.table("KEY", "STATE", "TRIGGER", "ATTEMPT", "STARTED", "TOOK", "NODE", "MESSAGE")
	for i := range runs {
		r := &runs[i]
		state := cell{stateText(r), stateColour(r.State)}
		if r.Review {
			state.text += " !review"
		}
		attempt := any(r.Attempt)
		if r.Attempt == 0 {
			attempt = ""
		}
		t.row(r.Key, state, string(r.Trigger), attempt, away(r.StartedAt, now), took(r, now), r.Node, shortened(r.Message, 60))
	}
	t.print()
	return nil
}

// shortened is the beginning of a text, for a column.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// storedJob is a job that the store has, removed ones included.
func (c *cli) storedJob(cmd *cobra.Command, store jobstore.Store, name string) (jobstore.Job, error) {
	found, err := store.Jobs(cmd.Context(), name)
	if err != nil {
		return jobstore.Job{}, err
	}
	if len(found) > 0 {
		return found[0], nil
	}
	all, err := store.Jobs(cmd.Context())
	if err != nil {
		return jobstore.Job{}, err
	}
	known := make([]string, len(all))
	for i := range all {
		known[i] = all[i].Name
	}
	f := unknownJob(name, "in the store", known)
	if len(known) == 0 {
		f.hint = "it has no jobs: `tidemark run` enters those of the config"
	}
	return jobstore.Job{}, f
}
