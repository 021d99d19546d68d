package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// canary is a secret that must turn up nowhere.
const canary = "s3cr3t-canary"

// testEnv are the variables of the fixtures.
func testEnv(name string) (string, bool) {
	value, set := map[string]string{
		"WAREHOUSE_URL": "postgres://app:" + canary + "@db.test/warehouse",
		"BAD_STORE":     "mysql://root:" + canary + "@db.test/x",
		"TOKEN":         canary,
		"CANARY":        canary,
		"TIMEOUT":       "90s",
		"ATTEMPTS":      "5",
		"SWITCH":        "false",
		"FACTOR":        "1.5",
	}[name]
	return value, set
}

func fixtures(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures match %s (%v)", pattern, err)
	}
	return files
}

// golden compares text with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./internal/config -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestABadFileIsRefusedWithPlaceAndHint(t *testing.T) {
	for _, file := range fixtures(t, "testdata/bad/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			cfg, err := Load(file, Options{LookupEnv: testEnv})
			var all Errors
			if !errors.As(err, &all) || cfg != nil {
				t.Fatalf("Load = %v, %v; want Errors", cfg, err)
			}
			for _, e := range all {
				if e.Line == 0 && !strings.Contains(e.Msg, "cannot be read") || e.Msg == "" {
					t.Errorf("no place or no message: %v", e)
				}
			}
			text := strings.ReplaceAll(err.Error(), "testdata/bad/", "")
			if strings.Contains(text, canary) {
				t.Errorf("a secret is shown: %s", text)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", text+"\n")
		})
	}
}

func TestEveryGoldenFileHasItsFixture(t *testing.T) {
	for _, file := range fixtures(t, "testdata/bad/*.txt") {
		if _, err := os.Stat(strings.TrimSuffix(file, ".txt") + ".yaml"); err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsAreSortedByPlace(t *testing.T) {
	_, err := Load("testdata/bad/include-bad.yaml", Options{LookupEnv: testEnv})
	var all Errors
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	var files []string
	for i, e := range all {
		if i > 0 && all[i-1].File == e.File && all[i-1].Line > e.Line {
			t.Errorf("line %d stands before line %d", all[i-1].Line, e.Line)
		}
		files = append(files, e.File)
	}
	if files = slices.Compact(files); len(files) != len(slices.Compact(slices.Sorted(slices.Values(files)))) {
		t.Errorf("the errors of one file do not stand together: %v", files)
	}
}
