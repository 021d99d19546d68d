package jobstore

import "errors"

// Errors that callers act upon. Backends translate their drivers' errors into
// these at the store's edge, by code.
var (
	// ErrNotFound: no job or run of that name or key.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the key exists with other parameters.
	ErrConflict = errors.New("key exists with other parameters")
	// ErrState: the run or job is not in a state that allows the change.
	ErrState = errors.New("not possible in this state")
	// ErrNodeTaken: another living daemon holds the node's name.
	ErrNodeTaken = errors.New("node name is taken by another daemon")
	// ErrUnavailable: the store cannot be reached now; trying later may help.
	ErrUnavailable = errors.New("store unavailable")
	// ErrLocked: another daemon has the SQLite file.
	ErrLocked = errors.New("store is in use by another daemon")
	// ErrDamaged: the store's file or schema is not what it must be.
	ErrDamaged = errors.New("store is damaged")
	// ErrNewerSchema: the store was migrated by a newer version of Tidemark.
	ErrNewerSchema = errors.New("store belongs to a newer version of tidemark")
	// ErrOldSchema: the store's schema has to be migrated first.
	ErrOldSchema = errors.New("store schema is not current")
	// ErrNoStore: there is no store at that place yet.
	ErrNoStore = errors.New("no store there")
)
