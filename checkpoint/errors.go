package checkpoint

import "errors"

// Errors that callers act upon.
var (
	// ErrNoSchema: Tidemark's schema is not in the database, or not current.
	ErrNoSchema = errors.New("tidemark's schema is not in the database")
	// ErrNewerSchema: a newer version of Tidemark has migrated it.
	ErrNewerSchema = errors.New("tidemark's schema in the database belongs to a newer version")
	// ErrConflict: the key was used for other work.
	ErrConflict = errors.New("the key was used for another statement, target or window")
	// ErrOutcomeUnknown: the connection was lost in COMMIT, and the database
	// could not be asked since. The next Once with the key finds out.
	ErrOutcomeUnknown = errors.New("whether it was committed is not known yet")
)

// Error is what a database answered, or that it did not. Its text is for people
// and holds nothing of the database's address.
type Error struct {
	Op        string // what was tried: "connect", "run the statement"
	Text      string // what happened
	Code      string // SQLSTATE, or the name of an SQLite result code; may be empty
	Transient bool   // worth a retry: SQLSTATE classes 08, 40, 53, 57, lost connections, SQLITE_BUSY (semantics 5)
	Err       error  // one of the errors above, or the context's; may be nil
}

// Error says what was tried and what happened.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Text
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	return text
}

// Unwrap returns the error that callers act upon.
func (e *Error) Unwrap() error { return e.Err }
