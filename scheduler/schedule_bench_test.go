package scheduler

import (
	"testing"
	"time"
)

func benchSchedule(b *testing.B, spec ScheduleSpec) *Schedule {
	b.Helper()
	s, err := ParseSchedule(spec)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

var benchTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		benchSchedule(b, ScheduleSpec{Expressions: []string{"*/5 8-18 * * MON-FRI"}, Timezone: "Europe/Paris"})
	}
}

func BenchmarkNext(b *testing.B) {
	for name, spec := range map[string]ScheduleSpec{
		"minute":       {Expressions: []string{"* * * * *"}},
		"second":       {Expressions: []string{"* * * * * *"}, Seconds: true, Timezone: "America/New_York"},
		"daily":        {Expressions: []string{"30 2 * * *"}, Timezone: "America/New_York"},
		"leap":         {Expressions: []string{"0 0 29 2 *"}, Timezone: "Europe/Paris"},
		"leap-workday": {Expressions: []string{"0 0 29W 2 *", "0 0 * 2 1#5"}, Timezone: "Europe/Paris"},
		"every":        {Expressions: []string{"@every 90s"}},
	} {
		b.Run(name, func(b *testing.B) {
			s := benchSchedule(b, spec)
			for b.Loop() {
				s.Next(benchTime)
			}
		})
		b.Run(name+"/prev", func(b *testing.B) {
			s := benchSchedule(b, spec)
			for b.Loop() {
				s.Prev(benchTime)
			}
		})
	}
}

// A schedule that has no fire time left is searched to the end of the calendar.
func BenchmarkNextOfExhausted(b *testing.B) {
	s := benchSchedule(b, ScheduleSpec{Expressions: []string{"*/30 2 * 3 SUN#2"}, Timezone: "America/New_York"})
	for b.Loop() {
		if _, ok := s.Next(benchTime); ok {
			b.Fatal("02:00 does not exist on the second Sunday of March")
		}
	}
}

func BenchmarkCountYearOfSeconds(b *testing.B) {
	for name, spec := range map[string]ScheduleSpec{
		"cron":  {Expressions: []string{"* * * * * *"}, Seconds: true, Timezone: "America/New_York"},
		"every": {Expressions: []string{"@every 1s"}},
		"union": {Expressions: []string{"CRON_TZ=Asia/Tehran */2 * * * * *", "CRON_TZ=Australia/Lord_Howe 1-59/3 * * * * *", "@every 7s"}, Seconds: true},
	} {
		b.Run(name, func(b *testing.B) {
			s := benchSchedule(b, spec)
			for b.Loop() {
				s.Count(benchTime, benchTime.AddDate(1, 0, 0))
			}
		})
	}
}

func BenchmarkCountTwoCenturies(b *testing.B) {
	for name, exprs := range map[string][]string{
		"minute": {"* * * * *"},
		"union":  {"*/7 * * * *", "CRON_TZ=UTC */5 * * * *"},
		"rare":   {"0 0 29 2 *", "CRON_TZ=UTC 0 0 1 1 *"},
	} {
		b.Run(name, func(b *testing.B) {
			s := benchSchedule(b, ScheduleSpec{Expressions: exprs, Timezone: "Europe/Paris", TimezoneIsDefault: true})
			for b.Loop() {
				s.Count(benchTime, benchTime.AddDate(200, 0, 0))
			}
		})
	}
}
