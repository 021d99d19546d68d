package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/config"
)

func (c *cli) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Load a config and print every error in it",
		Long: `Loads a config file with all that it includes and prints every error at once,
one a line: file:line:col: job.field: what is wrong (hint). Exit code 78 if
there is any.`,
		Example: `  tidemark check
  tidemark check deploy/tidemark.yaml
  tidemark check --json 2> errors.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			return wants([]string{"FILE"}[:min(len(args), 1)]...)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if cmd.Flags().Changed("config") {
					return usage(cmd, "FILE and --config name a file each")
				}
				c.configPath = args[0]
			}
			cfg, err := c.loadConfig()
			if err != nil {
				return err
			}
			return c.printChecked(cfg)
		},
	}
}

func (c *cli) printChecked(cfg *config.Config) error {
	if c.json {
		return c.printJSON(struct {
			OK     bool   `json:"ok"`
			File   string `json:"file"`
			Jobs   int    `json:"jobs"`
			Store  string `json:"store"`
			Listen string `json:"listen"`
		}{true, cfg.Path, len(cfg.Jobs), newAddress(cfg.Store.Value, cfg.Store.Written).shown, cfg.Listen})
	}
	paused := 0
	for i := range cfg.Jobs {
		if cfg.Jobs[i].FilePaused {
			paused++
		}
	}
	text := plural(len(cfg.Jobs), "job")
	if paused > 0 {
		text += fmt.Sprintf(" (%d paused)", paused)
	}
	c.printf("ok: %s, store %s, listening on %s\n", text, safe(newAddress(cfg.Store.Value, cfg.Store.Written).shown), safe(cfg.Listen))
	return nil
}
