package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func parsed(t testing.TB, spec ScheduleSpec) *Schedule {
	t.Helper()
	s, err := ParseSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNextInstants(t *testing.T) {
	start, end := instant(t, "2026-01-01T00:00:10.25Z"), instant(t, "2026-01-01T00:01:40.25Z")
	midnight := instant(t, "2026-01-01T00:00:00Z")
	for _, c := range []struct {
		name  string
		spec  ScheduleSpec
		after string
		want  string // of the next ones, as far as they go
	}{
		{
			"seconds",
			ScheduleSpec{Expressions: []string{"10-50/20 59 23 * * *"}, Seconds: true},
			"2026-01-01T00:00:00Z",
			"2026-01-01T23:59:10Z 2026-01-01T23:59:30Z 2026-01-01T23:59:50Z 2026-01-02T23:59:10Z",
		},
		{
			"seconds go by minute and hour",
			ScheduleSpec{Expressions: []string{"*/20 30 2 * * *"}, Seconds: true, Timezone: "America/New_York"},
			"2025-03-09T00:00:00Z",
			"2025-03-09T07:00:00Z 2025-03-10T06:30:00Z 2025-03-10T06:30:20Z",
		},
		{
			"union of zones and kinds",
			ScheduleSpec{Expressions: []string{"TZ=Asia/Tokyo 0 9 * * *", "0 0 * * *", "@every 12h", "@at 2026-01-01T05:00:00+01:00"}},
			"2025-12-31T23:00:00Z",
			"2026-01-01T00:00:00Z 2026-01-01T04:00:00Z 2026-01-01T12:00:00Z 2026-01-02T00:00:00Z",
		},
		{
			"the file's zone yields",
			ScheduleSpec{Expressions: []string{"TZ=Asia/Tokyo 0 9 * * *", "0 9 * * *"}, Timezone: "Asia/Seoul", TimezoneIsDefault: true},
			"2026-01-01T00:00:00Z",
			"2026-01-02T00:00:00Z",
		},
		{
			"bounds are inclusive and anchor",
			ScheduleSpec{Expressions: []string{"@every 45s"}, StartAt: &start, EndAt: &end},
			"2020-01-01T00:00:00Z",
			"2026-01-01T00:00:10.25Z 2026-01-01T00:00:55.25Z 2026-01-01T00:01:40.25Z never",
		},
		{
			"fractions beside whole seconds",
			ScheduleSpec{Expressions: []string{"@every 45s", "* * * * *", "@at 2026-01-01T00:01:00.000001Z"}, StartAt: &start, EndAt: &end},
			"2020-01-01T00:00:00Z",
			"2026-01-01T00:00:10.25Z 2026-01-01T00:00:55.25Z 2026-01-01T00:01:00Z 2026-01-01T00:01:00.000001Z 2026-01-01T00:01:40.25Z never",
		},
		{
			"cron on its bounds",
			ScheduleSpec{Expressions: []string{"0 0 * * *"}, StartAt: &midnight, EndAt: &midnight},
			"2020-01-01T00:00:00Z",
			"2026-01-01T00:00:00Z never",
		},
		{
			"every before the epoch",
			ScheduleSpec{Expressions: []string{"@every 7h"}},
			"1969-12-31T12:00:00Z",
			"1969-12-31T17:00:00Z 1970-01-01T00:00:00Z 1970-01-01T07:00:00Z",
		},
		{
			"excluded dates",
			ScheduleSpec{Expressions: []string{"0 9 * * *", "@every 24h"}, Timezone: "Asia/Tokyo", Exclude: []string{"2026-12-24 .. 2026-12-26", "2026-12-25"}},
			"2026-12-22T23:00:00Z",
			"2026-12-23T00:00:00Z 2026-12-27T00:00:00Z",
		},
		{
			"excluded by the date after the move",
			ScheduleSpec{Expressions: []string{"30 23 * * *"}, Timezone: "America/Scoresbysund", Exclude: []string{"2025-03-30"}},
			"2025-03-28T12:00:00Z",
			"2025-03-29T01:30:00Z 2025-04-01T00:30:00Z",
		},
		{
			"not excluded by the date before the move",
			ScheduleSpec{Expressions: []string{"30 23 * * *"}, Timezone: "America/Scoresbysund", Exclude: []string{"2025-03-29"}},
			"2025-03-28T12:00:00Z",
			"2025-03-29T01:30:00Z 2025-03-30T01:00:00Z",
		},
		{
			"a date set back over midnight",
			ScheduleSpec{Expressions: []string{"*/30 * * * *"}, Timezone: "America/St_Johns", Exclude: []string{"2010-11-07"}},
			"2010-11-07T02:15:00Z",
			"2010-11-07T03:00:00Z 2010-11-08T03:30:00Z",
		},
		{
			"gap skipped",
			ScheduleSpec{Expressions: []string{"30 2 * * *"}, Timezone: "America/New_York", GapPolicy: "skip"},
			"2025-03-08T00:00:00Z",
			"2025-03-08T07:30:00Z 2025-03-10T06:30:00Z",
		},
		{
			"overlap both",
			ScheduleSpec{Expressions: []string{"30 1 * * *"}, Timezone: "America/New_York", OverlapPolicy: "both"},
			"2025-11-02T00:00:00Z",
			"2025-11-02T05:30:00Z 2025-11-02T06:30:00Z 2025-11-03T06:30:00Z",
		},
		{
			"overlap last",
			ScheduleSpec{Expressions: []string{"30 1 * * *"}, Timezone: "America/New_York", OverlapPolicy: "last"},
			"2025-11-02T00:00:00Z",
			"2025-11-02T06:30:00Z 2025-11-03T06:30:00Z",
		},
		{
			"policies leave recurring jobs alone",
			ScheduleSpec{Expressions: []string{"30 * * * *"}, Timezone: "America/New_York", OverlapPolicy: "last", GapPolicy: "skip"},
			"2025-11-02T05:00:00Z",
			"2025-11-02T05:30:00Z 2025-11-02T06:30:00Z 2025-11-02T07:30:00Z",
		},
		{
			"a day that comes twice",
			ScheduleSpec{Expressions: []string{"0 12 * * *"}, Timezone: "Pacific/Kwajalein"},
			"1969-09-29T00:00:00Z",
			"1969-09-29T01:00:00Z 1969-09-30T01:00:00Z 1969-10-02T00:00:00Z",
		},
		{
			"far beyond the tables",
			ScheduleSpec{Expressions: []string{"30 2 * * *"}, Timezone: "America/New_York"},
			"2149-03-08T00:00:00Z",
			"2149-03-08T07:30:00Z 2149-03-09T07:00:00Z 2149-03-10T06:30:00Z",
		},
		{
			"the last day of a leap year beyond the tables",
			ScheduleSpec{Expressions: []string{"0 12 31 12 *"}, Timezone: "Europe/Paris"},
			"2107-01-01T00:00:00Z",
			"2107-12-31T11:00:00Z 2108-12-31T11:00:00Z 2109-12-31T11:00:00Z",
		},
		{
			"rare days terminate",
			ScheduleSpec{Expressions: []string{"0 0 * 2 1#5"}},
			"2072-01-01T00:00:00Z",
			"2072-02-29T00:00:00Z 2112-02-29T00:00:00Z",
		},
		{
			"a time that its zone no longer shows",
			ScheduleSpec{Expressions: []string{"*/30 2 * 3 SUN#2"}, Timezone: "America/New_York"},
			"2026-01-01T00:00:00Z",
			"never",
		},
		{
			"the 29th where there is one",
			ScheduleSpec{Expressions: []string{"0 0 29W 2 *"}},
			"2025-01-01T00:00:00Z",
			"2028-02-29T00:00:00Z 2032-02-27T00:00:00Z",
		},
		{
			"working days stay in their month",
			ScheduleSpec{Expressions: []string{"0 0 1W,LW * *"}},
			"2026-07-31T12:00:00Z",
			"2026-08-03T00:00:00Z 2026-08-31T00:00:00Z 2026-09-01T00:00:00Z",
		},
		{
			"rules and plain days together",
			ScheduleSpec{Expressions: []string{"0 0 3,L * 5L,MON#2"}},
			"2026-11-01T12:00:00Z",
			"2026-11-03T00:00:00Z 2026-11-09T00:00:00Z 2026-11-27T00:00:00Z 2026-11-30T00:00:00Z",
		},
		{
			"a star makes it AND",
			ScheduleSpec{Expressions: []string{"0 0 */2 * 1"}},
			"2026-11-01T12:00:00Z",
			"2026-11-09T00:00:00Z 2026-11-23T00:00:00Z 2026-12-07T00:00:00Z",
		},
		{
			"a huge step",
			ScheduleSpec{Expressions: []string{"*/99999999999999999999 5/40 * * *"}},
			"2026-11-01T12:00:00Z",
			"2026-11-02T05:00:00Z",
		},
		{
			"the end of the calendar",
			ScheduleSpec{Expressions: []string{"59 23 31 12 *"}},
			"9999-01-01T00:00:00Z",
			"9999-12-31T23:59:00Z never",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, at := parsed(t, c.spec), instant(t, c.after)
			var got []string
			for range strings.Fields(c.want) {
				next, ok := s.Next(at)
				if !ok {
					got = append(got, "never")
					break
				}
				got, at = append(got, next.Format(time.RFC3339Nano)), next
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" {
				t.Errorf("%s", diff)
			}
			n := int64(len(got) - strings.Count(c.want, "never"))
			if count := s.Count(instant(t, c.after), at); count != n {
				t.Errorf("counted %d, want %d", count, n)
			}
		})
	}
}

