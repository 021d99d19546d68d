package scheduler

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	hintSix   = "(for short intervals use @every, or set seconds: true on the job, which makes the first of six fields seconds)"
	hintDay   = "(L is the last day, LW the last working day, 15W the working day nearest to the 15th; they take no range and no step)"
	hintEvery = "(a day is not always 24 hours: write @every 24h for exactly that, @daily or a cron expression for days of the calendar)"
)

// What a wrong expression is answered with, and at which byte.
func TestScheduleErrorsSayWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct {
		expr   string
		offset int
		text   string
	}{
		{"", 0, `schedule: empty schedule (write a cron expression such as "0 3 * * *")`},
		{"* * * *", 0, "schedule: 4 fields where 5 are expected (minute hour day-of-month month day-of-week)"},
		{"* * * * * *", 0, "schedule: 6 fields where 5 are expected: seconds in front, a year or a user behind look alike " + hintSix},
		{"60 * * * *", 0, `schedule: minute: "60" is out of range 0-59`},
		{"  0  24 * * *", 5, `schedule: hour: "24" is out of range 0-23`},
		{"* * * * 1,8", 10, `schedule: day of week: "8" is out of range 0-7`},
		{"*/0 * * * *", 0, "schedule: minute: step of zero (the least step is 1)"},
		{"0 22-2 * * *", 2, `schedule: hour: range "22-2" runs backwards (write 22-23,0-2)`},
		{"0 0 * * FRI-SUN", 8, `schedule: day of week: range "FRI-SUN" runs backwards (write 5-7)`},
		{"0 0 * * FRI-MON", 8, `schedule: day of week: range "FRI-MON" runs backwards (write 5-7,1)`},
		{"0 0 * nov-feb *", 6, `schedule: month: range "nov-feb" runs backwards (write 11-12,1-2)`},
		{"1-2-3 * * * *", 0, `schedule: minute: more than one hyphen in "1-2-3" (write ranges as a list, as in 1-2,4-6)`},
		{"1/2/3 * * * *", 0, "schedule: minute: more than one slash (write one step, as in */5)"},
		{"*/ * * * *", 0, "schedule: minute: slash without a step (write it as in */5)"},
		{"*/x * * * *", 0, `schedule: minute: step "x" is not a number`},
		{"/5 * * * *", 0, `schedule: minute: "" is not a number`},
		{"5- * * * *", 0, `schedule: minute: range "5-" has no end`},
		{"-5 * * * *", 0, `schedule: minute: range "-5" has no beginning (numbers are not signed)`},
		{"1,,2 * * * *", 2, "schedule: minute: empty list entry (remove the comma)"},
		{"+5 * * * *", 0, `schedule: minute: "+5" is not a number`},
		{"*-foo * * * *", 0, `schedule: minute: "*-foo" is not understood (a star stands alone or before a step, as in */5)`},
		{"5* * * * *", 0, `schedule: minute: "5*" is not understood (a star stands alone or before a step, as in */5)`},
		{"* * * january *", 6, `schedule: month: "january" is not a name (names have three letters: did you mean jan?)`},
		{"* * * * xyz", 8, `schedule: day of week: "xyz" is neither a number nor a name (names are sun to sat)`},
		{"H/5 * * * *", 0, `schedule: minute: "H" is not a number (there are no hashed values here: choose a number, and spread starts with jitter:)`},
		{"１ * * * *", 0, `schedule: character '\uff11' (U+FF11) has no place in a schedule (write plain ASCII)`},
		{"0\u00a09 * * *", 1, `schedule: character '\u00a0' (U+00A0) has no place in a schedule (write plain ASCII)`},
		{"0 9 * * *\n0 10 * * *", 9, "schedule: line break in a schedule (write several expressions as a list)"},
		{"0 0 L-3 * *", 4, `schedule: day of month: "L-3" is not understood ` + hintDay},
		{"0 0 32W * *", 4, `schedule: day of month: "32W" is out of range 1W-31W`},
		{"0 0 * * L", 8, "schedule: day of week: L alone is no day of week (5L is the last Friday of the month; the last day of the month is L in day of month)"},
		{"0 0 * * MON#6", 8, `schedule: day of week: "6" is out of range #1-#5 (MON#2 is the second Monday of the month; the last one is MONL)`},
		{"0 0 30 2 *", 4, "schedule: never fires: no month that it names has such a day (check day of month and month)"},
		{"0 0 31W 2,4 *", 4, "schedule: never fires: no month that it names has such a day (check day of month and month)"},
		{"@every", 6, "schedule: @every without a duration (write it as in @every 90s)"},
		{"@every 5", 7, `schedule: "5" is not a duration (give a unit, as in @every 5s)`},
		{"@every 500ms", 7, "schedule: @every below one second (the least is @every 1s)"},
		{"@every 1500ms", 7, `schedule: @every is not whole seconds (round "1500ms" to seconds)`},
		{"@every 1d", 7, `schedule: "1d" is not a duration ` + hintEvery},
		{"@every -5s", 7, `schedule: signed duration "-5s" (write it without a sign)`},
		{"@every1h", 0, `schedule: unknown form "@every1h" (write a blank after @every, as in @every 90s)`},
		{"@reboot", 0, `schedule: unknown form "@reboot" (a job fires at instants, not at start-up: leave that to the init system)`},
		{"@Daily", 0, `schedule: unknown form "@Daily" (did you mean @daily?)`},
		{"@after 5m", 0, `schedule: unknown form "@after" (@after, counted from the end of the previous run, is not part of this version: write @every)`},
		{"@daily 5", 6, "schedule: @daily stands alone"},
		{"@at", 3, "schedule: @at without an instant (write it as in @at 2026-12-24T18:00:00Z or @at 2026-12-24T18:00:00+01:00)"},
		{"@at 2026-12-24T18:00:00", 4, `schedule: "2026-12-24T18:00:00" is not an RFC 3339 instant (write it as in @at 2026-12-24T18:00:00Z or @at 2026-12-24T18:00:00+01:00)`},
		{"@at 2026-12-24T18:00:00.1234567Z", 4, "schedule: finer than a microsecond (give at most six decimals of a second)"},
		{"@at 9999-12-31T23:59:59-12:00", 4, "schedule: year outside 0001 to 9999"},
		{"TZ=UTC", 6, `schedule: zone without a schedule (write a cron expression after it, such as "0 3 * * *")`},
		{"TZ= 0 9 * * *", 3, "schedule: no zone named (write an IANA name such as Europe/Paris, or UTC)"},
		{"CRON_TZ=europe/paris 0 9 * * *", 8, `schedule: unknown zone "europe/paris" (did you mean Europe/Paris?)`},
		{"TZ=../../etc/passwd 0 9 * * *", 3, `schedule: unknown zone "../../etc/passwd" (write an IANA name such as Europe/Paris, or UTC)`},
		{"tz=UTC 0 9 * * *", 0, `schedule: "tz=" in the wrong letter case (write TZ=)`},
		{"TZ=UTC TZ=UTC 0 9 * * *", 7, "schedule: two zones in one expression (keep one of them)"},
	} {
		_, err := ParseSchedule(ScheduleSpec{Expressions: []string{c.expr}})
		var fault *ScheduleError
		switch {
		case !errors.As(err, &fault):
			t.Errorf("%q: %v", c.expr, err)
		case err.Error() != c.text || fault.Offset != c.offset || fault.Field != "schedule":
			t.Errorf("%q:\n got %s, at %d\nwant %s, at %d", c.expr, err, fault.Offset, c.text, c.offset)
		}
	}
}

