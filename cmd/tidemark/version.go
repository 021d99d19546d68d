package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this binary was made of.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (b build) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", b.Version, b.Commit, b.Go, b.Platform)
}

// readBuild takes what the linker was told, else what the Go tool recorded.
func readBuild() build {
	b := build{version, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		dirty := false
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && b.Commit == "":
				b.Commit = s.Value
			case s.Key == "vcs.modified":
				dirty = s.Value == "true"
			}
		}
		if dirty && commit == "" && b.Commit != "" {
			b.Commit += "-dirty"
		}
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" {
		b.Version = "unknown"
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  tidemark version\n  tidemark version --json",
		Args:    wants(),
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if c.json {
				return c.printJSON(b)
			}
			c.println("tidemark " + b.String())
			return nil
		},
	}
}