// The zone and the clock of the instants passed in do not matter.
func TestNextIgnoresTheZoneOfItsArgument(t *testing.T) {
	s := parsed(t, ScheduleSpec{Expressions: []string{"0 9 * * *"}})
	at := instant(t, "2026-06-01T23:59:59.999999999-05:00")
	next, _ := s.Next(at.In(time.FixedZone("east", 14*3600)))
	if want := instant(t, "2026-06-02T09:00:00Z"); !next.Equal(want) || next.Location() != time.UTC {
		t.Errorf("got %v, want %v", next, want)
	}
}

func TestInstantsBeyondTheCalendar(t *testing.T) {
	s := parsed(t, ScheduleSpec{Expressions: []string{"0 0 1 1 *"}})
	ancient, remote := time.Unix(-1<<60, 0), time.Unix(1<<60, 0)
	if next, ok := s.Next(ancient); !ok || next.Year() != 1 {
		t.Errorf("first is %v, %v", next, ok)
	}
	if prev, ok := s.Prev(remote); !ok || prev.Year() != 9999 {
		t.Errorf("last is %v, %v", prev, ok)
	}
	if _, ok := s.Next(remote); ok {
		t.Error("there is one after the last")
	}
	if _, ok := s.Prev(ancient); ok {
		t.Error("there is one before the first")
	}
	if n := s.Count(ancient, remote); n != 9999 {
		t.Errorf("counted %d", n)
	}
	if n := s.Count(remote, ancient); n != 0 {
		t.Errorf("counted %d backwards", n)
	}
	if s.FirstN(ancient, remote, 0) != nil || s.LastN(ancient, remote, -1) != nil {
		t.Error("none asked for, some given")
	}
}

