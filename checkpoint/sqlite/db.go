package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// DB implements checkpoint.Database.
type DB struct{}

// Open does no I/O.
func Open(path string) (*DB, error) { return &DB{}, nil }

func (db *DB) Once(ctx context.Context, req checkpoint.OnceRequest) (checkpoint.OnceResult, error) {
	return checkpoint.OnceResult{}, errors.New("not there yet")
}
func (db *DB) Migrate(ctx context.Context) error                          { return nil }
func (db *DB) DDL() string                                                { return "" }
func (db *DB) Prune(ctx context.Context, before time.Time) (int64, error) { return 0, nil }
func (db *DB) Close() error                                               { return nil }
