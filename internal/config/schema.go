package config

import (
	_ "embed"
	"slices"
)

//go:generate go test -run TestTheSchemaIsCurrent -update .

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of the config file, for editors. It says what
// keys there are and what each may hold; rules about several of them together
// are for Load.
func Schema() []byte { return slices.Clone(schema) }
