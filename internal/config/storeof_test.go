package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheStoreIsFoundInABrokenFile(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: {}\n":                     "sqlite:tidemark.db",
		"":                               "sqlite:tidemark.db",
		"store: sqlite:a.db\njobs: {}\n": "sqlite:a.db",
		"store: sqlite:a.db\nbogus: 1\njobs: 5\n":           "sqlite:a.db",
		"jobs:\n\tbroken\nstore: sqlite:a.db # ours\n":      "sqlite:a.db",
		"jobs: [\n'store': \"sqlite:a.db\"\n":               "sqlite:a.db",
		"node: \"${UNSET}\"\nstore: \"${WAREHOUSE_URL}\"\n": "postgres://app:" + canary + "@db.test/warehouse",
		"- a list\n":                             "sqlite:tidemark.db",
		"jobs:\n  store: sqlite:no.db\n  x: [\n": "sqlite:tidemark.db",
		"<<: {store: sqlite:no.db}\n":            "sqlite:tidemark.db",
	} {
		got, err := StoreOf(write(t, "tidemark.yaml", text), Options{LookupEnv: testEnv})
		if err != nil || got.Value != want {
			t.Errorf("%q: %v (%q), %v; want %q", text, got, got.Value, err, want)
		}
	}
}

func TestABadStoreIsRefusedWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: {}\nstore: mysql://x\n":        "tidemark.yaml:2:8: store: neither SQLite nor Postgres",
		"jobs: [\n\nstore: \"${UNSET}\"\n":    "tidemark.yaml:3:8: store: variable UNSET is not set",
		"store: [a]\n":                        "tidemark.yaml:1:8: store: wants a single value, has a list",
		"store:\n":                            "tidemark.yaml:1:7: store: has no value",
		"store: \"${BAD_STORE}\"\njobs: {}\n": "tidemark.yaml:1:8: store: neither SQLite nor Postgres",
	} {
		file := write(t, "tidemark.yaml", text)
		got, err := StoreOf(file, Options{LookupEnv: testEnv})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	if _, err := StoreOf(filepath.Join(t.TempDir(), "none.yaml"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
