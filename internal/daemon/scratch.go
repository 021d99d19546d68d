package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/jobstore/postgres"
	"github.com/tidemarkd/tidemark/jobstore/sqlite"
)

// scratchStore is a store that is measured and thrown away.
type scratchStore interface {
	backend
	// HandwrittenCycle inserts runs leased and completes them, by hand, in
	// batches, and returns how long that took.
	HandwrittenCycle(ctx context.Context, runs, batch int) (time.Duration, error)
}

// openScratch makes an empty store beside the one at address: on the same disk
// or the same server. drop closes it and takes it away again.
func openScratch(ctx context.Context, address string) (store scratchStore, drop func() error, err error) {
	switch path, isSQLite := strings.CutPrefix(address, "sqlite:"); {
	case isSQLite && path != "":
		store, drop, err = sqliteScratch(ctx, path)
	case isPostgres(address):
		store, drop, err = postgresScratch(ctx, address)
	default:
		return nil, nil, fmt.Errorf("%w, not %q", ErrStoreURL, Redact(address))
	}
	if err != nil {
		return nil, nil, err
	}
	if err := store.Migrate(ctx); err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return store, drop, nil
}

func sqliteScratch(ctx context.Context, path string) (scratchStore, func() error, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), "tidemark-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	store, err := sqlite.Open(ctx, filepath.Join(dir, "bench.db"), sqlite.Options{Create: true, Daemon: true})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return store, func() error { return errors.Join(store.Close(), os.RemoveAll(dir)) }, nil
}

func postgresScratch(ctx context.Context, address string) (scratchStore, func() error, error) {
	own, dropSchema, err := postgres.Scratch(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.Open(ctx, own, postgres.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, dropSchema())
	}
	return store, func() error { return errors.Join(store.Close(), dropSchema()) }, nil
}
