package scheduler

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemarkd/tidemark/jobstore"
)

type misfireCase struct {
	ID        string      `json:"id"`
	Schedule  string      `json:"schedule"`
	TZ        string      `json:"tz"`
	LastFire  *time.Time  `json:"last_fire"`
	CreatedAt *time.Time  `json:"created_at"`
	ChangedAt *time.Time  `json:"schedule_changed_at"`
	Now       time.Time   `json:"now"`
	Grace     *float64    `json:"grace_seconds"`
	Coalesce  string      `json:"coalesce"`
	Run       []time.Time `json:"expect_run"`
	Skipped   int64       `json:"expect_skipped_count"`
	Missed    int64       `json:"expect_missed_total"`
	Expired   int64       `json:"expect_expired_count"`
	Coalesced int64       `json:"expect_coalesced_count"`
	Note      string      `json:"note"`
}

func (c misfireCase) input(t *testing.T) PlanInput {
	t.Helper()
	s, err := ParseSchedule(ScheduleSpec{Expressions: []string{c.Schedule}, Timezone: c.TZ})
	if err != nil {
		t.Fatal(err)
	}
	in := PlanInput{Schedule: s, Grace: Unlimited, Coalesce: jobstore.Coalesce(c.Coalesce), Now: c.Now}
	if c.Grace != nil {
		in.Grace = time.Duration(*c.Grace * float64(time.Second))
	}
	// What the store would hold: the newest of the last fire, the creation and
	// the schedule's change.
	for _, at := range []*time.Time{c.LastFire, c.CreatedAt, c.ChangedAt} {
		if at != nil && at.After(in.LastPlanned) {
			in.LastPlanned = *at
		}
	}
	return in
}

func TestMisfireCases(t *testing.T) {
	data, err := os.ReadFile("testdata/misfire.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []misfireCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			p := MakePlan(c.input(t))
			got := []time.Time{}
			for _, k := range p.Kept {
				got = append(got, k.FireTime)
			}
			if diff := cmp.Diff(c.Run, got); diff != "" {
				t.Errorf("%s: runs (-want +got)\n%s", c.Note, diff)
			}
			if p.Due != c.Missed || p.Expired != c.Expired || p.Coalesced != c.Coalesced || p.Expired+p.Coalesced != c.Skipped {
				t.Errorf("%s: due %d expired %d coalesced %d, want %d %d %d", c.Note, p.Due, p.Expired, p.Coalesced, c.Missed, c.Expired, c.Coalesced)
			}
		})
	}
}

// anyPlan draws a plan's input over a span short enough to enumerate.
func anyPlan(t *rapid.T) PlanInput {
	expr := rapid.SampledFrom([]string{
		"* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0 0 1 * *", "@every 90s", "@every 1h", "0 9 * * 1-5",
	}).Draw(t, "expr")
	zone := rapid.SampledFrom([]string{"UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"}).Draw(t, "zone")
	s, err := ParseSchedule(ScheduleSpec{Expressions: []string{expr}, Timezone: zone})
	if err != nil {
		t.Fatal(err)
	}
	base := time.Date(2025, 3, 8, 0, 0, 0, 0, time.UTC)
	last := base.Add(time.Duration(rapid.IntRange(0, 3*86400).Draw(t, "last")) * time.Second)
	in := PlanInput{
		Schedule: s, LastPlanned: last,
		Now:      last.Add(time.Duration(rapid.IntRange(-600, 2*86400).Draw(t, "gap")) * time.Second),
		Coalesce: rapid.SampledFrom([]jobstore.Coalesce{jobstore.CoalesceLatest, jobstore.CoalesceEarliest, jobstore.CoalesceAll}).Draw(t, "coalesce"),
		Grace:    time.Duration(rapid.SampledFrom([]int{1, 60, 3600, 86400, 0}).Draw(t, "grace")) * time.Second,
	}
	if in.Grace == 0 {
		in.Grace = Unlimited
	}
	if in.Coalesce == jobstore.CoalesceAll {
		in.CatchupMax = rapid.SampledFrom([]int{0, 1, 3, 100}).Draw(t, "max")
		in.Limit = rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "limit")
	}
	if rapid.Bool().Draw(t, "paused") {
		from := last.Add(time.Duration(rapid.IntRange(-3600, 86400).Draw(t, "from")) * time.Second)
		in.Passed = Interval{from, from.Add(time.Duration(rapid.IntRange(0, 86400).Draw(t, "length")) * time.Second)}
	}
	return in
}

// outcomes says, for each due instant, what the plan made of it.
func outcomes(t *rapid.T, in PlanInput, p Plan) map[time.Time]string {
	out := map[time.Time]string{}
	put := func(at time.Time, what string) {
		if was, twice := out[at]; twice {
			t.Fatalf("%v is %s and %s", at, was, what)
		}
		out[at] = what
	}
	for _, k := range p.Kept {
		put(k.FireTime, "run")
	}
	for _, r := range p.Ranges {
		n := int64(0)
		for at := r.First; !at.After(r.Last); n++ {
			put(at, string(r.Outcome)+" "+jobstore.FormatTime(r.Into))
			at, _ = in.Schedule.Next(at)
			if n > r.Count {
				break
			}
			if at.After(r.Last) {
				n++
				break
			}
		}
		if n != r.Count {
			t.Fatalf("range %+v holds %d instants", r, n)
		}
	}
	return out
}

func TestEveryDueInstantHasExactlyOneOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyPlan(t)
		p := MakePlan(in)
		got := outcomes(t, in, p)
		last, n := in.LastPlanned, int64(0)
		for at, ok := in.Schedule.Next(in.LastPlanned); ok && !at.After(p.LastPlanned); at, ok = in.Schedule.Next(at) {
			if got[at] == "" {
				t.Fatalf("%v has no outcome", at)
			}
			if late := in.Now.Sub(at); in.Grace != Unlimited && late > in.Grace && got[at] == "run" {
				t.Fatalf("%v runs though it is %v late", at, late)
			}
			last = at
			n++
		}
		if int64(len(got)) != n || p.Due != n || !p.LastPlanned.Equal(last) {
			t.Fatalf("%d outcomes and due %d for %d instants, last planned %v", len(got), p.Due, n, p.LastPlanned)
		}
		if !p.More {
			if at, ok := in.Schedule.Next(p.LastPlanned); ok && !at.After(in.Now) && in.Now.After(in.LastPlanned) {
				t.Fatalf("%v was left without a reason", at)
			}
		}
		covers := int64(0)
		for _, k := range p.Kept {
			covers += k.Covers
		}
		if covers != int64(len(p.Kept))+p.Coalesced {
			t.Fatalf("runs cover %d of %d instants", covers, int64(len(p.Kept))+p.Coalesced)
		}
	})
}

func TestASecondPlanChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyPlan(t)
		in.Limit = 0
		p := MakePlan(in)
		in.LastPlanned = p.LastPlanned
		again := MakePlan(in)
		if again.Due != 0 || len(again.Kept) != 0 || len(again.Ranges) != 0 || !again.Next.Equal(p.Next) || !again.LastPlanned.Equal(p.LastPlanned) {
			t.Fatalf("second plan: %+v", again)
		}
	})
}

func TestPlanningInStepsEqualsPlanningAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyPlan(t)
		in.Coalesce, in.CatchupMax, in.Grace, in.Limit = jobstore.CoalesceAll, 0, Unlimited, 0
		whole := outcomes(t, in, MakePlan(in))

		limit := rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "step limit")
		end := in.Now
		parts := map[time.Time]string{}
		step := func(now time.Time) {
			in.Now, in.Limit = now, limit
			for more := true; more; {
				p := MakePlan(in)
				for at, what := range outcomes(t, in, p) {
					parts[at] = what
				}
				in.LastPlanned, more = p.LastPlanned, p.More
			}
		}
		if gap := end.Sub(in.LastPlanned); gap > 0 {
			step(in.LastPlanned.Add(time.Duration(rapid.Int64Range(0, int64(gap)).Draw(t, "middle"))))
		}
		step(end)
		if diff := cmp.Diff(whole, parts); diff != "" {
			t.Fatalf("in steps (-whole +steps)\n%s", diff)
		}
	})
}

func TestWindowOfARunEndsAtTheNewestInstantItCovers(t *testing.T) {
	c := misfireCase{Schedule: "* * * * *", TZ: "UTC", Coalesce: "earliest", LastFire: &time.Time{}}
	*c.LastFire = time.Date(2025, 6, 10, 8, 0, 0, 0, time.UTC)
	c.Now = c.LastFire.Add(10*time.Minute + 30*time.Second)
	p := MakePlan(c.input(t))
	if want := c.LastFire.Add(10 * time.Minute); len(p.Kept) != 1 || !p.Kept[0].WindowTo.Equal(want) || p.Kept[0].Covers != 10 {
		t.Fatalf("earliest: %+v, want a window to %v", p.Kept, want)
	}
	c.Coalesce = "latest"
	p = MakePlan(c.input(t))
	if k := p.Kept[0]; !k.WindowTo.Equal(k.FireTime) || k.Covers != 10 {
		t.Fatalf("latest: %+v", k)
	}
}

func BenchmarkPlanYearOfSeconds(b *testing.B) {
	s, err := ParseSchedule(ScheduleSpec{Expressions: []string{"* * * * * *"}, Seconds: true, Timezone: "America/New_York"})
	if err != nil {
		b.Fatal(err)
	}
	last := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []jobstore.Coalesce{jobstore.CoalesceLatest, jobstore.CoalesceAll} {
		b.Run(string(c), func(b *testing.B) {
			for b.Loop() {
				p := MakePlan(PlanInput{Schedule: s, Grace: time.Hour, Coalesce: c, CatchupMax: 100, LastPlanned: last, Now: last.AddDate(1, 0, 0)})
				if p.Due != 365*86400 {
					b.Fatal(p.Due)
				}
			}
		})
	}
}
