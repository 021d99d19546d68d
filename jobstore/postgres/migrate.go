package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/tidemarkd/tidemark/jobstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema lists, a line each, what the migrations make; Check compares. A test
// keeps it (`go test ./jobstore/postgres -run Schema -update`).
//
//go:embed schema.golden
var schema string

const (
	versionTable   = "tidemark_schema"
	lockTable      = "tidemark_schema_lock"
	migrateTimeout = 10 * time.Minute
)

// Migrate brings the schema up to date. Any number of processes may call it at
// once: one applies, the others wait. They take turns through a row in a table,
// since a session's lock does not survive a transaction-mode pooler.
func (s *Store) Migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	newest, err := newestMigration()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	version, err := s.version(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	switch {
	case version > newest:
		return fmt.Errorf("migrate: %w (version %d, this one knows %d)", jobstore.ErrNewerSchema, version, newest)
	case version == newest:
		return nil
	}
	// Not the pool: the lock and the migration need a connection each, whatever
	// pool_max_conns says.
	config, err := s.home(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	provider, err := newProvider(db)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", translate(ctx, err))
	}
	return nil
}

// storeSchema is the schema that has the store, and whether it is the first one
// of the connection's path. There is no row where there is no store yet.
const storeSchema = `
SELECT n.nspname, n.nspname = current_schema()
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass('tidemark_schema')`

// home is a connection's config in whose path the store's schema comes first. A
// schema that was made later may have come before it: one that is called like
// the role does, and the keys of sql jobs are kept in one called tidemark.
func (s *Store) home(ctx context.Context) (*pgx.ConnConfig, error) {
	config := s.pool.Config().ConnConfig.Copy()
	var name string
	first := true
	b := &pgx.Batch{}
	b.Queue(storeSchema).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&name, &first}, func() error { return nil })
		return err
	})
	if err := s.run(ctx, "find the store's schema", b); err != nil {
		return nil, err
	}
	if !first {
		config.RuntimeParams["search_path"] = pgx.Identifier{name}.Sanitize()
	}
	return config, nil
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableName(lockTable),
		lock.WithTableLockTimeout(250*time.Millisecond, uint64(migrateTimeout/(250*time.Millisecond))),
	)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable), goose.WithLocker(locker), goose.WithDisableGlobalRegistry(true))
}

// newestMigration is the version that the embedded migrations lead to.
func newestMigration() (version int64, err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if version, err = goose.NumericComponent(name); err != nil {
			return 0, err
		}
	}
	return version, nil
}

// Check reports whether the store can be reached and its schema is this
// version's, whole. Objects that somebody added do no harm.
func (s *Store) Check(ctx context.Context) error {
	want, err := newestMigration()
	if err != nil {
		return fmt.Errorf("check store: %w", err)
	}
	version, err := s.version(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("check store: %w", err)
	case version < want:
		return fmt.Errorf("check store: %w (version %d, wanted %d)", jobstore.ErrOldSchema, version, want)
	case version > want:
		return fmt.Errorf("check store: %w (version %d, this one knows %d)", jobstore.ErrNewerSchema, version, want)
	}
	lines, err := s.schema(ctx)
	if err != nil {
		return fmt.Errorf("check store: %w", err)
	}
	have := make(map[string]bool, len(lines))
	for _, line := range lines {
		have[line] = true
	}
	var errs []error
	for line := range strings.Lines(schema) {
		if line = strings.TrimSpace(line); !have[line] {
			errs = append(errs, fmt.Errorf("check store: %w: missing or changed: %s", jobstore.ErrDamaged, line))
		}
	}
	return errors.Join(errs...)
}

const schemaVersion = `
SELECT coalesce(max(version_id), 0) FROM tidemark_schema WHERE is_applied`

const schemaExists = `SELECT to_regclass('tidemark_schema') IS NOT NULL`

// version is the schema's; 0 where there is none yet.
func (s *Store) version(ctx context.Context) (version int64, err error) {
	var exists bool
	b := &pgx.Batch{}
	b.Queue(schemaExists).QueryRow(func(row pgx.Row) error { return row.Scan(&exists) })
	if err := s.run(ctx, "read schema version", b); err != nil || !exists {
		return 0, err
	}
	b = &pgx.Batch{}
	b.Queue(schemaVersion).QueryRow(func(row pgx.Row) error { return row.Scan(&version) })
	err = s.run(ctx, "read schema version", b)
	return version, err
}

// schemaLines describes the tables of the connection's schema. What it prints
// must not differ between versions of PostgreSQL.
const schemaLines = `
SELECT line FROM (
    SELECT 1 AS part, c.relname AS name, a.attnum AS place,
           format('column %s.%s %s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attnotnull THEN ' not null' ELSE '' END) AS line
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('tidemark_schema')) AND c.relkind IN ('r', 'p')
      AND c.relname LIKE 'tidemark\_%' AND c.relname NOT LIKE 'tidemark\_schema%'
    UNION ALL
    SELECT 2, x.relname, 0,
           format('index %s on %s: %s(%s)%s', x.relname, c.relname,
                  CASE WHEN i.indisunique THEN 'unique ' ELSE '' END,
                  (SELECT string_agg(pg_get_indexdef(i.indexrelid, k, true), ', ' ORDER BY k)
                   FROM generate_series(1, i.indnkeyatts) AS k),
                  coalesce(' where ' || pg_get_expr(i.indpred, i.indrelid, true), ''))
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_class x ON x.oid = i.indexrelid
    WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('tidemark_schema')) AND i.indisvalid AND i.indisready
      AND c.relname LIKE 'tidemark\_%' AND c.relname NOT LIKE 'tidemark\_schema%'
) AS lines
ORDER BY part, name, place`

func (s *Store) schema(ctx context.Context) (lines []string, err error) {
	b := &pgx.Batch{}
	b.Queue(schemaLines).Query(collect(&lines, only))
	err = s.run(ctx, "read schema", b)
	return lines, err
}
