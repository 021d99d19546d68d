package scheduler

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyChange draws a zone and an instant near one of the changes of its clock,
// by the standard library alone.
func anyChange(t *rapid.T) (*time.Location, time.Time) {
	names := strings.Fields(zoneNames)
	odd := []string{
		"Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Africa/Monrovia", "Asia/Kathmandu",
		"Antarctica/Troll", "America/Havana", "Pacific/Kwajalein", "Europe/Dublin", "Africa/Casablanca", "America/Santiago",
		"America/Juneau", "Asia/Tehran", "Antarctica/Macquarie", "Pacific/Kiritimati", "America/New_York", "UTC",
	}
	name := rapid.OneOf(rapid.SampledFrom(names), rapid.SampledFrom(odd)).Draw(t, "zone")
	loc, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(rapid.Int64Range(-4e9, 5e9).Draw(t, "at"), 0).In(loc)
	if start, end := at.ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(t, "end") {
		at = end
	} else if !start.IsZero() {
		at = start
	}
	return loc, at
}

// The engine and the slow reference agree on every instant around changes of
// the clock: Next, Prev, Count, FirstN, LastN and Contains.
func TestScheduleAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, change := anyChange(t)
		spec := ScheduleSpec{
			Timezone:          loc.String(),
			TimezoneIsDefault: true,
			Seconds:           rapid.IntRange(0, 3).Draw(t, "seconds") == 0,
			GapPolicy:         rapid.SampledFrom([]string{"", "", "skip"}).Draw(t, "gap"),
			OverlapPolicy:     rapid.SampledFrom([]string{"", "", "first", "both", "last"}).Draw(t, "overlap"),
		}
		hours, step := []int64{1, 3, 12, 26, 40}, int64(60)
		if spec.Seconds || oddOffsets(loc, change) {
			hours, step = []int64{1, 2, 3}, 1
		}
		some := rapid.Map(rapid.SampledFrom(hours), func(h int64) int64 { return h*3600 - rapid.Int64Range(0, 3600).Draw(t, "less") })
		after := time.Unix(change.Unix()-some.Draw(t, "before"), rapid.SampledFrom([]int64{0, 1, 5e8}).Draw(t, "fraction"))
		until := after.Add(time.Duration(2*some.Draw(t, "length")) * time.Second)
		spec.Exclude, spec.StartAt, spec.EndAt = anyLimits(t, change)

		want := map[int64]bool{}
		for range rapid.IntRange(1, 3).Draw(t, "expressions") {
			text, fires := anyExpression(t, &spec, change, after, until, step)
			spec.Expressions = append(spec.Expressions, text)
			maps.Copy(want, fires)
		}
		t.Logf("%+v after %v until %v", spec, after, until)
		s, err := ParseSchedule(spec)
		if err != nil {
			onlyNeverFires(t, err)
			return
		}
		checkSpan(t, s, after, until, inOrder(want, after, until))
		checkEnumeration(t, s, after, until, inOrder(want, after, until))
		s.Notes(after, until)
	})
}

