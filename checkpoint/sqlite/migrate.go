package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/tidemarkd/tidemark/checkpoint"
)

//go:embed migrations/*.sql
var migrations embed.FS

// versionTable stands apart from the jobstore's, which may be in the same file.
const versionTable = "tidemark_checkpoint_version"

// latest is the version that the migrations lead to.
const latest = 1

const (
	existsSQL  = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'tidemark_checkpoint_version'`
	versionSQL = `SELECT coalesce(max(version_id), 0) FROM tidemark_checkpoint_version`
)

// raceTries is how often a migration is begun that others were faster with.
const raceTries = 5

// Migrate implements checkpoint.Database. There is no lock over several
// transactions here: versions are unique, so that of two that apply the same
// migration one fails as a whole, looks again and finds it done.
func (db *DB) Migrate(ctx context.Context) error {
	if err := db.create(); err != nil {
		return err
	}
	var err error
	for range raceTries {
		version, look := db.version(ctx)
		switch {
		case look != nil:
			return look
		case version == latest:
			return nil
		case version > latest:
			return &checkpoint.Error{Op: "migrate", Text: fmt.Sprintf("%v: %d, this one knows %d", checkpoint.ErrNewerSchema, version, latest), Err: checkpoint.ErrNewerSchema}
		}
		if err = db.migrate(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// create makes the file if there is none: an empty one is an empty database.
func (db *DB) create() error {
	file, err := os.OpenFile(db.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		text := "the file cannot be opened or made"
		var at *os.PathError
		if errors.As(err, &at) {
			text += ": " + at.Err.Error() // its name may be a secret
		}
		return &checkpoint.Error{Op: "migrate", Text: text, Err: err}
	}
	return file.Close()
}

func (db *DB) version(ctx context.Context) (int64, error) {
	conn, err := db.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var exists, version int64
	if err := conn.QueryRowContext(ctx, existsSQL).Scan(&exists); err != nil {
		return 0, db.fault(ctx, "read the schema's version", err)
	}
	if exists == 0 {
		return 0, nil
	}
	if err := conn.QueryRowContext(ctx, versionSQL).Scan(&version); err != nil {
		return 0, db.fault(ctx, "read the schema's version", err)
	}
	return version, nil
}

func (db *DB) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.pool, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return db.fault(ctx, "migrate", err)
	}
	return nil
}

// DDL implements checkpoint.Database.
func (db *DB) DDL() string {
	var b strings.Builder
	b.WriteString(`CREATE TABLE tidemark_checkpoint_version (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    version_id INTEGER NOT NULL,
    is_applied INTEGER NOT NULL,
    tstamp     TIMESTAMP DEFAULT (datetime('now'))
);
INSERT INTO tidemark_checkpoint_version (version_id, is_applied) VALUES (0, 1);
`)
	for version := 1; version <= latest; version++ {
		names, _ := fs.Glob(migrations, fmt.Sprintf("migrations/%05d_*.sql", version))
		for _, name := range names {
			text, _ := migrations.ReadFile(name)
			fmt.Fprintf(&b, "%s\nINSERT INTO tidemark_checkpoint_version (version_id, is_applied) VALUES (%d, 1);\n",
				strings.TrimPrefix(string(text), "-- +goose Up"), version)
		}
	}
	return b.String()
}
