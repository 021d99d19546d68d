package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) cancelCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "cancel KEY",
		Short: "Cancel a run",
		Long: `Cancels a run that has not started or waits for a retry, and asks the node of a
running one to stop it: SIGTERM to its processes, SIGKILL after kill_grace.`,
		Example: `  tidemark cancel nightly-report/seoul/2026-11-29T03:00:00Z
  tidemark cancel --wait warm-cache//manual:ticket-4711`,
		Args: wants("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withStore(cmd, func(store jobstore.Store) error {
				return c.cancel(cmd, store, args[0], wait)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the run has ended; exit code 1 unless it was canceled")
	return cmd
}

func (c *cli) cancel(cmd *cobra.Command, store jobstore.Store, key string, wait bool) error {
	run, err := store.Cancel(cmd.Context(), key, whoami())
	if errors.Is(err, jobstore.ErrState) {
		if ended, _, readErr := store.Run(cmd.Context(), key); readErr == nil {
			f := failed("state", "run %q has ended: %s", key, stateText(&ended))
			f.at = key
			return f
		}
	}
	if err != nil {
		return noRun(err, key)
	}
	if run.State.Open() {
		if err := c.noteNoDaemon(cmd.Context(), store); err != nil {
			return err
		}
	}
	if run.State.Open() && wait {
		if run, err = c.await(cmd.Context(), store, key); err != nil {
			return err
		}
	}
	if c.json {
		if err := c.printJSON(toRunJSON(&run)); err != nil {
			return err
		}
	}
	switch {
	case run.State.Open():
		if !c.json {
			c.printf("asked node %s to stop %s\n", safe(run.Node), safe(key))
		}
	case run.State != jobstore.Canceled:
		f := failed("state", "run %q ended before it could be canceled: %s", key, stateText(&run))
		f.at = key
		return f
	case !c.json:
		c.printf("canceled %s\n", safe(key))
	}
	return nil
}
