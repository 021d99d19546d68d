package scheduler

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
)

type cronCase struct {
	ID       string       `json:"id"`
	Expr     string       `json:"expr"`
	TZ       string       `json:"tz"`
	After    time.Time    `json:"after"`
	Expect   *[]time.Time `json:"expect"`
	Error    bool         `json:"error"`
	ErrorOK  bool         `json:"error_ok"`
	Never    bool         `json:"never"`
	Optional bool         `json:"optional"`
	Note     string       `json:"note"`
}

// The shared cases: `error` wants a refusal, `error_ok` allows one beside the
// expected instants, `optional` marks cases whose other answers are tolerated
// elsewhere. We hold ourselves to the first column of each.
func TestCronCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cron.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []cronCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 100 {
		t.Fatalf("only %d cases read", len(cases))
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.check(t)
			}()
			select {
			case <-done:
			case <-time.After(2 * time.Second):
				t.Fatalf("%q takes more than two seconds (%s)", c.Expr, c.Note)
			}
		})
	}
}

func (c cronCase) check(t *testing.T) {
	s, err := ParseSchedule(ScheduleSpec{Expressions: []string{c.Expr}, Timezone: c.TZ})
	if c.Error {
		if err == nil {
			t.Errorf("%q is accepted (%s)", c.Expr, c.Note)
		}
		return
	}
	if err != nil {
		t.Errorf("%q: %v (%s)", c.Expr, err, c.Note)
		return
	}
	at := c.After
	for i, want := range *c.Expect {
		got, ok := s.Next(at)
		if !ok || !got.Equal(want) {
			t.Errorf("%q in %s, instant %d after %v: %v (%v), want %v (%s)", c.Expr, c.TZ, i, c.After, got, ok, want, c.Note)
			return
		}
		at = got
	}
	checkSpan(t, s, c.After, at, *c.Expect)
}

// checkSpan checks every other question about (after, until] against the list
// of instants in it.
func checkSpan(t interface {
	Helper()
	Errorf(string, ...any)
}, s *Schedule, after, until time.Time, want []time.Time,
) {
	t.Helper()
	equal := func(a, b []time.Time) bool { return slices.EqualFunc(a, b, time.Time.Equal) }
	if got := s.Count(after, until); got != int64(len(want)) {
		t.Errorf("count in (%v, %v] is %d, want %d", after, until, got, len(want))
	}
	for _, n := range []int{0, 1, len(want) / 2, len(want), len(want) + 1} {
		k := min(n, len(want))
		if got := s.FirstN(after, until, n); !equal(got, want[:k]) {
			t.Errorf("first %d in (%v, %v] are %v, want %v", n, after, until, got, want[:k])
		}
		if got := s.LastN(after, until, n); !equal(got, want[len(want)-k:]) {
			t.Errorf("last %d in (%v, %v] are %v, want %v", n, after, until, got, want[len(want)-k:])
		}
	}
	for i, w := range want {
		if prev, ok := s.Prev(w); !ok || !prev.Equal(w) {
			t.Errorf("prev of %v is %v, %v", w, prev, ok)
		}
		if !s.Contains(w) || s.Contains(w.Add(time.Nanosecond)) {
			t.Errorf("contains is wrong at %v", w)
		}
		if prev, ok := s.Prev(w.Add(-time.Microsecond)); i > 0 && (!ok || !prev.Equal(want[i-1])) {
			t.Errorf("prev before %v is %v, %v, want %v", w, prev, ok, want[i-1])
		}
	}
}
