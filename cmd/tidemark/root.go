package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// cli is what the commands of one call share.
type cli struct {
	out   *output // standard output
	err   io.Writer
	abort context.Context // ended by the second signal
	now   func() time.Time

	// Global flags.
	configPath string
	storeURL   string
	json       bool
	logLevel   string
	logFormat  string
}

func newCLI(out, err io.Writer) *cli {
	return &cli{out: newOutput(out), err: err, now: time.Now}
}

// output is standard output. It remembers that a write failed: a listing that
// does not fit on a full disk is not a success.
type output struct {
	w        io.Writer
	terminal bool
	colours  bool
	failed   error
}

func newOutput(w io.Writer) *output {
	o := &output{w: w, terminal: isTerminal(w)}
	o.colours = o.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return o
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}

func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "A scheduler that accounts for every fire time",
		Long: `Tidemark runs jobs at the times that their schedules say, on one machine or
many, and accounts for every fire time: each becomes a run, is covered by one,
or is recorded as missed with the reason.`,
		Example: `  tidemark check tidemark.yaml
  tidemark run -c tidemark.yaml
  tidemark status`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSubcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return c.checkGlobals(cmd)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Version = readBuild().String()
	root.SetVersionTemplate("tidemark {{.Version}}\n")
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%s", err) })
	flags := root.PersistentFlags()
	flags.StringVarP(&c.configPath, "config", "c", "", "config `file` (default tidemark.yaml, then /etc/tidemark/tidemark.yaml; env TIDEMARK_CONFIG)")
	flags.StringVar(&c.storeURL, "store", "", "`address` of the store, sqlite:FILE or postgres://… (default: what the config says; env TIDEMARK_STORE)")
	flags.BoolVar(&c.json, "json", false, "print JSON")
	flags.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&c.logFormat, "log-format", "console", "console or json")
	root.AddCommand(
		c.runCommand(), c.checkCommand(), c.nextCommand(), c.planCommand(),
		c.statusCommand(), c.jobsCommand(), c.runsCommand(), c.showCommand(), c.logsCommand(),
		c.triggerCommand(), c.pauseCommand(), c.unpauseCommand(), c.cancelCommand(),
		c.migrateCommand(), c.schemaCommand(), c.benchCommand(), c.healthCommand(),
		c.completionCommand(), c.versionCommand(),
	)
	root.SetHelpCommand(c.helpCommand())
	root.InitDefaultHelpCmd()
	return root
}

func (c *cli) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND…]",
		Short:   "Explain a command",
		Example: "  tidemark help next\n  tidemark help bench dispatch",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, left, err := cmd.Root().Find(args)
			if err != nil || len(left) > 0 {
				return noSubcommand(about, left)
			}
			return about.Help()
		},
	}
}

// checkGlobals takes the environment where flags are not given, and refuses
// values that no command could use.
func (c *cli) checkGlobals(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("config") {
		c.configPath = os.Getenv("TIDEMARK_CONFIG")
	}
	if !cmd.Flags().Changed("store") {
		c.storeURL = os.Getenv("TIDEMARK_STORE")
	}
	for _, flag := range []struct{ name, value string }{{"config", c.configPath}, {"store", c.storeURL}} {
		if flag.value == "" && cmd.Flags().Changed(flag.name) {
			return usage(cmd, "--%s is empty", flag.name)
		}
	}
	if levels := []string{"debug", "info", "warn", "error"}; !slices.Contains(levels, c.logLevel) {
		return usage(cmd, "--log-level is %q", c.logLevel).hinted("one of " + strings.Join(levels, ", "))
	}
	if c.logFormat != "console" && c.logFormat != "json" {
		return usage(cmd, "--log-format is %q", c.logFormat).hinted("console or json")
	}
	return nil
}

// noSubcommand refuses what a group of commands does not have.
func noSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	f := usage(cmd, "unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		f.hint = "did you mean " + strings.Join(near, " or ") + "? " + f.hint
	}
	return f
}

// wants checks how many arguments there are: exactly one for each name.
func wants(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage(cmd, "%s is missing", names[len(args)])
		case len(args) > len(names) && len(names) == 0:
			return usage(cmd, "%s takes no argument, %q is one", cmd.CommandPath(), args[0])
		case len(args) > len(names):
			return usage(cmd, "%q is one argument too many", args[len(names)])
		}
		for i, name := range names {
			if args[i] == "" {
				return usage(cmd, "%s is empty", name)
			}
		}
		return nil
	}
}

func (c *cli) printf(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

func (c *cli) println(args ...any) { fmt.Fprintln(c.out, args...) }

// note says on standard error what is no part of the answer.
func (c *cli) note(format string, args ...any) {
	fmt.Fprintf(c.err, "tidemark: "+format+"\n", args...)
}
