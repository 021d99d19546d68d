package postgres

import (
	"io/fs"
	"strings"
)

// DDL is what Migrate runs on an empty store, for those who must ask a person
// to do it.
func DDL() string {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return ""
	}
	var out strings.Builder
	for _, name := range names { // sorted, as they are numbered
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return ""
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		out.WriteString(strings.TrimPrefix(up, "-- +goose Up\n"))
	}
	return out.String()
}
