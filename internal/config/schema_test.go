package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/tidemarkd/tidemark/internal/executor"
)

func TestTheSchemaIsCurrent(t *testing.T) {
	golden(t, "schema.json", generateSchema(t))
}

const (
	durationPattern = `^([0-9]+(\.[0-9]+)?(w|d|h|m|s|ms|us|µs|ns))+$`
	variablePattern = `\$\{`
)

// generateSchema makes the schema of the structs that the binder fills. Its
// descriptions are the meanings in docs/configuration.md.
func generateSchema(t *testing.T) string {
	t.Helper()
	r := jsonschema.Reflector{
		Anonymous:                  true,
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true,
		ExpandedStruct:             true,
		Namer:                      schemaName,
		Mapper:                     leafSchema,
	}
	root := r.ReflectFromType(documentType)
	root.Title = "Tidemark config file"
	top, job := documentedKeys(t, "Keys at the top"), documentedKeys(t, "Keys of a job")
	decorate(root, documentType, top, "")
	for name, def := range root.Definitions {
		switch name {
		case "job":
			decorate(def, jobType, job, "")
		case "retention":
			decorate(def, reflect.TypeFor[retentionKeys](), top, "retention.")
		case "database":
			decorate(def, reflect.TypeFor[databaseKeys](), top, "databases.NAME.")
		case "catchup":
			decorate(def, reflect.TypeFor[catchupKeys](), job, "catchup.")
		case "retry":
			decorate(def, reflect.TypeFor[retryKeys](), job, "retry.")
		default:
			decorate(def, workTypes()[name], job, name+".")
		}
	}
	shapeJobs(root)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func schemaName(t reflect.Type) string {
	name := strings.TrimSuffix(strings.TrimSuffix(t.Name(), "Keys"), "Config")
	return strings.ToLower(name)
}

// leafSchema is what may stand where a value of the type is read.
func leafSchema(t reflect.Type) *jsonschema.Schema {
	variable := &jsonschema.Schema{Type: "string", Pattern: variablePattern}
	length := &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	word := &jsonschema.Schema{Const: unlimitedWord}
	any := func(of ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{AnyOf: of} }
	list := func(of *jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{Type: "array", Items: of} }
	text := &jsonschema.Schema{Type: "string"}
	day := &jsonschema.Schema{Type: "string", Pattern: `^\d{4}-\d{2}-\d{2}(\.\.\d{4}-\d{2}-\d{2})?$`}
	switch t {
	case textType:
		return text
	case timeType:
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[duration]():
		return any(length, variable)
	case reflect.TypeFor[grace]():
		return any(length, word, variable)
	case reflect.TypeFor[limit]():
		return any(&jsonschema.Schema{Type: "integer", Minimum: "1"}, word, variable)
	case reflect.TypeFor[integer]():
		return any(&jsonschema.Schema{Type: "integer"}, variable)
	case reflect.TypeFor[decimal]():
		return any(&jsonschema.Schema{Type: "number"}, variable)
	case reflect.TypeFor[boolean]():
		return any(&jsonschema.Schema{Type: "boolean"}, variable)
	case reflect.TypeFor[oneOrMany](), reflect.TypeFor[[]executor.Text]():
		return any(text, list(text))
	case reflect.TypeFor[patterns]():
		return list(text)
	case reflect.TypeFor[dates]():
		return any(day, list(day))
	}
	return nil
}

// decorate adds the meaning of each key, and what the tags say to properties of
// types that leafSchema maps.
func decorate(s *jsonschema.Schema, t reflect.Type, rows map[string]documented, prefix string) {
	for name, f := range fieldsOf(t) {
		property, ok := s.Properties.Get(name)
		if !ok {
			continue
		}
		property.Description = rows[prefix+name].meaning
		if text := defaultOf(f.tag); text != "" {
			property.Default = defaultValue(text)
		}
		for part := range strings.SplitSeq(f.tag.Get("jsonschema"), ",") {
			if low, ok := strings.CutPrefix(part, "minimum="); ok && len(property.AnyOf) > 0 {
				property.AnyOf[0].Minimum = json.Number(low)
			}
		}
	}
}

// shapeJobs tells a job from defaults: the one has a name, a schedule and one
// kind of work, the other none of these that are a job's own.
func shapeJobs(root *jsonschema.Schema) {
	needs := func(key string) *jsonschema.Schema { return &jsonschema.Schema{Required: []string{key}} }
	job, _ := root.Properties.Get("jobs")
	job.PropertyNames = &jsonschema.Schema{Pattern: `^[A-Za-z0-9._:@+-]+$`}
	job.AdditionalProperties = &jsonschema.Schema{
		Ref:   "#/$defs/job",
		OneOf: []*jsonschema.Schema{needs("exec"), needs("http"), needs("sql")},
	}
	defaults, _ := root.Properties.Get("defaults")
	defaults.Not = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{needs("renamed_from"), needs("exec"), needs("http"), needs("sql")}}
	database := root.Definitions["database"]
	database.Required = []string{"url"}
}

// validate holds a YAML file against the schema.
func validate(t *testing.T, file string) error {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource("tidemark.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("tidemark.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root, err := parseDocument(text)
	if err != nil {
		return err
	}
	return compiled.Validate(plain(root))
}

// plain is a document as an editor sees it: instants are text.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, plain(item))
		}
		return list
	case yaml.MappingNode:
		all := map[string]any{}
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			key, value := n.Content[i].Value, plain(n.Content[i+1])
			if n.Content[i].Tag != "!!merge" {
				all[key] = value
				continue
			}
			merged, isList := value.([]any)
			if !isList {
				merged = []any{value}
			}
			for _, m := range merged {
				if m, ok := m.(map[string]any); ok {
					maps.Copy(m, all)
					all = m
				}
			}
		}
		return all
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool", "!!int", "!!float":
		return asWritten(n)
	}
	return n.Value
}

func TestGoodFilesFitTheSchema(t *testing.T) {
	for _, file := range fixtures(t, "testdata/good/*.yaml") {
		if err := validate(t, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// An editor cannot know every rule. What it does see of the bad files is kept
// in a list, so that a change to the schema shows what it no longer catches.
func TestTheSchemaCatchesBadFiles(t *testing.T) {
	var caught []string
	for _, file := range fixtures(t, "testdata/bad/*.yaml") {
		if strings.Contains(file, "alias-bomb") {
			continue
		}
		if validate(t, file) != nil {
			caught = append(caught, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		}
	}
	golden(t, "testdata/caught-by-schema.txt", strings.Join(caught, "\n")+"\n")
}
