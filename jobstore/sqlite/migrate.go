package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/tidemarkd/tidemark/jobstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

const schemaTable = "tidemark_schema"

// Migrate brings the schema up to date. Several processes may do it at once:
// each migration is one transaction, and who comes second finds it done.
// ErrNewerSchema.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.writer.take(ctx); err != nil {
		return wrap("migrate store", err)
	}
	defer s.writer.give()
	if err := s.writer.release(); err != nil {
		return wrap("migrate store", err)
	}
	if _, err := s.writer.db.ExecContext(ctx, "PRAGMA busy_timeout = 10000"); err != nil {
		return wrap("migrate store", err)
	}
	return wrap("migrate store", migrate(ctx, s.writer.db))
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	for before := int64(-2); ; {
		provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
			goose.WithTableName(schemaTable), goose.WithDisableGlobalRegistry(true))
		if err != nil {
			return err
		}
		have, want, err := versions(ctx, db, provider)
		switch {
		case err != nil:
			return err
		case have > want:
			return fmt.Errorf("%w: its schema is %d, this version's %d", jobstore.ErrNewerSchema, have, want)
		case have == want:
			return nil
		}
		_, err = provider.Up(ctx)
		if err == nil {
			return nil
		}
		// Who lost a race finds the schema further on than before.
		if have <= before {
			return err
		}
		before = have
	}
}

const (
	sqlHasSchema = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tidemark_schema'`
	sqlVersion   = `SELECT coalesce(max(version_id), 0) FROM tidemark_schema WHERE is_applied`
)

// versions is the schema's version, -1 where there is none, and this program's.
func versions(ctx context.Context, db *sql.DB, provider *goose.Provider) (have, want int64, err error) {
	for _, source := range provider.ListSources() {
		want = max(want, source.Version)
	}
	var n int
	if err := db.QueryRowContext(ctx, sqlHasSchema).Scan(&n); err != nil {
		return 0, 0, err
	}
	if n == 0 {
		return -1, want, nil
	}
	err = db.QueryRowContext(ctx, sqlVersion).Scan(&have)
	return have, want, err
}

const (
	versionKey = "version"
	sqlSchema  = `SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'`
)

// wantedSchema is what the migrations make: the text of every table and index
// by its name, and the version.
func wantedSchema() (map[string]string, error) {
	db, err := sql.Open("sqlite", "file::memory:?_txlock=immediate")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	if err := migrate(ctx, db); err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return schemaOf(&tx{caller: ctx, run: ctx, conn: conn})
}

func schemaOf(t *tx) (map[string]string, error) {
	out := map[string]string{}
	rows, err := t.query(sqlSchema)
	err = each(rows, err, func(rows *sql.Rows) error {
		var name, text string
		err := rows.Scan(&name, &text)
		out[name] = text
		return err
	})
	if err != nil || out["table "+schemaTable] == "" {
		return out, err
	}
	var version int64
	err = t.queryRow(sqlVersion).Scan(&version)
	out[versionKey] = fmt.Sprintf("%09d", version)
	return out, err
}

// plain is a statement's text without what only its layout adds.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }

// checkSchema compares the store's schema with what the migrations make.
func (s *Store) checkSchema(t *tx) error {
	want, err := s.schema()
	if err != nil {
		return err
	}
	have, err := schemaOf(t)
	if err != nil {
		return err
	}
	switch v := have[versionKey]; {
	case v == "":
		return fmt.Errorf("%w: it has none yet", jobstore.ErrOldSchema)
	case v < want[versionKey]:
		return jobstore.ErrOldSchema
	case v > want[versionKey]:
		return jobstore.ErrNewerSchema
	}
	var errs []error
	for name, text := range want {
		switch plain(have[name]) {
		case plain(text):
		case "":
			errs = append(errs, fmt.Errorf("%w: %s is missing", jobstore.ErrDamaged, name))
		default:
			errs = append(errs, fmt.Errorf("%w: %s is not as it was made", jobstore.ErrDamaged, name))
		}
	}
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return errors.Join(errs...)
}
