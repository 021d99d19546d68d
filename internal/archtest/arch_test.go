// Package archtest holds the import rules of docs/architecture.md as a test.
package archtest

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tidemarkd/tidemark/"

// allowed says which of the module's own packages a package may import, by
// path without the module; "*" is any. Production code only: tests may reach
// further.
var allowed = map[string][]string{
	"jobstore":                {},
	"jobstore/postgres":       {"jobstore"},
	"jobstore/sqlite":         {"jobstore"},
	"jobstore/storetest":      {"jobstore"},
	"scheduler":               {"jobstore"},
	"checkpoint":              {},
	"checkpoint/postgres":     {"checkpoint"},
	"checkpoint/sqlite":       {"checkpoint"},
	"checkpoint/databasetest": {"checkpoint"},
	"metrics":                 {"jobstore"},
	"internal/executor":       {"scheduler", "jobstore", "checkpoint"},
	"internal/config":         {"jobstore", "scheduler", "internal/executor", "checkpoint"},
	"internal/web":            {"jobstore", "scheduler", "checkpoint"},
	"internal/daemon":         {"*"},
	"internal/pgtest":         {},
	"internal/pgtest/pgrun":   {"internal/pgtest"},
	"internal/crashtest":      {"*"},
	"internal/archtest":       {},
	"cmd/tidemark":            {"internal/daemon", "internal/config", "scheduler", "jobstore", "checkpoint"},
}

// libraries says who alone may import a library, by prefix of its path.
var libraries = map[string][]string{
	"github.com/robfig/cron":        {"scheduler"},
	"github.com/prometheus/":        {"metrics", "internal/daemon"},
	"go.uber.org/zap":               {"scheduler", "internal/web", "internal/daemon", "cmd/tidemark"},
	"github.com/jackc/pgx":          {"jobstore/postgres", "checkpoint/postgres", "internal/executor", "internal/pgtest", "internal/pgtest/pgrun", "internal/crashtest"},
	"modernc.org/":                  {"jobstore/sqlite", "checkpoint/sqlite", "internal/crashtest"},
	"github.com/spf13/cobra":        {"cmd/tidemark"},
	"go.yaml.in/yaml":               {"internal/config"},
	"github.com/invopop/jsonschema": {"internal/config"},
	"github.com/fsnotify/fsnotify":  {"internal/daemon"},
	"github.com/coreos/go-systemd":  {"internal/daemon"},
	"github.com/pressly/goose":      {"jobstore/postgres", "jobstore/sqlite", "checkpoint/postgres", "checkpoint/sqlite"},
}

type pkg struct {
	ImportPath string
	Name       string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestImportsPointInward(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		may, known := allowed[path]
		if !known {
			// Generators and the like: a main package below another belongs to it.
			if p.Name == "main" {
				continue
			}
			t.Errorf("package %s is not in the import table: say what it may import", path)
			continue
		}
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module); ok && !slices.Contains(may, own) && !slices.Contains(may, "*") {
				t.Errorf("%s imports %s", path, own)
			}
			for lib, who := range libraries {
				if strings.HasPrefix(imp, lib) && !slices.Contains(who, path) {
					t.Errorf("%s imports %s", path, imp)
				}
			}
			if path == "jobstore" && strings.Contains(strings.Split(imp, "/")[0], ".") {
				t.Errorf("jobstore imports %s: the standard library alone", imp)
			}
		}
	}
}