// Times of day right at a change of the clock, where the policies decide.
func TestFixedTimesAtChangesAgreeWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, change := anyChange(t)
		spec := ScheduleSpec{
			Timezone:      loc.String(),
			GapPolicy:     rapid.SampledFrom([]string{"", "", "skip"}).Draw(t, "gap"),
			OverlapPolicy: rapid.SampledFrom([]string{"", "both", "last"}).Draw(t, "overlap"),
		}
		hours := rapid.SliceOfN(rapid.IntRange(-3, 3), 1, 4).Draw(t, "hours")
		for i, h := range hours {
			hours[i] = (change.Hour() + h + 24) % 24
		}
		minute := rapid.OneOf(rapid.IntRange(0, 59), rapid.Just(change.Minute()))
		minutes := rapid.SliceOfN(minute, 1, 4).Draw(t, "minutes")
		r := referenceCron{text: fmt.Sprintf("%s %s * * *", listed(minutes), listed(hours))}
		everything := func(time.Time) bool { return true }
		r.matches = [6]func(time.Time) bool{
			func(l time.Time) bool { return l.Second() == 0 },
			func(l time.Time) bool { return slices.Contains(minutes, l.Minute()) },
			func(l time.Time) bool { return slices.Contains(hours, l.Hour()) },
			everything, everything, everything,
		}
		r.star = [6]bool{3: true, 5: true}
		if rapid.IntRange(0, 4).Draw(t, "one date") == 0 {
			day := change.Day()
			r.text = fmt.Sprintf("%s %s %d * *", listed(minutes), listed(hours), day)
			r.matches[3] = func(l time.Time) bool { return l.Day() == day }
		}
		step := int64(60)
		if oddOffsets(loc, change) {
			step = 1
		}
		after := change.Add(-6 * time.Hour)
		until := change.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 6, 27}).Draw(t, "behind")) * time.Hour)
		want := r.fires(loc, spec, after, until, step)
		if rapid.IntRange(0, 4).Draw(t, "excluding") == 0 {
			spec.Exclude = []string{change.Format(time.DateOnly)}
			maps.DeleteFunc(want, func(u int64, _ bool) bool {
				return time.Unix(u, 0).In(loc).Format(time.DateOnly) == spec.Exclude[0]
			})
		}
		spec.Expressions = []string{r.text}
		t.Logf("%+v after %v until %v", spec, after, until)
		s, err := ParseSchedule(spec)
		if err != nil {
			t.Fatal(err)
		}
		checkSpan(t, s, after, until, inOrder(want, after, until))
		checkEnumeration(t, s, after, until, inOrder(want, after, until))
	})
}

func listed(values []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(values)), ","), "[]")
}

// The day fields, over eight years in which every kind of month occurs.
func TestDaysAgreeWithReference(t *testing.T) {
	begin := time.Date(2023, 12, 31, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		near := begin.AddDate(0, 0, rapid.IntRange(0, 400).Draw(t, "near"))
		r := anyCron(t, near, false)
		s, err := ParseSchedule(ScheduleSpec{Expressions: []string{"0 0 " + strings.Join(strings.Fields(r.text)[2:], " ")}})
		if err != nil {
			onlyNeverFires(t, err)
			return
		}
		r.matches[1] = func(l time.Time) bool { return l.Minute() == 0 }
		r.matches[2] = func(l time.Time) bool { return l.Hour() == 0 }
		want := map[int64]bool{}
		for day := range 3000 {
			if at := time.Date(2024, 1, 1+day, 0, 0, 0, 0, time.UTC); r.match(at) {
				want[at.Unix()] = true
			}
		}
		until := begin.AddDate(0, 0, 3000)
		t.Log(r.text)
		checkSpan(t, s, begin, until, inOrder(want, begin, until))
		checkEnumeration(t, s, begin, until, inOrder(want, begin, until))
	})
}

// anyExpression draws an expression, and says when it fires in (after, until]
// within the limits of the spec.
func anyExpression(t *rapid.T, spec *ScheduleSpec, near, after, until time.Time, step int64) (string, map[int64]bool) {
	loc := near.Location()
	fires := map[int64]bool{}
	text := ""
	switch rapid.IntRange(0, 6).Draw(t, "form") {
	case 0:
		period := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 100000)).Draw(t, "period")
		text = fmt.Sprintf("@every %ds", period)
		anchor := int64(0)
		if spec.StartAt != nil {
			anchor = spec.StartAt.Unix()
		}
		for u := after.Unix(); u <= until.Unix(); u++ {
			if (u-anchor)%period == 0 {
				fires[u] = true
			}
		}
	case 1:
		at := after.Add(time.Duration(rapid.Int64Range(-10, 4000).Draw(t, "one shot")) * time.Second)
		text = "@at " + at.Truncate(time.Second).UTC().Format(time.RFC3339)
		fires[at.Unix()] = true
	default:
		r := anyCron(t, near, spec.Seconds)
		text = r.text
		fires = r.fires(loc, *spec, after, until, step)
	}
	maps.DeleteFunc(fires, func(u int64, _ bool) bool {
		at := time.Unix(u, 0).In(loc)
		return spec.StartAt != nil && at.Before(*spec.StartAt) || spec.EndAt != nil && at.After(*spec.EndAt) ||
			slices.Contains(spec.Exclude, at.Format(time.DateOnly))
	})
	return text, fires
}

