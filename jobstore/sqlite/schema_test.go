package sqlite

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func TestTheSchemaIsTheGoldenOne(t *testing.T) {
	schema, err := wantedSchema()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for name, text := range schema {
		parts = append(parts, "-- "+name+"\n"+text+"\n")
	}
	slices.Sort(parts)
	got := strings.Join(parts, "\n")
	golden := filepath.Join("testdata", "schema.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the schema is another than in %s; if that is meant, run the test with -update (-want +got):\n%s", golden, d)
	}
}

// Cost follows what is due, not what exists: no statement of a loop reads a
// table or a whole index of it.
func TestNoLoopScansATable(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "tidemark.db"), Options{Create: true})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, query := range map[string]string{
		"due": sqlDue, "next due": sqlNextDue, "planned": sqlPlanned,
		"jobs by id": sqlJobsByID, "targets of jobs": sqlTargetsOfJobs, "turn of jobs": sqlTurnOfJobs,
		"jobs of runs": sqlJobsOfRuns, "targets of runs": sqlTargetsOfRuns, "turn of runs": sqlTurnOfRuns,
		"open by id": sqlOpenByID, "turn of a job": sqlTurnOfJob, "waiting of a job": sqlWaitingOfJob, "turn": sqlTurnOf, "target": sqlTargetOf, "crowd": sqlCrowd,
		"known keys": sqlKnownKeys, "known fires": sqlKnownFires,
		"candidates": sqlCandidates, "next claim": sqlNextClaim, "held": sqlHeld, "renew": sqlRenew, "report": sqlReport,
		"update run": sqlUpdateRun, "update target": sqlUpdateTarget, "clear review": sqlClearReview,
		"end leases": sqlEndLeases, "run by key": sqlRunByKey, "job by name": sqlJobByName, "backlog": sqlBacklog,
		"prune: candidates": sqlPruneCandidates, "prune: runs": sqlOldestRuns, "prune: ranges": sqlOldestRanges,
		"prune: stays": sqlStays, "prune: manual": sqlOldManual, "prune: outputs": sqlOldOutputs,
		"drop runs": sqlDropRuns, "drop attempts": sqlDropAttempts, "drop outputs": sqlDropOutputs, "drop ranges": sqlDropRanges,
		"drop job": sqlDropRemoved, "drop targets": sqlDropTargets, "drop old outputs": sqlDropOldOutputs,
		"runs of a job": sqlRunsOfJob, "runs that are open": sqlRunsOpen, "runs for review": sqlRunsReview,
	} {
		for _, step := range explain(t, s, query) {
			if strings.HasPrefix(step, "SCAN ") && !slices.Contains(fine[name], step) && !given.MatchString(step) {
				t.Errorf("%s: %s", name, step)
			}
		}
	}
}

// What a statement is given, or made for itself, is no table.
var given = regexp.MustCompile(`VIRTUAL TABLE|^SCAN \(subquery-\d+\)|^SCAN lane$`)

// What may be read whole: it holds open runs, or runs for review, and no others.
var fine = map[string][]string{
	"backlog":            {"SCAN tidemark_runs USING COVERING INDEX tidemark_runs_turn", "SCAN tidemark_runs USING INDEX tidemark_runs_waiting"},
	"runs that are open": {"SCAN tidemark_runs USING COVERING INDEX tidemark_runs_turn", "SCAN tidemark_runs USING INDEX tidemark_runs_waiting"},
	"runs for review":    {"SCAN r USING INDEX tidemark_runs_review"},
}

func explain(t *testing.T, s *Store, query string) (steps []string) {
	t.Helper()
	rows, err := s.reader.Query("EXPLAIN QUERY PLAN "+query, make([]any, 40)...) // more than any has
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
