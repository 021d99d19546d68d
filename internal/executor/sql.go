package executor

import (
	"context"

	"github.com/tidemarkd/tidemark/checkpoint"
	"github.com/tidemarkd/tidemark/scheduler"
)

// SQLConfig is a job's `sql`.
type SQLConfig struct {
	Database  string `yaml:"database"` // a name of `databases:`
	Statement string `yaml:"statement"`
}

// SQL runs a statement in a job's database.
type SQL struct {
	config SQLConfig
	common Common
	db     checkpoint.Database
}

// Validate says what is wrong with c: FieldErrors, joined.
func (c SQLConfig) Validate(common Common) error {
	_, err := NewSQL(c, common, nil)
	return err
}

// NewSQL is the executor of c, working in db. It does no I/O, and db may be nil
// where c is only to be checked; its errors are FieldErrors, joined.
func NewSQL(c SQLConfig, common Common, db checkpoint.Database) (*SQL, error) {
	return &SQL{config: c, common: common, db: db}, nil
}

// Execute implements scheduler.Executor.
func (s *SQL) Execute(ctx context.Context, try scheduler.Try) scheduler.Result {
	return scheduler.Result{}
}
