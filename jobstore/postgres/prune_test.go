package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/jobstore"
)

func TestWhatOfATimeLineIsForgotten(t *testing.T) {
	at := func(i int) time.Time { return time.Unix(int64(i), 0).UTC() }
	ended := func(i int) oldRun { return oldRun{id: int64(i), fire: at(i), finished: at(i + 1)} }
	open := func(i int) oldRun { return oldRun{id: int64(i), fire: at(i)} }
	manual := func(i int) oldRun { r := ended(i); r.manual = true; return r }
	span := func(first, last, count int) jobstore.Range {
		return jobstore.Range{ID: int64(first), First: at(first), Last: at(last), Count: int64(count), RecordedAt: at(last)}
	}
	young := func(r jobstore.Range) jobstore.Range { r.RecordedAt = at(2000); return r }
	tests := []struct {
		name   string
		runs   []oldRun
		ranges []jobstore.Range
		each   int
		want   forgotten
		cut    bool
	}{
		{"nothing is there", nil, nil, 9, forgotten{}, false},
		{
			"all has ended",
			[]oldRun{ended(1), ended(2)},
			[]jobstore.Range{span(3, 9, 7)},
			9,
			forgotten{mark: at(9), count: 9, runs: []int64{1, 2}, ranges: []int64{3}},
			false,
		},
		{
			"targets of one instant count once",
			[]oldRun{ended(1), {id: 5, fire: at(1), finished: at(3)}},
			nil, 9,
			forgotten{mark: at(1), count: 1, runs: []int64{1, 5}},
			false,
		},
		{
			"an open run holds what comes after it",
			[]oldRun{ended(1), open(2), ended(3)},
			nil, 9,
			forgotten{mark: at(1), count: 1, runs: []int64{1}},
			false,
		},
		{"and its own instant", []oldRun{ended(1), {id: 9, fire: at(1)}}, nil, 9, forgotten{}, false},
		{
			"what ended lately stays",
			[]oldRun{ended(1), {id: 2, fire: at(2), finished: at(1000)}},
			nil, 9,
			forgotten{mark: at(1), count: 1, runs: []int64{1}},
			false,
		},
		{
			"a range around an open run stays whole",
			[]oldRun{ended(1), open(5)},
			[]jobstore.Range{span(2, 8, 6)},
			9,
			forgotten{mark: at(1), count: 1, runs: []int64{1}},
			false,
		},
		{
			"and moves the mark before a run in it",
			[]oldRun{ended(1), ended(3), open(5)},
			[]jobstore.Range{span(2, 8, 5)},
			9,
			forgotten{mark: at(1), count: 1, runs: []int64{1}},
			false,
		},
		{"and before a range that touches it", []oldRun{open(9)}, []jobstore.Range{span(1, 4, 3), span(3, 9, 5)}, 9, forgotten{}, false},
		{
			"a range recorded lately stays",
			[]oldRun{ended(1), ended(9)},
			[]jobstore.Range{young(span(3, 4, 2))},
			9,
			forgotten{mark: at(1), count: 1, runs: []int64{1}},
			false,
		},
		{"manual runs go by themselves", []oldRun{open(1), manual(2)}, nil, 9, forgotten{runs: []int64{2}}, false},
		{
			"an open manual run holds nothing",
			[]oldRun{{id: 1, fire: at(1), manual: true}, ended(2)},
			nil, 9,
			forgotten{mark: at(2), count: 1, runs: []int64{2}},
			false,
		},
		{
			"behind the last run that was read nothing is known",
			[]oldRun{ended(1), ended(2)},
			[]jobstore.Range{span(3, 4, 2)},
			2,
			forgotten{mark: at(2), count: 2, runs: []int64{1, 2}},
			true,
		},
		{
			"nor behind the last range",
			[]oldRun{ended(9)},
			[]jobstore.Range{span(1, 1, 1), span(2, 2, 1)},
			2,
			forgotten{mark: at(2), count: 2, ranges: []int64{1, 2}},
			true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			line := timeLine{runs: test.runs, ranges: test.ranges}
			got, cut := line.forget(at(1000), test.each)
			if d := cmp.Diff(test.want, got, cmp.AllowUnexported(forgotten{})); d != "" || cut != test.cut {
				t.Errorf("cut %v (-want +got):\n%s", cut, d)
			}
		})
	}
}
