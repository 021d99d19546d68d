package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/daemon"
)

func (c *cli) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the daemon, in the foreground",
		Long: `Runs the daemon in the foreground. It waits up to 30s for a Postgres store and
then exits with 69; a SQLite file that cannot be opened ends it at once.

SIGHUP loads the config again. The first SIGTERM or SIGINT drains: nothing new
starts, running work may end within shutdown_grace, the rest is handed back,
and the exit code is 0. A second one hands everything back at once.`,
		Example: `  tidemark run
  tidemark run -c /etc/tidemark/tidemark.yaml --log-format json
  tidemark run --store postgres://tidemark@db.example.test/tidemark`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := c.needConfig()
			if err != nil {
				return err
			}
			log := c.logger()
			defer func() { _ = log.Sync() }()
			build := readBuild()
			err = daemon.Run(cmd.Context(), c.abort, daemon.Options{
				ConfigPath: path, Store: c.storeURL, Log: log,
				Version: build.Version, Revision: build.Commit,
			})
			if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
				return nil // told to end before it was ready
			}
			return err
		},
	}
}
