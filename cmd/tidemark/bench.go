package main

import (
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/internal/daemon"
)

func (c *cli) benchCommand() *cobra.Command {
	bench := &cobra.Command{
		Use:   "bench",
		Short: "Measure this installation",
		Long: `Measures this installation in a scratch schema, or a scratch file beside the
SQLite store, which is dropped afterwards.`,
		Example: "  tidemark bench dispatch --store postgres://tidemark@db.example.test/tidemark --runs 10000",
		Args:    noSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	bench.AddCommand(c.benchDispatchCommand(), c.benchTimerCommand())
	return bench
}

func (c *cli) benchDispatchCommand() *cobra.Command {
	var runs int
	cmd := &cobra.Command{
		Use:   "dispatch",
		Short: "Durable fires to recorded outcomes, per second",
		Example: `  tidemark bench dispatch --store postgres://tidemark@db.example.test/tidemark --runs 10000
  tidemark bench dispatch --store sqlite:tidemark.db --runs 2000 --json`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 {
				return usage(cmd, "--runs is %d", runs).hinted("a number from 1 on")
			}
			store, err := c.storeAddress()
			if err != nil {
				return err
			}
			result, err := daemon.BenchDispatch(cmd.Context(), store.value, runs, c.benchLogger(cmd))
			if err != nil {
				return err
			}
			return c.printBench(result)
		},
	}
	cmd.Flags().IntVar(&runs, "runs", 10000, "`number` of runs")
	return cmd
}

func (c *cli) benchTimerCommand() *cobra.Command {
	var seconds int
	cmd := &cobra.Command{
		Use:     "timer",
		Short:   "Scheduled instant to start of the work",
		Example: "  tidemark bench timer\n  tidemark bench timer --store postgres://tidemark@db.example.test/tidemark --json",
		Args:    wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seconds < 1 {
				return usage(cmd, "--seconds is %d", seconds).hinted("a number from 1 on")
			}
			store, err := c.storeAddress()
			if err != nil {
				return err
			}
			result, err := daemon.BenchTimer(cmd.Context(), store.value, seconds, c.benchLogger(cmd))
			if err != nil {
				return err
			}
			return c.printBench(result)
		},
	}
	cmd.Flags().IntVar(&seconds, "seconds", 10, "for how many `seconds` jobs fire")
	return cmd
}

// benchLogger tells of what goes wrong: what else the loops say is no news here.
func (c *cli) benchLogger(cmd *cobra.Command) *zap.Logger {
	if !cmd.Flags().Changed("log-level") {
		c.logLevel = "warn"
	}
	return c.logger()
}

func (c *cli) printBench(r daemon.BenchResult) error {
	if c.json {
		return c.printJSON(r)
	}
	c.printf("%s: %d runs in %.2f s, %.0f per second\n", r.Name, r.Runs, r.Seconds, r.PerSecond)
	if r.BaselinePerSecond > 0 {
		c.printf("the same rows written by hand: %.0f per second, ratio %.2f\n", r.BaselinePerSecond, r.Ratio)
	}
	if d := r.StartDelay; d != nil {
		c.printf("start delay: p50 %.1f ms, p99 %.1f ms, max %.1f ms\n", d.P50, d.P99, d.Max)
	}
	return nil
}
