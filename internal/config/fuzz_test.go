package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzLoad holds Load to its promises for any text: it ends, does not panic,
// gives either a Config or Errors with places, and shows no secret.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds match %s", pattern)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Contains(string(text), "include") || strings.Contains(string(text), "file:") {
			return // reads what happens to lie on the machine
		}
		file := filepath.Join(dir, "tidemark.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		cfg, err := Load(file, Options{LookupEnv: testEnv})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		if _, err := StoreOf(file, Options{LookupEnv: testEnv}); err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("StoreOf shows a secret: %v", err)
		}
		if err == nil {
			for _, j := range cfg.Jobs {
				if j.Schedule == nil || len(j.Targets) == 0 || j.Hash == "" || j.Fingerprint == "" || strings.Contains(string(j.JSON), canary) {
					t.Errorf("unfinished job %+v", j)
				}
			}
			return
		}
		var all Errors
		if cfg != nil || !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("%v, %v", cfg, err)
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("shows a secret: %v", err)
		}
		for _, e := range all {
			if e.Msg == "" || e.Line < 1 || e.Col < 1 || strings.ContainsRune(e.Error(), '\n') {
				t.Errorf("no place, no message or several lines: %q", e.Error())
			}
		}
	})
}