func anyLimits(t *rapid.T, change time.Time) (exclude []string, start, end *time.Time) {
	for range rapid.IntRange(0, 4).Draw(t, "excluded") / 2 {
		exclude = append(exclude, change.AddDate(0, 0, rapid.IntRange(-1, 1).Draw(t, "day")).Format(time.DateOnly))
	}
	near := rapid.Custom(func(t *rapid.T) *time.Time {
		at := change.Add(time.Duration(rapid.Int64Range(-9000, 9000).Draw(t, "away")) * time.Second)
		return &at
	})
	if rapid.IntRange(0, 4).Draw(t, "started") == 0 {
		start = near.Draw(t, "start")
	}
	if rapid.IntRange(0, 4).Draw(t, "ended") == 0 {
		end = near.Draw(t, "end")
	}
	return exclude, start, end
}

// onlyNeverFires checks that a drawn spec was refused for no other reason.
func onlyNeverFires(t *rapid.T, err error) {
	if text := err.Error(); !strings.Contains(text, "never fires") && !strings.Contains(text, "before start_at") {
		t.Fatal(err)
	}
}

// oddOffsets reports whether an offset near the change is not whole minutes.
func oddOffsets(loc *time.Location, change time.Time) bool {
	for hours := -100; hours <= 100; hours += 4 {
		if _, offset := change.Add(time.Duration(hours) * time.Hour).In(loc).Zone(); offset%60 != 0 {
			return true
		}
	}
	return change.Unix()%60 != 0
}

func inOrder(fires map[int64]bool, after, until time.Time) []time.Time {
	var list []time.Time
	for _, u := range slices.Sorted(maps.Keys(fires)) {
		if at := time.Unix(u, 0).UTC(); at.After(after) && !at.After(until) {
			list = append(list, at)
		}
	}
	return list
}

// checkEnumeration checks that Next and Prev, called again and again, find the
// instants of (after, until] and no others.
func checkEnumeration(t *rapid.T, s *Schedule, after, until time.Time, want []time.Time) {
	at := after
	for _, w := range want {
		got, ok := s.Next(at)
		if !ok || !got.Equal(w) {
			t.Fatalf("next after %v is %v, %v, want %v", at, got, ok, w)
		}
		at = got
	}
	if got, ok := s.Next(at); ok && !got.After(until) {
		t.Fatalf("next after %v is %v, want none until %v", at, got, until)
	}
	at = until
	for _, w := range slices.Backward(want) {
		got, ok := s.Prev(at)
		if !ok || !got.Equal(w) {
			t.Fatalf("prev at %v is %v, %v, want %v", at, got, ok, w)
		}
		at = got.Add(-time.Microsecond)
	}
	if got, ok := s.Prev(at); ok && got.After(after) {
		t.Fatalf("prev at %v is %v, want none after %v", at, got, after)
	}
}

// Over long spans, counts add up, and agree with walking by Next.
func TestCountsOverYearsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, change := anyChange(t)
		spec := ScheduleSpec{Timezone: loc.String()}
		spec.Exclude, spec.StartAt, spec.EndAt = anyLimits(t, change)
		for range rapid.IntRange(1, 3).Draw(t, "expressions") {
			text := anyCron(t, change, false).text
			if period := rapid.IntRange(-50000, 50000).Draw(t, "period"); period > 2000 {
				text = fmt.Sprintf("@every %ds", period)
			}
			spec.Expressions = append(spec.Expressions, text)
		}
		s, err := ParseSchedule(spec)
		if err != nil {
			onlyNeverFires(t, err)
			return
		}
		days := rapid.SampledFrom([]int{0, 2, 20, 200, 1500})
		after := change.AddDate(0, 0, -days.Draw(t, "before"))
		until := change.AddDate(0, 0, days.Draw(t, "behind"))
		middle := after.Add(time.Duration(rapid.Float64Range(0, 1).Draw(t, "middle") * float64(until.Sub(after))))
		n := s.Count(after, until)
		if a, b := s.Count(after, middle), s.Count(middle, until); a+b != n {
			t.Fatalf("%v: %d + %d is not %d", spec, a, b, n)
		}
		if n > 20000 {
			return
		}
		if fires := s.FirstN(after, until, math.MaxInt); int64(len(fires)) != n {
			t.Fatalf("%v: %d instants counted as %d", spec, len(fires), n)
		} else if last := s.LastN(after, until, math.MaxInt); !slices.Equal(fires, last) {
			t.Fatalf("%v: first and last differ", spec)
		}
	})
}
