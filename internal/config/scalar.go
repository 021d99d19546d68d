package config

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/scheduler"
)

// scalar is one value as YAML gives it, expanded where it held a `${…}`.
type scalar struct {
	text   string
	tag    string // "!!str", "!!int", …: what YAML takes it for
	secret bool   // text comes out of a `${…}` and must not be shown
}

// shown is how the value may stand in an error.
func (s scalar) shown() string {
	if s.secret {
		return "the value of ${…}"
	}
	return strconv.Quote(clip(s.text))
}

// hint drops advice that was made from the value where that is a secret.
func (s scalar) hint(made, plain string) string {
	if s.secret {
		return plain
	}
	return made
}

// clip shortens what is quoted in an error.
func clip(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return text
}

// leaf is a type that reads itself from one value. Types that may hold a
// `${…}` are leaves or executor.Text; plain strings, numbers and switches are
// kept by the store or shown, and refuse one.
type leaf interface {
	parse(s scalar) (msg, hint string)
}

type (
	duration time.Duration // not negative
	grace    time.Duration // at least 1s, or scheduler.Unlimited
	limit    int           // at least 1, or 0 for unlimited
	integer  int64
	decimal  float64
	boolean  bool
)

const unlimitedWord = "unlimited"

func (d *duration) parse(s scalar) (msg, hint string) {
	v, msg, hint := parseDuration(s)
	*d = duration(v)
	return msg, hint
}

func (g *grace) parse(s scalar) (msg, hint string) {
	if s.text == unlimitedWord {
		*g = grace(scheduler.Unlimited)
		return "", ""
	}
	v, msg, hint := parseDuration(s)
	if msg == "" && v < time.Second {
		msg, hint = s.shown()+" allows only the exact instant", "use 1s or more, or unlimited"
	}
	*g = grace(v)
	return msg, hint
}

func (l *limit) parse(s scalar) (msg, hint string) {
	if s.text == unlimitedWord {
		*l = 0
		return "", ""
	}
	v, msg, _ := parseInteger(s)
	switch {
	case msg != "":
		return msg, "write a number or unlimited"
	case v < 1 || v > math.MaxInt32:
		return s.shown() + " is out of range", "write a number from 1 on, or unlimited"
	}
	*l = limit(v)
	return "", ""
}

func (i *integer) parse(s scalar) (msg, hint string) {
	v, msg, hint := parseInteger(s)
	*i = integer(v)
	return msg, hint
}

var decimalForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

func (d *decimal) parse(s scalar) (msg, hint string) {
	if (s.tag == "!!str" && !s.secret) || !decimalForm.MatchString(s.text) {
		return s.shown() + " is not a number", "write one such as 2 or 1.5, without quotes"
	}
	v, err := strconv.ParseFloat(s.text, 64)
	if err != nil {
		return s.shown() + " is out of range", ""
	}
	*d = decimal(v)
	return "", ""
}

func (b *boolean) parse(s scalar) (msg, hint string) {
	v, msg, hint := parseBoolean(s)
	*b = boolean(v)
	return msg, hint
}

// parseBoolean takes true and false only: what YAML 1.1 reads as a switch
// beside them (yes, on, n) is text to others.
func parseBoolean(s scalar) (v bool, msg, hint string) {
	if (s.tag != "!!bool" && !s.secret) || (s.text != "true" && s.text != "false") {
		return false, s.shown() + " is neither true nor false", "write true or false, without quotes"
	}
	return s.text == "true", "", ""
}

var integerForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// parseInteger takes decimal digits only: 010 is eight to YAML 1.1 and ten to
// people, 1_000 and 0x10 are numbers to some readers and text to others.
func parseInteger(s scalar) (v int64, msg, hint string) {
	switch {
	case s.tag == "!!str" && !s.secret && integerForm.MatchString(s.text):
		return 0, s.shown() + " is text, not a number", "remove the quotes"
	case !integerForm.MatchString(s.text):
		return 0, s.shown() + " is not a whole number", s.hint(integerHint(s.text), "write decimal digits")
	}
	v, err := strconv.ParseInt(s.text, 10, 64)
	if err != nil {
		return 0, s.shown() + " is out of range", ""
	}
	return v, "", ""
}

func integerHint(text string) string {
	if digits := strings.TrimLeft(text, "0"); integerForm.MatchString(digits) && digits[0] != '-' {
		return "a leading 0 means octal to some readers: write " + digits
	}
	return "write decimal digits"
}

const durationHint = "write a number with a unit, such as 90s, 10m, 6h, 1d12h or 2w"

// daysAndWeeks are the parts that Go's own durations do not have.
var daysAndWeeks = regexp.MustCompile(`^(?:([0-9]+(?:\.[0-9]+)?)w)?(?:([0-9]+(?:\.[0-9]+)?)d)?(.*)$`)

// parseDuration reads a duration that is not negative: Go's, with d (24 hours)
// and w (seven of them) in front.
func parseDuration(s scalar) (d time.Duration, msg, hint string) {
	text := s.text
	switch {
	case strings.HasPrefix(text, "-"):
		return 0, s.shown() + " is negative", ""
	case decimalForm.MatchString(text):
		return 0, s.shown() + " has no unit", s.hint("write "+text+"s if seconds are meant", durationHint)
	case text == "":
		return 0, s.shown() + " is not a duration", durationHint
	}
	parts := daysAndWeeks.FindStringSubmatch(text)
	total := 0.0
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour} {
		if parts[i+1] != "" {
			count, _ := strconv.ParseFloat(parts[i+1], 64)
			total += count * float64(unit)
		}
	}
	rest := time.Duration(0)
	if parts[3] != "" {
		var err error
		if rest, err = time.ParseDuration(parts[3]); err != nil || strings.ContainsAny(parts[3][:1], "+-") {
			return 0, s.shown() + " is not a duration", durationHint
		}
	}
	if total+float64(rest) > float64(maxDuration) {
		return 0, s.shown() + " is too long", "a hundred years are the most"
	}
	return time.Duration(total) + rest, "", ""
}

// maxDuration keeps sums of an instant and a duration within what can be written.
const maxDuration = 100 * 366 * 24 * time.Hour

// parseTime reads an instant. A time without an offset would mean another
// instant on every host, and is refused.
func parseTime(s scalar) (t time.Time, msg, hint string) {
	t, err := time.Parse(time.RFC3339Nano, s.text)
	if err != nil {
		return t, s.shown() + " is not an instant", "write date, time and offset, such as 2026-11-29T03:00:00Z or 2026-11-29T12:00:00+09:00"
	}
	return t.UTC(), "", ""
}
