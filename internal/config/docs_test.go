package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const docsFile = "../../docs/configuration.md"

// documented is one row of a table of keys.
type documented struct{ kind, def, meaning string }

var keyRow = regexp.MustCompile("^\\| `([^`]+)` \\| (.+?) \\| (.*?) ?\\| (.+) \\|$")

// documentedKeys reads the tables below a heading of the documentation.
func documentedKeys(t *testing.T, heading string) map[string]documented {
	t.Helper()
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]documented{}
	for line := range strings.SplitSeq(section, "\n") {
		if m := keyRow.FindStringSubmatch(line); m != nil {
			rows[m[1]] = documented{m[2], strings.Trim(m[3], "`"), m[4]}
		}
	}
	return rows
}

// keysOf lists the keys of a struct and of those in it, but not of jobs.
func keysOf(t reflect.Type, prefix string, into map[string]field) {
	for name, f := range fieldsOf(t) {
		path := join(prefix, name)
		into[path] = f
		inner := f.typ
		switch {
		case inner.Kind() == reflect.Pointer:
			inner = inner.Elem()
		case inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct && inner.Elem() != textType:
			inner, path = inner.Elem(), path+".NAME"
		}
		if inner.Kind() == reflect.Struct && inner != jobType && !isScalarType(inner) {
			keysOf(inner, path, into)
		}
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	for heading, of := range map[string]reflect.Type{"Keys at the top": documentType, "Keys of a job": jobType} {
		rows := documentedKeys(t, heading)
		keys := map[string]field{}
		keysOf(of, "", keys)
		for path, f := range keys {
			row, ok := rows[path]
			if !ok {
				if strings.HasSuffix(path, ".NAME") {
					continue
				}
				t.Errorf("%s: %s has no row", heading, path)
				continue
			}
			if want := defaultOf(f.tag); want != "" && row.def != want {
				t.Errorf("%s: the default is %q, the row says %q", path, want, row.def)
			}
			leafType := f.typ
			for leafType.Kind() == reflect.Slice || leafType.Kind() == reflect.Map {
				leafType = leafType.Elem()
			}
			if isScalarType(leafType) && mayExpand(leafType) != strings.Contains(row.kind, "`${}`") {
				t.Errorf("%s: expands ${…}: %v; the row says %q", path, mayExpand(leafType), row.kind)
			}
		}
		for path := range rows {
			if _, ok := keys[path]; !ok {
				t.Errorf("%s: %s is documented, and no key", heading, path)
			}
		}
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestEveryExampleOfTheDocumentationLoads(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) {
		if name == "STORE_URL" {
			return "postgres://tidemark@db.test/tidemark", true
		}
		return testEnv(name)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 7 {
		t.Fatalf("only %d examples found", len(blocks))
	}
	for i, block := range blocks {
		file := filepath.Join(t.TempDir(), "tidemark.yaml")
		if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file, Options{LookupEnv: env}); err != nil {
			t.Errorf("example %d: %v", i+1, err)
		}
		if err := validate(t, file); err != nil {
			t.Errorf("example %d and the schema: %v", i+1, err)
		}
	}
}

func TestPresetsAreTheDefaultsOfTheTags(t *testing.T) {
	type presets interface{ preset() }
	for _, p := range []presets{&document{}, &retentionKeys{}, &retryKeys{}, &databaseKeys{}} {
		p.preset()
		v := reflect.ValueOf(p).Elem()
		for name, f := range fieldsOf(v.Type()) {
			text := defaultOf(f.tag)
			if text == "" {
				continue
			}
			want := reflect.New(f.typ).Elem()
			tag := "!!str"
			switch defaultValue(text).(type) {
			case bool:
				tag = "!!bool"
			case string:
			default:
				tag = "!!int"
			}
			if msg, _ := assign(want, scalar{text: text, tag: tag}, text, f.tag); msg != "" {
				t.Errorf("%s: default %s: %s", name, text, msg)
			}
			if diff := cmp.Diff(want.Interface(), v.FieldByIndex(f.index).Interface()); diff != "" {
				t.Errorf("%T: preset of %s (-tag +preset):\n%s", p, name, diff)
			}
		}
	}
}

func TestAFileWithNothingButJobsHasTheDocumentedDefaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(file, []byte("jobs: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows := documentedKeys(t, "Keys at the top")
	if cfg.Store.Value != rows["store"].def || cfg.Listen != rows["listen"].def || cfg.Timezone != rows["timezone"].def {
		t.Errorf("store %v, listen %v, timezone %v", cfg.Store, cfg.Listen, cfg.Timezone)
	}
	if cfg.MaxConcurrentRuns != 64 || cfg.ShutdownGrace.String() != "30s" || !cfg.AutoMigrate || cfg.Revision != 0 || len(cfg.Jobs) != 0 {
		t.Errorf("%+v", cfg)
	}
}

func TestAMissingFileSaysSo(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), Options{})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load = %v; want one that is os.ErrNotExist", err)
	}
	var all Errors
	if !errors.As(err, &all) || !slices.ContainsFunc(all, func(e Error) bool { return e.Hint != "" }) {
		t.Errorf("Load = %v; want Errors with a hint", err)
	}
}
