package sqlite

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

func TestOneDaemonHasTheFileAndCommandsUseIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b%20c#d.db")
	first, err := Open(t.Context(), path, Options{Create: true, Daemon: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), path, Options{Daemon: true}); !errors.Is(err, jobstore.ErrLocked) {
		t.Errorf("a second daemon: %v, %v", s, err)
	}
	command := openFile(t, path, Options{})
	if err := command.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := command.Sync(t.Context(), create("a")); err != nil {
		t.Error(err)
	}
	if jobs, err := first.Jobs(t.Context()); err != nil || len(jobs) != 1 {
		t.Errorf("the daemon sees %d jobs, %v", len(jobs), err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openFile(t, path, Options{Daemon: true})
}

func create(name string) func(jobstore.SyncState) (jobstore.Changes, error) {
	return func(s jobstore.SyncState) (jobstore.Changes, error) {
		return jobstore.Changes{Create: []jobstore.NewJob{{
			Definition: jobstore.Definition{Name: name}, LastPlanned: s.Now.Add(-time.Minute), NextFire: s.Now.Add(-time.Second),
		}}}, nil
	}
}

func TestADaemonThatJoinsKnowsThatAllLeasesAreOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	old := openFile(t, path, Options{Create: true})
	if err := old.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Sync(t.Context(), create("a")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2"} {
		if err := old.Join(t.Context(), jobstore.Node{Name: name, Instance: "old", StartedAt: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := old.Trigger(t.Context(), jobstore.TriggerRequest{Job: "a", Key: "a//manual:k"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := old.Claim(t.Context(), jobstore.ClaimRequest{Node: "n2", Lease: time.Hour, Limit: 1}); err != nil || len(got.Runs) != 1 {
		t.Fatalf("claimed %+v, %v", got, err)
	}

	daemon := openFile(t, path, Options{Daemon: true})
	if err := daemon.Join(t.Context(), jobstore.Node{Name: "n1", Instance: "new", StartedAt: time.Unix(2, 0)}); err != nil {
		t.Fatal(err)
	}
	if nodes, err := daemon.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].Instance != "new" {
		t.Errorf("nodes are %+v, %v", nodes, err)
	}
	if got, err := daemon.Claim(t.Context(), jobstore.ClaimRequest{Node: "n1", Lease: time.Hour, Limit: 1}); err != nil || len(got.Lost) != 1 {
		t.Errorf("claimed %+v, %v", got, err)
	}
}

func TestManyProcessesMigrateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			s, err := Open(t.Context(), path, Options{Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(s.Migrate(t.Context()), s.Check(t.Context()), s.Migrate(t.Context()), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestWatchHearsOthersAndNotItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.db")
	daemon := openFile(t, path, Options{Create: true, Daemon: true})
	if err := daemon.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	command := openFile(t, path, Options{})
	before, err := daemon.dataVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Sync(t.Context(), create("own")); err != nil {
		t.Fatal(err)
	}
	if own, err := daemon.dataVersion(t.Context()); err != nil || own != before {
		t.Errorf("the store woke itself: %d after %d, %v", own, before, err)
	}
	if _, err := command.Sync(t.Context(), create("other")); err != nil {
		t.Fatal(err)
	}
	if other, err := daemon.dataVersion(t.Context()); err != nil || other == before {
		t.Errorf("a command's change went unheard: %d after %d, %v", other, before, err)
	}
}

// Every 200ms: at 20us a look, that is a ten-thousandth of a processor.
func BenchmarkWatch(b *testing.B) {
	s := openFile(b, filepath.Join(b.TempDir(), "tidemark.db"), Options{Create: true})
	for b.Loop() {
		if _, err := s.dataVersion(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestANodeWithoutABeatForTenSecondsIsDead(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "tidemark.db"), Options{Create: true})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	node := func(instance string) jobstore.Node {
		return jobstore.Node{Name: "n1", Instance: instance, StartedAt: time.Unix(1, 0)}
	}
	if err := s.Join(t.Context(), node("old")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		silent time.Duration
		want   error
	}{
		{jobstore.NodeTimeout - time.Second, jobstore.ErrNodeTaken},
		{jobstore.NodeTimeout, nil},
	} {
		err := s.write(t.Context(), func(tx *tx) error {
			_, err := tx.exec(`UPDATE tidemark_nodes SET seen_at = ?1`, micros(tx.now.Add(-c.silent)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Join(t.Context(), node("new")); !errors.Is(err, c.want) {
			t.Errorf("after %v of silence: %v, want %v", c.silent, err, c.want)
		}
	}
}
