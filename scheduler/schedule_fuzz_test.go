package scheduler

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// No spec panics or hangs, every refusal says where, and of what is accepted
// the instants ascend and every other question agrees with them.
func FuzzSchedule(f *testing.F) {
	for _, expr := range []string{
		"* * * * *", "*/5 8-18 * * MON-FRI", "0 0 29 2 *", "30 2 * * *", "0 9 1,15 * 5", "0 0 L,15W * 5L,mon#2", "0 0 LW 2 ?",
		"0 0 * * 5-7/2", "*/15 2 * 3 SUN#2", "* * * * * *", "30 0 2 29 2 *", "@every 90s", "@every 2562047h", "@hourly",
		"@at 2026-12-24T18:00:00.000001Z", "@at 0001-01-01T00:00:00Z", "TZ=Asia/Kathmandu 0 9 * * *", "CRON_TZ=Pacific/Apia @daily",
		"TZ=UTC", "TZ=", "1,,2 * * * *", "*-foo * * * *", "+5 * * * *", "*/99999999999999999999 * * * *", "0 0 30 2 *", "0 0 29W 2 *",
		"@every 500ms", "@every 9223372036854775807ns", "0 0 31 12 *|@every 7s|CRON_TZ=America/St_Johns */2 * * * *", "１ * * * *", "0 9 * * *\n",
	} {
		f.Add(expr, "America/New_York", int64(1741485600), int64(0), uint8(0), "")
	}
	f.Add("0 0 31 12 *", "Pacific/Apia", int64(1325000000), int64(86400), uint8(3), "2011-12-30..2012-01-02")
	f.Add("30 2 * * *|@every 61s", "Africa/Monrovia", int64(63593069), int64(63000000), uint8(5), "1972-01-06")
	f.Add("* * * * * *", "Australia/Lord_Howe", int64(253402300799), int64(-62135596800), uint8(17), "0001-01-01..9999-12-30")
	f.Add("0 0 1 1 *", "Asia/Manila", int64(-3944621036), int64(0), uint8(34), "")
	f.Fuzz(func(t *testing.T, exprs, zone string, after, start int64, flags uint8, exclude string) {
		if len(exprs)+len(exclude) > 300 {
			return
		}
		spec := ScheduleSpec{
			Expressions: strings.Split(exprs, "|"), Timezone: zone, TimezoneIsDefault: true, Seconds: flags&16 != 0,
			GapPolicy:     []string{"", "skip"}[flags&1],
			OverlapPolicy: []string{"", "first", "both", "last"}[flags>>1&3],
		}
		if exclude != "" {
			spec.Exclude = strings.Split(exclude, "|")
		}
		if start != 0 {
			at := time.UnixMicro(start).UTC()
			spec.StartAt = &at
		}
		if flags&32 != 0 {
			at := time.Unix(after, 0).AddDate(0, 3, 0)
			spec.EndAt = &at
		}
		began := time.Now()
		exercise(t, spec, time.Unix(after, 1))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%+v takes %v", spec, took)
		}
	})
}

func exercise(t *testing.T, spec ScheduleSpec, after time.Time) {
	s, err := ParseSchedule(spec)
	if err != nil {
		for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
			var e *ScheduleError
			if !errors.As(fault, &e) || e.Msg == "" {
				t.Errorf("%+v: %v", spec, fault)
			} else if e.Field == "schedule" && len(spec.Expressions) > 0 && e.Offset > len(spec.Expressions[e.Index]) {
				t.Errorf("%+v: %v at %d", spec, fault, e.Offset)
			}
		}
		return
	}
	var fires []time.Time
	for at := after; len(fires) < 20; {
		next, ok := s.Next(at)
		if !ok {
			break
		}
		if !next.After(at) || next.Location() != time.UTC || next.Nanosecond()%1000 != 0 {
			t.Fatalf("%+v: next after %v is %v", spec, at, next)
		}
		fires, at = append(fires, next), next
	}
	if len(fires) > 0 {
		checkSpan(t, s, after, fires[len(fires)-1], fires)
	}
	s.Notes(after, after.AddDate(3, 0, 0))
	decades := [2]time.Time{after.AddDate(-20, 0, 0), after.AddDate(20, 0, 0)}
	n := s.Count(decades[0], decades[1])
	if n != s.Count(decades[0], after)+s.Count(after, decades[1]) {
		t.Errorf("%+v: counts do not add up", spec)
	}
	first, last := s.FirstN(decades[0], decades[1], 5), s.LastN(decades[0], decades[1], 5)
	if len(first) != len(last) || int64(len(first)) != min(n, 5) {
		t.Errorf("%+v: %d first, %d last of %d", spec, len(first), len(last), n)
	}
}
