package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/daemon"
)

func (c *cli) migrateCommand() *cobra.Command {
	var database string
	var printDDL bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema of the store, or of a job's database, up to date",
		Long: `Brings the schema of the store up to date, making a SQLite file that is missing;
with --database, Tidemark's schema in a database of the config that jobs work in.
The daemon does both by itself, unless the config says auto_migrate: false.`,
		Example: `  tidemark migrate
  tidemark migrate --store postgres://tidemark@db.example.test/tidemark
  tidemark migrate --print-ddl --database warehouse | psql warehouse`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("database") {
				return c.migrateDatabase(cmd, database, printDDL)
			}
			return c.migrateStore(cmd, printDDL)
		},
	}
	cmd.Flags().StringVar(&database, "database", "", "a `name` of the config's databases, in place of the store")
	cmd.Flags().BoolVar(&printDDL, "print-ddl", false, "print the statements that make the schema from nothing, and run none")
	return cmd
}

func (c *cli) migrateStore(cmd *cobra.Command, printDDL bool) error {
	store, err := c.storeAddress()
	if err != nil {
		return err
	}
	if printDDL {
		return c.printDDL(daemon.PrintDDL(store.value))
	}
	if err := daemon.Migrate(cmd.Context(), store.value); err != nil {
		return err
	}
	return c.migrated("store", store.shown)
}

func (c *cli) migrateDatabase(cmd *cobra.Command, name string, printDDL bool) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	if printDDL {
		return c.printDDL(daemon.PrintDatabaseDDL(cfg, name))
	}
	if err := daemon.MigrateDatabase(cmd.Context(), cfg, name); err != nil {
		return err
	}
	return c.migrated("database", name)
}

func (c *cli) printDDL(ddl string, err error) error {
	if err == nil {
		c.println(strings.TrimRight(ddl, "\n"))
	}
	return err
}

func (c *cli) migrated(what, which string) error {
	if c.json {
		return c.printJSON(map[string]any{what: which, "current": true})
	}
	c.printf("%s %s is up to date\n", what, safe(which))
	return nil
}
