package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/config"
)

func (c *cli) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for bash, zsh, fish or powershell",
		Example: `  source <(tidemark completion bash)
  tidemark completion zsh > "${fpath[1]}/_tidemark"
  tidemark completion fish > ~/.config/fish/completions/tidemark.fish`,
		Args:      wants("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.out, true)
			case "zsh":
				return root.GenZshCompletion(c.out)
			case "fish":
				return root.GenFishCompletion(c.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.out)
			}
			return usage(cmd, "no completion for %q", args[0]).hinted("one of " + strings.Join(shells, ", "))
		},
	}
}

// completeJobs offers the names of the config's jobs to the shell.
func (c *cli) completeJobs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && !strings.Contains(cmd.Use, "…") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	path := c.findConfig()
	if path == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cfg, err := config.Load(path, config.Options{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range cfg.Jobs {
		names = append(names, cfg.Jobs[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
