package sqlite

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
)

// DDL is what Migrate runs on an empty store, its own books included, for those
// who must ask a person to do it: Migrate then finds it done.
func DDL() string {
	var out strings.Builder
	out.WriteString(`CREATE TABLE tidemark_schema (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    version_id INTEGER NOT NULL,
    is_applied INTEGER NOT NULL,
    tstamp     TIMESTAMP DEFAULT (datetime('now'))
);
INSERT INTO tidemark_schema (version_id, is_applied) VALUES (0, 1);
`)
	names, _ := fs.Glob(migrations, "migrations/*.sql") // embedded, and sorted by number
	for _, name := range names {
		text, _ := fs.ReadFile(migrations, name)
		version, _ := goose.NumericComponent(name)
		fmt.Fprintf(&out, "%s\nINSERT INTO tidemark_schema (version_id, is_applied) VALUES (%d, 1);\n",
			strings.TrimPrefix(string(text), "-- +goose Up"), version)
	}
	return out.String()
}
