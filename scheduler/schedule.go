package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// ScheduleSpec is the part of a job's definition that decides when it fires,
// as it stands in the config file. It is kept as JSON in the job store.
type ScheduleSpec struct {
	// Expressions are cron expressions, descriptors such as @daily, @every or
	// @at; the schedule is their union.
	Expressions []string `json:"expressions"`
	// Timezone is an IANA name. Empty means UTC, unless an expression carries
	// its own TZ= or CRON_TZ=.
	Timezone string `json:"timezone,omitempty"`
	// TimezoneIsDefault says that Timezone is the file's default and not the
	// job's own choice: an expression's own zone then wins, where it would
	// otherwise be refused.
	TimezoneIsDefault bool `json:"timezone_is_default,omitempty"`
	// Seconds makes cron expressions have six fields, the first one seconds.
	Seconds bool `json:"seconds,omitempty"`
	// StartAt and EndAt bound the fire times, both inclusive. StartAt also
	// anchors @every.
	StartAt *time.Time `json:"start_at,omitempty"`
	EndAt   *time.Time `json:"end_at,omitempty"`
	// Exclude lists dates ("2026-12-25") and date ranges, both ends included
	// ("2026-12-24..2026-12-26"), on which nothing fires. They are read in the
	// zone of the expression.
	Exclude []string `json:"exclude,omitempty"`
	// GapPolicy is "" (a fixed-time fire whose local time is skipped fires at
	// the first instant after the gap) or "skip".
	GapPolicy string `json:"dst_gap,omitempty"`
	// OverlapPolicy is "" or "first" (a fixed-time fire whose local time comes
	// twice fires at the first), "both" or "last".
	OverlapPolicy string `json:"dst_overlap,omitempty"`
}

// MarshalJSON writes TimezoneIsDefault only where it decides something, that is
// where an expression has its own zone: else a job whose zone moves between its
// own definition and the file's defaults would look like a changed one.
func (s ScheduleSpec) MarshalJSON() ([]byte, error) {
	type plain ScheduleSpec // without this method
	s.TimezoneIsDefault = s.TimezoneIsDefault && slices.ContainsFunc(s.Expressions, func(text string) bool {
		_, at := ownZone(strings.TrimSpace(text))
		return at > 0
	})
	return json.Marshal(plain(s))
}

// ScheduleError is one fault of a ScheduleSpec, and where it is.
type ScheduleError struct {
	// Field is the config key: schedule, timezone, start_at, end_at, exclude,
	// dst_gap or dst_overlap.
	Field string
	// Index is the entry of a list (schedule, exclude), and Offset the byte in
	// that entry at which the fault begins: 0 where the whole entry is meant.
	Index, Offset int
	// Msg says what is wrong, Hint (which may be empty) what to do about it.
	Msg, Hint string
}

// Error returns the field, the message and the hint in one line.
func (e *ScheduleError) Error() string {
	text := e.Field
	if e.Index > 0 {
		text = fmt.Sprintf("%s[%d]", e.Field, e.Index)
	}
	text += ": " + e.Msg
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// The calendar of a schedule ends with the years that RFC 3339 can write.
// Between these bounds every answer is exact, outside them nothing fires.
const (
	minSecond = -62135596800 // 0001-01-01T00:00:00Z
	endSecond = 253402300800 // 9999-12-31T23:59:59Z, plus one second
	perSecond = 1_000_000    // microseconds
)

// Schedule yields the fire times of a job: instants in UTC, never rounded,
// with microseconds at most. It is immutable and safe for concurrent use.
type Schedule struct {
	entries []scheduleEntry
	loc     *time.Location
}

// Location returns the zone in which to show the schedule: the job's own, or
// the one that all its expressions name.
func (s *Schedule) Location() *time.Location { return s.loc }

// Next returns the first fire time strictly after the given instant, and false
// if there is none.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	return asTime(s.next(microsecond(after)+1, endSecond*perSecond))
}

