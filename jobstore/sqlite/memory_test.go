package sqlite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func TestAStoreInMemoryLivesInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), inMemory, Options{Create: true, Daemon: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		after, err := s.Due(t.Context(), jobstore.DueRequest{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if d := after.Now.Sub(before.Now); d < 24*time.Hour || d > 25*time.Hour {
			t.Errorf("a day took %v", d)
		}
	})
}
