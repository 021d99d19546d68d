package daemon

import (
	"errors"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/jobstore"
)

// Exit codes (interfaces 1): those of sysexits.h where there is one.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitData        = 65
	ExitUnavailable = 69
	ExitTryAgain    = 75
	ExitConfig      = 78
)

// ExitCode is the exit code for an error; 0 for nil.
func ExitCode(err error) int {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	var file config.Errors
	var fault config.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &file), errors.As(err, &fault):
		return ExitConfig
	case is(jobstore.ErrLocked, jobstore.ErrNodeTaken):
		return ExitTryAgain
	case is(jobstore.ErrConflict):
		return ExitData
	case is(ErrStoreURL):
		return ExitUsage
	case is(jobstore.ErrUnavailable, jobstore.ErrDamaged, jobstore.ErrNewerSchema, jobstore.ErrOldSchema, jobstore.ErrNoStore):
		return ExitUnavailable
	}
	return ExitFailed
}
