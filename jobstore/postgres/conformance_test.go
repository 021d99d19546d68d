package postgres

import (
	"testing"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/jobstore/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) (a, b jobstore.Store) {
		url := pgtest.NewDatabase(t)
		return openAt(t, url, Options{}), openAt(t, url, Options{})
	})
}