func TestLocation(t *testing.T) {
	for want, spec := range map[string]ScheduleSpec{
		"UTC":           {Expressions: []string{"@daily"}},
		"Asia/Seoul":    {Expressions: []string{"@daily", "@every 5s"}, Timezone: "Asia/Seoul"},
		"Asia/Tokyo":    {Expressions: []string{"TZ=Asia/Tokyo @daily", "CRON_TZ=Asia/Tokyo @hourly"}, Timezone: "Asia/Seoul", TimezoneIsDefault: true},
		"Europe/London": {Expressions: []string{"TZ=Asia/Tokyo @daily", "@hourly"}, Timezone: "Europe/London", TimezoneIsDefault: true},
	} {
		if got := parsed(t, spec).Location().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A stored spec is read back as the same schedule, the file's default zone
// included; and the default leaves no trace where it decides nothing.
func TestScheduleSpecRoundTrips(t *testing.T) {
	start := instant(t, "2026-01-01T09:00:00.5+09:00")
	for _, spec := range []ScheduleSpec{
		{Expressions: []string{"0 3 * * *"}},
		{Expressions: []string{"TZ=UTC 0 3 * * *", "0 4 * * *"}, Timezone: "Asia/Seoul", TimezoneIsDefault: true},
		{
			Expressions: []string{"* 0 3 * * *"}, Timezone: "Asia/Seoul", Seconds: true, StartAt: &start, EndAt: &start,
			Exclude: []string{"2026-12-25"}, GapPolicy: "skip", OverlapPolicy: "both",
		},
	} {
		data, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var got ScheduleSpec
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spec, got); diff != "" {
			t.Errorf("%s: %s", data, diff)
		}
	}
	data, err := json.Marshal(ScheduleSpec{Expressions: []string{"@daily"}, Timezone: "UTC", TimezoneIsDefault: true})
	if want := `{"expressions":["@daily"],"timezone":"UTC"}`; err != nil || string(data) != want {
		t.Errorf("got %s, %v", data, err)
	}
}

func TestScheduleNotes(t *testing.T) {
	start := instant(t, "2025-01-01T06:00:00Z")
	for _, c := range []struct {
		spec ScheduleSpec
		want []string
	}{
		{ScheduleSpec{Expressions: []string{"0 12 * * *"}, Timezone: "America/New_York"}, nil},
		{ScheduleSpec{Expressions: []string{"30 2 * * *"}, Timezone: "America/New_York"}, []string{
			`"30 2 * * *": the clock of America/New_York goes from 2025-03-09 02:00 to 03:00, which skips 02:30: fires once, right after, at 2025-03-09T07:00:00Z (unless dst_gap: skip)`,
		}},
		{ScheduleSpec{Expressions: []string{"0,20,40 2 * * *"}, Timezone: "America/New_York", GapPolicy: "skip"}, []string{
			`"0,20,40 2 * * *": the clock of America/New_York goes from 2025-03-09 02:00 to 03:00, which skips 02:00 and 2 more: does not fire (dst_gap: skip)`,
		}},
		{ScheduleSpec{Expressions: []string{"30 1 * * *"}, Timezone: "America/New_York"}, []string{
			`"30 1 * * *": the clock of America/New_York goes from 2025-11-02 02:00 to 01:00, which repeats 01:30: fires the first time, at 2025-11-02T05:30:00Z (unless dst_overlap: both or last)`,
		}},
		{ScheduleSpec{Expressions: []string{"30 1 * * *"}, Timezone: "America/New_York", OverlapPolicy: "last"}, []string{
			`"30 1 * * *": the clock of America/New_York goes from 2025-11-02 02:00 to 01:00, which repeats 01:30: fires the second time, at 2025-11-02T06:30:00Z (dst_overlap: last)`,
		}},
		{ScheduleSpec{Expressions: []string{"30 1 * * *"}, Timezone: "America/New_York", OverlapPolicy: "both"}, []string{
			`"30 1 * * *": the clock of America/New_York goes from 2025-11-02 02:00 to 01:00, which repeats 01:30: fires both times (dst_overlap: both)`,
		}},
		{ScheduleSpec{Expressions: []string{"30 1 * * *"}, Timezone: "America/New_York", Exclude: []string{"2025-11-02"}}, nil},
		{ScheduleSpec{Expressions: []string{"*/30 * * * *"}, Timezone: "America/New_York"}, []string{
			`"*/30 * * * *": the clock of America/New_York goes from 2025-03-09 02:00 to 03:00, which skips 02:00 and 1 more: does not fire, for a recurring schedule goes by real time`,
			`"*/30 * * * *": the clock of America/New_York goes from 2025-11-02 02:00 to 01:00, which repeats 01:00 and 1 more: fires both times, for a recurring schedule goes by real time`,
		}},
		{ScheduleSpec{Expressions: []string{"@every 24h"}}, []string{
			`@every 24h counts from 1970-01-01T00:00:00Z (start_at chooses another instant)`,
		}},
		{ScheduleSpec{Expressions: []string{"@every 24h"}, StartAt: &start}, []string{
			`@every 24h counts from start_at, 2025-01-01T06:00:00Z`,
		}},
	} {
		got := parsed(t, c.spec).Notes(instant(t, "2025-01-01T00:00:00Z"), instant(t, "2026-01-01T00:00:00Z"))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: %s", c.spec.Expressions, diff)
		}
	}
	apia := parsed(t, ScheduleSpec{Expressions: []string{"0 9 * * *"}, Timezone: "Pacific/Apia"})
	want := []string{`"0 9 * * *": the clock of Pacific/Apia goes from 2011-12-30 00:00 to 2011-12-31 00:00, which skips 09:00: does not fire, for a gap of more than three hours is not made up`}
	if diff := cmp.Diff(want, apia.Notes(instant(t, "2011-12-28T00:00:00Z"), instant(t, "2012-01-02T00:00:00Z"))); diff != "" {
		t.Error(diff)
	}
	if n := len(apia.Notes(instant(t, "0001-01-01T00:00:00Z"), instant(t, "9999-01-01T00:00:00Z"))); n > maxNotes {
		t.Errorf("%d notes", n)
	}
}

