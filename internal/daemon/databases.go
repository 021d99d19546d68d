package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/checkpoint"
	cppostgres "github.com/tidemarkd/tidemark/checkpoint/postgres"
	cpsqlite "github.com/tidemarkd/tidemark/checkpoint/sqlite"
	"github.com/tidemarkd/tidemark/internal/config"
)

// databases holds the jobs' databases open, across reloads: one that a reload
// leaves as it was keeps its connections, and work under way keeps its own.
type databases struct {
	mu   sync.Mutex
	open map[config.Database]checkpoint.Database
}

// get returns the database, opening it if need be. Opening does no I/O. With
// migrate a database that was down at the start is prepared by the first run
// that finds it.
func (d *databases) get(db config.Database, migrate bool) (checkpoint.Database, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.open[db]; known != nil {
		return known, nil
	}
	opened, err := openDatabase(db)
	if err != nil {
		return nil, err
	}
	if migrate {
		opened = checkpoint.AutoMigrate(opened)
	}
	if d.open == nil {
		d.open = map[config.Database]checkpoint.Database{}
	}
	d.open[db] = opened
	return opened, nil
}

func openDatabase(db config.Database) (checkpoint.Database, error) {
	address := db.URL.Value
	switch path, isSQLite := strings.CutPrefix(address, "sqlite:"); {
	case isSQLite && path != "":
		opened, err := cpsqlite.Open(path)
		if err != nil {
			return nil, err
		}
		return opened, nil
	case isPostgres(address):
		opened, err := cppostgres.Open(address, db.MaxConns)
		if err != nil {
			return nil, err
		}
		return opened, nil
	}
	return nil, fmt.Errorf("database address must be sqlite:FILE or postgres://USER@HOST/DATABASE, not %q", Redact(address))
}

func (d *databases) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, db := range d.open {
		errs = append(errs, db.Close())
	}
	d.open = nil
	return errors.Join(errs...)
}

// migrate brings Tidemark's schema in the databases that jobs work in up to
// date. One that cannot be reached now does not hold up the others, nor the
// daemon: its jobs say so when they run.
func (d *databases) migrate(ctx context.Context, cfg *config.Config, log *zap.Logger) {
	for _, name := range usedDatabases(cfg) {
		db, err := d.get(cfg.Databases[name], true)
		if err == nil {
			err = db.Migrate(ctx)
		}
		if err != nil {
			log.Error("could not prepare a database: jobs that work in it will fail until it is reached",
				zap.String("database", name), zap.Error(err))
		}
	}
}

const (
	// keysKeptAtLeast is how long the key of a `sql` run is kept in its database
	// even where history is kept for less: a run that the store still holds open
	// must find it.
	keysKeptAtLeast = 30 * 24 * time.Hour
	pruneKeysEvery  = time.Hour
)

// pruneLoop forgets keys of `sql` runs that are older than all history, until
// ctx ends. Where history is kept for ever, so are they.
func (d *databases) pruneLoop(ctx context.Context, runsKept time.Duration, log *zap.Logger) {
	ticker := time.NewTicker(pruneKeysEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if runsKept <= 0 {
			continue
		}
		for _, db := range d.all() {
			if err := pruneKeys(ctx, db, time.Now().Add(-max(runsKept, keysKeptAtLeast))); err != nil && ctx.Err() == nil {
				log.Warn("could not forget old keys in a database; trying again in an hour", zap.Error(err))
			}
		}
	}
}

func pruneKeys(ctx context.Context, db checkpoint.Database, before time.Time) error {
	for {
		if n, err := db.Prune(ctx, before); err != nil || n == 0 {
			return err
		}
	}
}

func (d *databases) all() []checkpoint.Database {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.open))
}

func usedDatabases(cfg *config.Config) []string {
	seen := map[string]bool{}
	var names []string
	for i := range cfg.Jobs {
		if sql := cfg.Jobs[i].SQL; sql != nil && !seen[sql.Database] {
			seen[sql.Database] = true
			names = append(names, sql.Database)
		}
	}
	return names
}

// MigrateDatabase brings Tidemark's schema in a job's database up to date.
func MigrateDatabase(ctx context.Context, cfg *config.Config, name string) error {
	db, err := namedDatabase(cfg, name)
	if err != nil {
		return err
	}
	if err := db.Migrate(ctx); err != nil {
		return errors.Join(fmt.Errorf("migrate database %s: %w", name, err), db.Close())
	}
	return db.Close()
}

// PrintDatabaseDDL is what MigrateDatabase runs on an empty database.
func PrintDatabaseDDL(cfg *config.Config, name string) (string, error) {
	db, err := namedDatabase(cfg, name)
	if err != nil {
		return "", err
	}
	return db.DDL(), db.Close()
}

func namedDatabase(cfg *config.Config, name string) (checkpoint.Database, error) {
	db, ok := cfg.Databases[name]
	if !ok {
		return nil, fmt.Errorf("no database %q in %s", name, cfg.Path)
	}
	return openDatabase(db)
}
