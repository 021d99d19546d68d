package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkd/tidemark/jobstore"
)

// What a person ran by hand is whole, and Migrate has nothing to do.
func TestTheDDLMakesAWholeStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), DDL()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFileHasOneDaemonWhateverLinksLeadToIt(t *testing.T) {
	dir := t.TempDir()
	real, link, hard := filepath.Join(dir, "real.db"), filepath.Join(dir, "link.db"), filepath.Join(dir, "hard.db")
	first, err := Open(t.Context(), real, Options{Create: true, Daemon: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.db", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), link, Options{Daemon: true}); !errors.Is(err, jobstore.ErrLocked) {
		t.Errorf("a second daemon through a link: %v", err)
	}
	through, err := Open(t.Context(), link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(through.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(real, hard); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), hard, Options{Daemon: true}); !errors.Is(err, jobstore.ErrUnavailable) {
		t.Errorf("a file of two names: %v", err)
	}
}
