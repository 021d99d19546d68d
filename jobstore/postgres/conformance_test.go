package postgres

import (
	"fmt"
	"testing"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/jobstore/storetest"
)

// A schema a test, which is quicker than a database, and what search_path in
// the URL is for.
func TestStore(t *testing.T) {
	url := pgtest.NewDatabase(t)
	admin, err := Open(t.Context(), url, Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	schemas := 0
	storetest.Run(t, func(t testing.TB) (a, b jobstore.Store) {
		schemas++
		own := fmt.Sprintf("s%d", schemas)
		if _, err := admin.pool.Exec(t.Context(), "CREATE SCHEMA "+own); err != nil {
			t.Fatal(err)
		}
		own = url + "&synchronous_commit=off&search_path=" + own // durability is not the question
		return openAt(t, own, Options{MaxConns: 4}), openAt(t, own, Options{MaxConns: 4})
	})
}