// Prev returns the newest fire time at or before the given instant, and false
// if there is none since the year 1 (or since StartAt).
func (s *Schedule) Prev(atOrBefore time.Time) (time.Time, bool) {
	return asTime(s.prev(minSecond*perSecond, microsecond(atOrBefore)+1))
}

// Contains reports whether the instant is a fire time.
func (s *Schedule) Contains(t time.Time) bool {
	prev, ok := s.Prev(t)
	return ok && prev.Equal(t)
}

// Count returns the exact number of fire times in (after, until]. Its cost
// grows with the local days of the span, not with the number of fire times.
func (s *Schedule) Count(after, until time.Time) int64 {
	return s.count(microsecond(after)+1, microsecond(until)+1)
}

// FirstN returns the oldest n fire times in (after, until], ascending; fewer
// if there are fewer.
func (s *Schedule) FirstN(after, until time.Time, n int) []time.Time {
	var fires []time.Time
	lo, hi := microsecond(after)+1, microsecond(until)+1
	for len(fires) < n {
		u, ok := s.next(lo, hi)
		if !ok {
			break
		}
		fires = append(fires, time.UnixMicro(u).UTC())
		lo = u + 1
	}
	return fires
}

// LastN returns the newest n fire times in (after, until], ascending; fewer if
// there are fewer.
func (s *Schedule) LastN(after, until time.Time, n int) []time.Time {
	var fires []time.Time
	lo, hi := microsecond(after)+1, microsecond(until)+1
	for len(fires) < n {
		u, ok := s.prev(lo, hi)
		if !ok {
			break
		}
		fires = append(fires, time.UnixMicro(u).UTC())
		hi = u
	}
	slices.Reverse(fires)
	return fires
}

// Jitter returns the delay of the start of the run with the given key: stable
// for the key, spread evenly over [0, bound), in whole microseconds.
func Jitter(key string, bound time.Duration) time.Duration {
	steps := uint64(max(bound, 0) / time.Microsecond)
	if steps == 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(key))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%steps) * time.Microsecond
}

// next returns the first fire time in [lo, hi), in Unix microseconds.
func (s *Schedule) next(lo, hi int64) (first int64, found bool) {
	for i := range s.entries {
		if u, ok := s.entries[i].next(lo, hi); ok {
			first, found, hi = u, true, u
		}
	}
	return first, found
}

// prev returns the last fire time in [lo, hi), in Unix microseconds.
func (s *Schedule) prev(lo, hi int64) (last int64, found bool) {
	for i := range s.entries {
		if u, ok := s.entries[i].prev(lo, hi); ok {
			last, found, lo = u, true, u+1
		}
	}
	return last, found
}

// microsecond returns t in Unix microseconds, rounded down, and kept just
// outside the calendar's bounds if it lies beyond them.
func microsecond(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec < minSecond:
		return minSecond*perSecond - 1
	case sec >= endSecond:
		return endSecond*perSecond - 1
	}
	return t.UnixMicro()
}

func asTime(u int64, ok bool) (time.Time, bool) {
	if !ok {
		return time.Time{}, false
	}
	return time.UnixMicro(u).UTC(), true
}

// cronBits reads six plain cron fields into bit sets with the cron library.
// It is the only place that touches the library, and hands it nothing but
// lists of number ranges that the guard in schedule_cron.go has checked: the
// library on its own takes `1,,2`, `+5` and `*-foo`, and panics on others.
func cronBits(fields [6]string) (sets [6]uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read cron fields: %v", r)
		}
	}()
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	text := fields[0]
	for _, field := range fields[1:] {
		text += " " + field
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return sets, fmt.Errorf("read cron fields: %w", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return sets, fmt.Errorf("read cron fields: unexpected kind %T", parsed)
	}
	sets = [6]uint64{spec.Second, spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow}
	for i := range sets {
		sets[i] &= math.MaxUint64 >> 1 // the library marks a star in the top bit
	}
	return sets, nil
}
