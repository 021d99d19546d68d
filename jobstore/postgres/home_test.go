package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// The default path begins with a schema that is called like the role. One that
// is made after the store, as for the keys of sql jobs, does not hide it.
func TestASchemaCalledLikeTheRoleDoesNotHideTheStore(t *testing.T) {
	s := open(t)
	conn, err := pgx.Connect(t.Context(), s.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA "+pgx.Identifier{s.pool.Config().ConnConfig.User}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	config, err := s.home(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if path := config.RuntimeParams["search_path"]; !strings.Contains(path, "public") {
		t.Errorf("migrations would run in %q", path)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	var stores int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relname = 'tidemark_runs'").Scan(&stores); err != nil || stores != 1 {
		t.Errorf("%d stores, %v", stores, err)
	}
}

func TestNamesOfNodesThatAreLongGoneAreForgotten(t *testing.T) {
	s := open(t)
	for _, name := range []string{"long-gone", "gone"} {
		if err := s.Join(t.Context(), jobstore.Node{Name: name, Instance: name, StartedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.pool.Exec(t.Context(), "UPDATE tidemark_nodes SET seen_at = now() - interval '25 hours' WHERE name = 'long-gone'"); err != nil {
		t.Fatal(err)
	}
	if err := s.Join(t.Context(), jobstore.Node{Name: "new", Instance: "new", StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
}

// What a person ran by hand is whole, and Migrate has nothing to do.
func TestTheDDLMakesAWholeStore(t *testing.T) {
	s, err := Open(t.Context(), pgtest.NewDatabase(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.pool.Exec(t.Context(), DDL(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
}
