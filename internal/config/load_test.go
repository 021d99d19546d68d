package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/internal/executor"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// write makes a file in a fresh folder, unless its name is a path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t *testing.T, file string) *Config {
	t.Helper()
	cfg, err := Load(file, Options{LookupEnv: testEnv})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// loadText loads a file of the given text.
func loadText(t *testing.T, text string) *Config {
	t.Helper()
	return load(t, write(t, "tidemark.yaml", text))
}

func loadError(t *testing.T, text string) string {
	t.Helper()
	file := write(t, "tidemark.yaml", text)
	_, err := Load(file, Options{LookupEnv: testEnv})
	if err == nil {
		t.Fatalf("no error in %s", text)
	}
	return strings.ReplaceAll(err.Error(), filepath.Dir(file)+string(filepath.Separator), "")
}

func job(t *testing.T, cfg *Config, name string) Job {
	t.Helper()
	for _, j := range cfg.Jobs {
		if j.Name == name {
			return j
		}
	}
	t.Fatalf("no job %s", name)
	return Job{}
}

func TestAGoodFileLoads(t *testing.T) {
	for _, file := range fixtures(t, "testdata/good/*.yaml") {
		if _, err := Load(file, Options{LookupEnv: testEnv}); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func TestEveryKeyOfTheTopArrives(t *testing.T) {
	cfg := load(t, "testdata/good/everything.yaml")
	got := *cfg
	got.Jobs, got.Hash = nil, ""
	want := Config{
		Path: "testdata/good/everything.yaml", Store: executor.Plain("postgres://tidemark@db.test/tidemark?sslmode=require"),
		Listen: "[::1]:9720", Timezone: "Europe/Berlin", Node: "blue-1", MaxConcurrentRuns: 8, ShutdownGrace: 90 * time.Second,
		Revision: 42, Retention: Retention{30 * 24 * time.Hour, 36 * time.Hour},
		Databases: map[string]Database{"warehouse": {executor.Plain("sqlite:warehouse.db"), 4}},
		Files:     []string{"testdata/good/everything.yaml"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryKeyOfAJobArrives(t *testing.T) {
	j := job(t, load(t, "testdata/good/everything.yaml"), "everything")
	def := j.Definition
	if def.Overlap != jobstore.OverlapQueueAll || def.Coalesce != jobstore.CoalesceAll || def.MaxInstances != 1 ||
		!def.Windowed || !def.UsesWindow || !def.FilePaused || !def.WatermarkStart.Equal(time.Date(2025, 12, 31, 15, 0, 0, 0, time.UTC)) {
		t.Errorf("definition %+v", def)
	}
	got := j.Job
	got.Definition, got.Schedule = jobstore.Definition{}, nil
	want := scheduler.Job{
		Grace: scheduler.Unlimited, CatchupMax: 100, Jitter: 5 * time.Minute, Targets: []string{"seoul", "busan"},
		OnScheduleChange: "finish", OnResume: jobstore.ResumeCatchUp, RenamedFrom: "something", Timeout: 30 * time.Minute,
		Retry:       scheduler.Retry{MaxAttempts: 5, Initial: time.Second, Max: time.Minute, Multiplier: 1.5},
		Description: "costs $5, $HOME and ${HOME}", Labels: map[string]string{"team": "billing", "on-call": "yes"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	work := executor.ExecConfig{
		Command: []executor.Text{{Written: `echo "$${HOME}"`, Value: `echo "${HOME}"`}}, Shell: true,
		Env: map[string]executor.Text{"PORT": executor.Plain("8080")}, Dir: executor.Plain("/srv"), User: "app",
		Stdin: executor.Plain("one\ntwo\n"), InheritEnv: true,
	}
	if diff := cmp.Diff(&work, j.Exec); diff != "" || j.HTTP != nil || j.SQL != nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(executor.Common{KillGrace: -1, Retryable: []int{3, 4}, Windowed: true}, j.Common); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if j.Pos != (Pos{"testdata/good/everything.yaml", 17, 3}) {
		t.Errorf("stands at %+v", j.Pos)
	}
}

func TestOverlapAndInstancesDependOnEachOther(t *testing.T) {
	cfg := load(t, "testdata/good/everything.yaml")
	for name, want := range map[string]jobstore.Definition{
		"everything": {Overlap: jobstore.OverlapQueueAll, MaxInstances: 1, Windowed: true, UsesWindow: true},
		"beside":     {Overlap: jobstore.OverlapAllow},
		"bounded":    {Overlap: jobstore.OverlapAllow, MaxInstances: 3},
		"several":    {Overlap: jobstore.OverlapQueue, MaxInstances: 2},
		"statement":  {Overlap: jobstore.OverlapQueue, MaxInstances: 1, Windowed: true, UsesWindow: true},
	} {
		j := job(t, cfg, name)
		got := jobstore.Definition{Overlap: j.Overlap, MaxInstances: j.MaxInstances, Windowed: j.Windowed, UsesWindow: j.UsesWindow}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if j.Common.Windowed != want.Windowed || j.Common.KillGrace != -1 {
			t.Errorf("%s: %+v", name, j.Common)
		}
	}
}

func TestCoalesceAllWithoutAnOverlapQueuesAll(t *testing.T) {
	cfg := loadText(t, `jobs: {a: {schedule: "@daily", misfire_grace_time: 1h, coalesce: all, catchup: {max: unlimited}, exec: {command: ["true"]}}}`)
	j := job(t, cfg, "a")
	if j.Overlap != jobstore.OverlapQueueAll || j.CatchupMax != 0 || !slices.Equal(j.Targets, []string{""}) || j.Retry != (scheduler.Retry{}) {
		t.Errorf("%+v", j)
	}
}

func TestMergeKeysGiveWhatAMappingLacks(t *testing.T) {
	cfg := load(t, "testdata/good/merge.yaml")
	second, third := job(t, cfg, "second"), job(t, cfg, "third")
	if next, _ := second.Schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); next.Hour() != 4 || second.Retry.MaxAttempts != 5 {
		t.Errorf("second fires at %v, retry %+v", next, second.Retry)
	}
	if third.Retry.MaxAttempts != 2 || third.Retry.Initial != time.Minute {
		t.Errorf("third: retry %+v", third.Retry)
	}
	want := map[string]string{"team": "billing", "tier": "gold", "page": "no"}
	if diff := cmp.Diff(want, third.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestDefaultsAreTakenKeyByKeyAndDroppedWhereTheyMeanNothing(t *testing.T) {
	cfg := loadText(t, `
defaults: {misfire_grace_time: 1h, coalesce: all, catchup: {max: 3}, retry: {max_attempts: 9, max: 1h}, watermark_start: 2026-01-01T00:00:00Z}
jobs:
  plain: {schedule: "@daily", exec: {command: ["true"]}}
  other: {schedule: "@daily", coalesce: latest, overlap: allow, retry: {max_attempts: 2}, exec: {command: ["true"]}}
`)
	plain, other := job(t, cfg, "plain"), job(t, cfg, "other")
	if plain.CatchupMax != 3 || plain.Retry.Max != time.Hour || plain.WatermarkStart.IsZero() {
		t.Errorf("plain: %+v", plain.Job)
	}
	if other.CatchupMax != 0 || other.Retry.MaxAttempts != 2 || other.Retry.Max != 10*time.Minute || !other.WatermarkStart.IsZero() {
		t.Errorf("other: %+v", other.Job)
	}
	if strings.Contains(string(other.JSON), "catchup") || strings.Contains(string(other.JSON), "watermark_start") {
		t.Errorf("other keeps what means nothing to it: %s", other.JSON)
	}
}

func TestIncludedFilesAddJobs(t *testing.T) {
	dir := t.TempDir()
	body := "jobs: {%s: {schedule: \"@daily\", exec: {command: [\"true\"]}}}\n"
	main := write(t, filepath.Join(dir, "tidemark.yaml"), "include: [\"jobs.d/*.yaml\", jobs.d/b.yaml, more.yaml, \"*.yaml\", \"none/*.yaml\"]\ndefaults: {misfire_grace_time: 1h, coalesce: latest}\n")
	for name, job := range map[string]string{"jobs.d/a.yaml": "a", "jobs.d/b.yaml": "b", "more.yaml": "c"} {
		write(t, filepath.Join(dir, name), fmt.Sprintf(body, job))
	}
	write(t, filepath.Join(dir, "jobs.d/.hidden.yaml"), "no config\n")
	write(t, filepath.Join(dir, "jobs.d/folder.yaml/x"), "")
	cfg := load(t, main)
	var names, files []string
	for _, j := range cfg.Jobs {
		names = append(names, j.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("jobs %v", names)
	}
	for _, f := range cfg.Files {
		rel, _ := filepath.Rel(dir, f)
		files = append(files, rel)
	}
	want := []string{".", "jobs.d", "jobs.d/a.yaml", "jobs.d/b.yaml", "more.yaml", "tidemark.yaml"}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestSecretFilesAreReadWithoutTheirLineEndAndWatched(t *testing.T) {
	secret := write(t, "token", "line one\nline two\n")
	cfg := loadText(t, fmt.Sprintf(`jobs: {a: {schedule: "@daily", misfire_grace_time: 1h, coalesce: latest, exec: {command: [echo, "<${file:%s}>"]}}}`, secret))
	text := cfg.Jobs[0].Exec.Command[1]
	if text.Value != "<line one\nline two>" || text.Written != "<${file:"+secret+"}>" {
		t.Errorf("%q written %q", text.Value, text.Written)
	}
	if !slices.Contains(cfg.Files, secret) {
		t.Errorf("not watched: %v", cfg.Files)
	}
}

func TestAFileOverTheLimitIsRefused(t *testing.T) {
	got := loadError(t, "jobs: {}\n#"+strings.Repeat("x", maxFileSize))
	if got != "tidemark.yaml: cannot be read: longer than 16 MiB" {
		t.Error(got)
	}
}

func TestAFolderIsNoFile(t *testing.T) {
	_, err := Load(t.TempDir(), Options{})
	if err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
}

// Thousands of jobs are a plausible file, made by a program.
func BenchmarkLoadThousandJobs(b *testing.B) {
	var text strings.Builder
	text.WriteString("defaults: {misfire_grace_time: 1h, coalesce: latest}\njobs:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  job-%d: {schedule: \"%d 3 * * *\", exec: {command: [\"true\"]}}\n", i, i%60)
	}
	file := filepath.Join(b.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if cfg, err := Load(file, Options{}); err != nil || len(cfg.Jobs) != 1000 {
			b.Fatal(err)
		}
	}
}

func TestASecretIsNowhereButInTheWork(t *testing.T) {
	cfg := load(t, "testdata/good/variables.yaml")
	if cfg.Databases["warehouse"].URL.Value == cfg.Databases["warehouse"].URL.Written || job(t, cfg, "web").HTTP.Body.Value != canary {
		t.Fatal("the fixture holds no secret")
	}
	for _, j := range cfg.Jobs {
		shown := fmt.Sprintf("%s %s %s %s %s %v %v %+v %#v", j.JSON, j.Definition.Schedule, j.Hash, j.Fingerprint, j.Description, j.Exec, j.HTTP, j.Labels, j.Common)
		text, err := json.Marshal([]any{j.Exec, j.HTTP, j.SQL})
		if err != nil || strings.Contains(shown+string(text), canary) {
			t.Errorf("%s shows the secret (%v): %s %s", j.Name, err, shown, text)
		}
	}
	text, err := json.Marshal(cfg.Databases)
	if shown := fmt.Sprintf("%v %+v %s %s", cfg.Store, cfg.Databases, text, cfg.Hash); err != nil || strings.Contains(shown, canary) {
		t.Errorf("shows the secret (%v): %s", err, shown)
	}
}

func TestARotatedSecretChangesNoHash(t *testing.T) {
	var hashes [2][]string
	for i, token := range []string{"old", "new"} {
		cfg, err := Load("testdata/good/variables.yaml", Options{LookupEnv: func(name string) (string, bool) {
			if name == "TOKEN" {
				return token, true
			}
			return testEnv(name)
		}})
		if err != nil {
			t.Fatal(err)
		}
		hashes[i] = []string{cfg.Hash}
		for _, j := range cfg.Jobs {
			hashes[i] = append(hashes[i], j.Hash, j.Fingerprint, string(j.JSON), string(j.Definition.Schedule))
		}
	}
	if diff := cmp.Diff(hashes[0], hashes[1]); diff != "" {
		t.Errorf("(-old +new):\n%s", diff)
	}
}

func TestErrorsComeApart(t *testing.T) {
	_, err := Load("testdata/bad/many-kinds.yaml", Options{LookupEnv: testEnv})
	var all Errors
	var one Error
	if !errors.As(err, &all) || !errors.As(err, &one) || len(all.Unwrap()) != len(all) || one != all[0] {
		t.Errorf("%v", err)
	}
}