func TestScheduleErrorsInOtherFields(t *testing.T) {
	at := func(text string) *time.Time {
		instant, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return &instant
	}
	daily := []string{"0 3 * * *"}
	for _, c := range []struct {
		spec ScheduleSpec
		text string
	}{
		{ScheduleSpec{}, `schedule: no schedule (write a cron expression such as "0 3 * * *")`},
		{ScheduleSpec{Expressions: daily, Timezone: "IST"}, `timezone: unknown zone "IST" (an abbreviation is not a zone, more than one may share it: write an IANA name such as Asia/Kolkata)`},
		{ScheduleSpec{Expressions: []string{"@daily", "TZ=UTC @daily"}, Timezone: "UTC"}, "schedule[1]: zone in the expression and timezone: as well (keep one of them)"},
		{ScheduleSpec{Expressions: []string{"0 3 * * *"}, Seconds: true}, `schedule: 5 fields, but with seconds: true the first of 6 is the second (put "0" in front for second 0)`},
		{ScheduleSpec{Expressions: daily, StartAt: at("2026-01-02T00:00:00Z"), EndAt: at("2026-01-01T00:00:00Z")}, "end_at: end_at is before start_at (nothing could ever fire)"},
		{ScheduleSpec{Expressions: daily, StartAt: at("2026-01-02T00:00:00.0000001Z")}, "start_at: finer than a microsecond (give at most six decimals of a second)"},
		{ScheduleSpec{Expressions: daily, StartAt: at("2026-01-02T04:00:00Z"), EndAt: at("2026-01-03T02:00:00Z")}, "end_at: never fires: no fire time lies between start_at and end_at"},
		{ScheduleSpec{Expressions: []string{"@at 2026-01-01T00:00:00Z"}, StartAt: at("2026-01-02T00:00:00Z")}, "start_at: never fires: no fire time lies after start_at"},
		{ScheduleSpec{Expressions: []string{"@at 2026-01-01T00:00:00Z"}, EndAt: at("2025-01-02T00:00:00Z")}, "end_at: never fires: no fire time lies before end_at"},
		{ScheduleSpec{Expressions: []string{"@at 2026-01-01T00:00:00Z"}, Exclude: []string{"2025-12-31", "2026-01-01"}}, "exclude: never fires: every fire time lies on an excluded date (exclude less)"},
		{ScheduleSpec{Expressions: daily, Exclude: []string{"2026-02-30"}}, `exclude: "2026-02-30" is not a date (write 2026-12-25 or 2026-12-24..2026-12-26)`},
		{ScheduleSpec{Expressions: daily, Exclude: []string{"2026-01-01", "2026-1-2"}}, `exclude[1]: "2026-1-2" is not a date (write 2026-12-25 or 2026-12-24..2026-12-26)`},
		{ScheduleSpec{Expressions: daily, Exclude: []string{"2026-01-02..2026-01-01"}}, "exclude: the range ends before it begins (write the earlier date first)"},
		{ScheduleSpec{Expressions: daily, GapPolicy: "run"}, `dst_gap: unknown policy "run" (leave it out to fire once after the gap, or write skip)`},
		{ScheduleSpec{Expressions: daily, OverlapPolicy: "all"}, `dst_overlap: unknown policy "all" (write first, both or last)`},
	} {
		if _, err := ParseSchedule(c.spec); err == nil || err.Error() != c.text {
			t.Errorf("%+v:\n got %v\nwant %s", c.spec, err, c.text)
		}
	}
}

// One fault hides no other.
func TestParseScheduleReportsEveryFault(t *testing.T) {
	_, err := ParseSchedule(ScheduleSpec{
		Expressions: []string{"60 25 32 13 8", "@daily", "@every 1d", "1,,70-x * * * *"},
		Timezone:    "Nowhere", Exclude: []string{"soon"}, GapPolicy: "x", OverlapPolicy: "y",
	})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 5+1+2+4 {
		t.Fatalf("want twelve faults, got %v", err)
	}
	for _, fault := range joined.Unwrap() {
		if _, ok := fault.(*ScheduleError); !ok {
			t.Errorf("%v is no *ScheduleError", fault)
		}
	}
}

func TestLongInputIsCutInMessages(t *testing.T) {
	_, err := ParseSchedule(ScheduleSpec{Expressions: []string{"* * * * " + strings.Repeat("x", 5000)}})
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("got %v", err)
	}
}
