package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/config"
)

func (c *cli) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the config file, for editors",
		Example: `  tidemark schema > tidemark.schema.json
  # then, as the first line of the config:
  # yaml-language-server: $schema=tidemark.schema.json`,
		Args: wants(),
		RunE: func(*cobra.Command, []string) error {
			c.printf("%s\n", bytes.TrimRight(config.Schema(), "\n"))
			return nil
		},
	}
}
