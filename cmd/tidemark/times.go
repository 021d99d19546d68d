package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

const timeHint = "write 2026-11-29T03:00:00Z, 2026-11-29 03:00 or 2026-11-29 (UTC), now, -2h or +2h"

// parseTime reads an instant as people give it on a command line.
func parseTime(text string, now time.Time) (time.Time, error) {
	bad := func(hint string) (time.Time, error) {
		return time.Time{}, &failure{msg: fmt.Sprintf("%q is not a time", text), hint: hint}
	}
	word := strings.TrimSpace(text)
	switch {
	case word == "now":
		return jobstore.Instant(now), nil
	case strings.HasPrefix(word, "-"), strings.HasPrefix(word, "+"):
		span, err := parseSpan(word[1:])
		if err != nil {
			return bad(timeHint)
		}
		if word[0] == '-' {
			span = -span
		}
		return jobstore.Instant(now.Add(span)), nil
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00",
		"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly,
	} {
		if t, err := time.Parse(layout, word); err == nil {
			return jobstore.Instant(t), nil
		}
	}
	if _, err := parseSpan(word); err == nil {
		return bad("write -" + word + " for that long ago, +" + word + " for in that time")
	}
	return bad(timeHint)
}

var daysAndWeeks = regexp.MustCompile(`^(?:([0-9]+)w)?(?:([0-9]+)d)?(.*)$`)

// parseSpan reads a duration as config files have them: Go's, and d and w.
func parseSpan(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	parts := daysAndWeeks.FindStringSubmatch(text)
	total := time.Duration(0)
	for i, unit := range []time.Duration{7 * day, day} {
		if parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(parts[i+1], 10, 32)
		if err != nil || time.Duration(n) > 36600*day/unit {
			return 0, fmt.Errorf("%q is too long", text)
		}
		total += time.Duration(n) * unit
	}
	if rest := parts[3]; rest != "" || text == "" {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.ContainsAny(rest[:1], "+-") || d > 36600*day {
			return 0, fmt.Errorf("%q is not a duration", text)
		}
		total += d
	}
	return total, nil
}

// spanText writes a duration in the largest units that fit exactly.
func spanText(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// roughly writes a duration for people: its largest unit or two.
func roughly(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < time.Millisecond:
		return "0s"
	case d < 10*time.Second:
		return spanText(d.Round(10 * time.Millisecond))
	case d < 2*time.Minute:
		return spanText(d.Round(time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 10*time.Hour:
		return spanText(d.Truncate(time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// away says how far t is from now, in words; nothing for the zero time.
func away(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return ""
	case d.Abs() < 500*time.Millisecond:
		return "now"
	case d < 0:
		return roughly(d) + " ago"
	default:
		return "in " + roughly(d)
	}
}

// local writes an instant in a zone, with the weekday, for people.
func local(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("Mon 2006-01-02 15:04:05.999999 MST")
}

// timeJSON is a time in a listing: null where there is none.
type timeJSON time.Time

// MarshalJSON writes RFC 3339 in UTC, a fraction only where there is one.
func (t timeJSON) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + jobstore.FormatTime(time.Time(t)) + `"`), nil
}

func timesJSON(times []time.Time) []timeJSON {
	out := make([]timeJSON, len(times))
	for i, t := range times {
		out[i] = timeJSON(t)
	}
	return out
}
