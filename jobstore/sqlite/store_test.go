package sqlite

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/jobstore/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, openTwo)
}

// openTwo opens a fresh store twice, as a daemon and a command do.
func openTwo(t testing.TB) (a, b jobstore.Store) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	first := openFile(t, path, Options{Create: true})
	if err := first.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return first, openFile(t, path, Options{})
}

func openFile(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
