package checkpoint

import (
	"context"
	"errors"
)

// AutoMigrate is db, migrated when it turns out that its schema is missing: a
// database that was down, or not there yet, when the daemon started is prepared
// by the first run that finds it.
func AutoMigrate(db Database) Database { return autoMigrated{db} }

type autoMigrated struct{ Database }

func (a autoMigrated) Once(ctx context.Context, req OnceRequest) (OnceResult, error) {
	res, err := a.Database.Once(ctx, req)
	if !errors.Is(err, ErrNoSchema) {
		return res, err
	}
	if err := a.Migrate(ctx); err != nil {
		return OnceResult{}, err
	}
	return a.Database.Once(ctx, req)
}
