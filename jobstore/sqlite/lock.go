package sqlite

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tidemarkd/tidemark/jobstore"
)

// lockFile takes the operating system's lock on a file of its own beside the
// store: it ends with the process, however that ends. (A lock on the database
// file itself would meet SQLite's.)
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", jobstore.ErrUnavailable, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = jobstore.ErrLocked
	} else {
		err = fmt.Errorf("%w: lock %s: %w", jobstore.ErrUnavailable, path, err)
	}
	return nil, errors.Join(err, f.Close())
}
