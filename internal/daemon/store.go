package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/jobstore/postgres"
	"github.com/tidemarkd/tidemark/jobstore/sqlite"
)

// StoreOptions say how a store is opened.
type StoreOptions struct {
	Create bool          // make what is missing: the SQLite file, the schema
	Daemon bool          // take the SQLite file's lock for this process's life
	Wait   time.Duration // how long to wait for a Postgres store that cannot be reached
	Log    *zap.Logger   // told of the waiting; may be nil
}

// ErrStoreURL says that the address of the store is of no known kind.
var ErrStoreURL = errors.New("store address must be sqlite:FILE or postgres://USER@HOST/DATABASE")

// OpenStore opens the store at an address `sqlite:FILE` or `postgres://…` and
// checks it whole. Errors wrap those of jobstore.
func OpenStore(ctx context.Context, address string, opt StoreOptions) (jobstore.Store, error) {
	end := time.Now().Add(opt.Wait)
	for said := false; ; {
		store, err := openOnce(ctx, address, opt)
		if err == nil || !errors.Is(err, jobstore.ErrUnavailable) || !isPostgres(address) || !time.Now().Before(end) {
			return store, err
		}
		if opt.Log != nil && !said {
			said = true
			opt.Log.Warn("waiting for the store", zap.String("store", Redact(address)), zap.Duration("at_most", opt.Wait), zap.Error(err))
		}
		timer := time.NewTimer(500 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("open store: %w", ctx.Err())
		case <-timer.C:
		}
	}
}

// backend is a store with what only its opener does to it.
type backend interface {
	jobstore.Store
	Migrate(ctx context.Context) error
}

func openOnce(ctx context.Context, address string, opt StoreOptions) (jobstore.Store, error) {
	store, err := openBackend(ctx, address, opt)
	if err != nil {
		return nil, err
	}
	if opt.Create {
		err = store.Migrate(ctx)
	}
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func openBackend(ctx context.Context, address string, opt StoreOptions) (backend, error) {
	switch path, isSQLite := strings.CutPrefix(address, "sqlite:"); {
	case isSQLite && path != "":
		s, err := sqlite.Open(ctx, path, sqlite.Options{Create: opt.Create, Daemon: opt.Daemon})
		if err != nil {
			return nil, err // not a typed nil
		}
		return s, nil
	case isPostgres(address) && Redact(address) == unreadable:
		return nil, fmt.Errorf("%w; in a password @ is written %%40, / is %%2F and : is %%3A", ErrStoreURL)
	case isPostgres(address):
		s, err := postgres.Open(ctx, address, postgres.Options{})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return nil, fmt.Errorf("%w, not %q", ErrStoreURL, Redact(address))
}

func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Migrate creates the store's schema, or brings it up to date.
func Migrate(ctx context.Context, address string) error {
	store, err := openOnce(ctx, address, StoreOptions{Create: true})
	if err != nil {
		return err
	}
	return store.Close()
}

// PrintDDL is what Migrate runs on an empty store.
func PrintDDL(address string) (string, error) {
	switch {
	case strings.HasPrefix(address, "sqlite:"):
		return sqlite.DDL(), nil
	case isPostgres(address):
		return postgres.DDL(), nil
	}
	return "", fmt.Errorf("%w, not %q", ErrStoreURL, Redact(address))
}

const unreadable = "(an address that cannot be read)"

// Redact is an address that may be shown: without a password, and without
// parameters that may hold one. Where it is not plain which part the password
// is, nothing is shown.
func Redact(address string) string {
	if strings.HasPrefix(address, "sqlite:") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil || !isPostgres(address) || u.Opaque != "" || strings.Contains(u.Path, "@") {
		return unreadable
	}
	_, rest, _ := strings.Cut(address, "//")
	authority, _, _ := strings.Cut(rest, "/")
	if strings.Count(authority, "@") > 1 {
		return unreadable
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}