func TestJitterIsStableAndWithinItsBound(t *testing.T) {
	const bound = 30 * time.Second
	var sum time.Duration
	for i := range 10000 {
		key := fmt.Sprintf("job/t%d/2026-11-29T03:00:00Z", i)
		delay := Jitter(key, bound)
		if delay < 0 || delay >= bound || delay%time.Microsecond != 0 || delay != Jitter(key, bound) {
			t.Fatalf("jitter of %s is %v", key, delay)
		}
		sum += delay
	}
	if mean := sum / 10000; mean < 14*time.Second || mean > 16*time.Second {
		t.Errorf("mean is %v", mean)
	}
	if got := Jitter("nightly-report//2026-11-29T03:00:00Z", bound); got != 13157133*time.Microsecond {
		t.Errorf("jitter changed between releases: %v", got)
	}
	for _, none := range []time.Duration{0, -time.Second, time.Microsecond - 1} {
		if Jitter("key", none) != 0 {
			t.Errorf("jitter within %v is not 0", none)
		}
	}
}

func TestScheduleIsSafeForConcurrentUse(t *testing.T) {
	s := parsed(t, ScheduleSpec{Expressions: []string{"*/7 * * * *", "@every 61s"}, Timezone: "Europe/Paris"})
	after, until := instant(t, "2026-01-01T00:00:00Z"), instant(t, "2026-03-01T00:00:00Z")
	want := s.Count(after, until)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				if n := s.Count(after, until); n != want {
					t.Errorf("counted %d, want %d", n, want)
				}
				s.Next(after)
			}
		})
	}
	group.Wait()
}

// The contract bounds planning by days, not by instants.
func TestYearsOfSecondsCountInMilliseconds(t *testing.T) {
	for _, spec := range []ScheduleSpec{
		{Expressions: []string{"* * * * * *"}, Seconds: true, Timezone: "America/New_York"},
		{Expressions: []string{"@every 1s"}, Timezone: "America/New_York", Exclude: []string{"2026-12-25"}},
		{Expressions: []string{"* * * * * *", "@every 1s", "*/7 * * * * *"}, Seconds: true},
	} {
		s := parsed(t, spec)
		began := time.Now()
		n := s.Count(instant(t, "2026-01-01T00:00:00Z"), instant(t, "2036-01-01T00:00:00Z"))
		last := s.LastN(instant(t, "2026-01-01T00:00:00Z"), instant(t, "2036-01-01T00:00:00Z"), 1000)
		if took := time.Since(began); took > time.Second {
			t.Errorf("%v takes %v", spec.Expressions, took)
		}
		want := int64(3652 * 86400)
		if spec.Exclude != nil {
			want -= 86400
		}
		if n != want || len(last) != 1000 {
			t.Errorf("%v: counted %d, want %d", spec.Expressions, n, want)
		}
	}
}
