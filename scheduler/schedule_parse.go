package scheduler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseSchedule checks the whole spec and makes a Schedule of it. It never
// panics and takes no clock: a one-shot whose instant has passed is a valid
// schedule, one that can never fire at all is not.
//
// The error joins one *ScheduleError for each fault found; they come apart
// with Unwrap() []error.
func ParseSchedule(spec ScheduleSpec) (*Schedule, error) {
	p := scheduleParser{spec: spec, shared: time.UTC}
	p.readZone()
	bounds := p.readBounds()
	dates := p.readExclude()
	p.readPolicies()
	p.readExpressions()
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	entries := p.opened(bounds, dates)
	if !canFire(entries) {
		p.neverFires(bounds, dates)
		return nil, errors.Join(p.faults...)
	}
	return &Schedule{entries: entries, loc: p.displayZone()}, nil
}

// scheduleParser collects what is read of a spec, and its faults.
type scheduleParser struct {
	spec    ScheduleSpec
	shared  *time.Location // of the expressions without a zone of their own
	entries []scheduleEntry
	faults  []error
}

func (p *scheduleParser) fault(field string, index, offset int, msg, hint string) {
	p.faults = append(p.faults, &ScheduleError{Field: field, Index: index, Offset: offset, Msg: msg, Hint: hint})
}

func (p *scheduleParser) readZone() {
	if p.spec.Timezone == "" {
		return
	}
	loc, err := LoadZone(p.spec.Timezone)
	if err != nil {
		p.faults = append(p.faults, err)
		return
	}
	p.shared = loc
}

// readBounds returns the time within start_at and end_at, in microseconds.
func (p *scheduleParser) readBounds() timeSpan {
	bounds := timeSpan{minSecond * perSecond, endSecond * perSecond}
	start, end := p.spec.StartAt, p.spec.EndAt
	if start != nil {
		p.checkInstant("start_at", 0, *start)
		bounds.from = microsecond(*start)
	}
	if end != nil {
		p.checkInstant("end_at", 0, *end)
		bounds.to = microsecond(*end) + 1
	}
	if start != nil && end != nil && end.Before(*start) {
		p.fault("end_at", 0, 0, "end_at is before start_at", "nothing could ever fire")
	}
	return bounds
}

// checkInstant refuses what the store and the keys of runs could not hold.
func (p *scheduleParser) checkInstant(field string, index int, t time.Time) {
	switch {
	case t.Unix() < minSecond || t.Unix() >= endSecond:
		p.fault(field, index, 0, "year outside 0001 to 9999", "")
	case t.Nanosecond()%1000 != 0:
		p.fault(field, index, 0, "finer than a microsecond", "give at most six decimals of a second")
	}
}

// readExclude returns the excluded dates as spans of date numbers.
func (p *scheduleParser) readExclude() []timeSpan {
	var dates []timeSpan
	for i, text := range p.spec.Exclude {
		first, last, isRange := strings.Cut(text, "..")
		from, err := time.Parse(time.DateOnly, strings.TrimSpace(first))
		if err != nil {
			p.fault("exclude", i, 0, quoted(text)+" is not a date", "write 2026-12-25 or 2026-12-24..2026-12-26")
			continue
		}
		to := from
		if isRange {
			if to, err = time.Parse(time.DateOnly, strings.TrimSpace(last)); err != nil {
				p.fault("exclude", i, len(first)+2, quoted(last)+" is not a date", "write 2026-12-24..2026-12-26")
				continue
			}
		}
		if to.Before(from) {
			p.fault("exclude", i, 0, "the range ends before it begins", "write the earlier date first")
			continue
		}
		dates = append(dates, timeSpan{from.Unix() / daySeconds, to.Unix()/daySeconds + 1})
	}
	return dates
}

func (p *scheduleParser) readPolicies() {
	if gap := p.spec.GapPolicy; gap != "" && gap != "skip" {
		p.fault("dst_gap", 0, 0, "unknown policy "+quoted(gap), "leave it out to fire once after the gap, or write skip")
	}
	switch overlap := p.spec.OverlapPolicy; overlap {
	case "", "first", "both", "last":
	default:
		p.fault("dst_overlap", 0, 0, "unknown policy "+quoted(overlap), "write first, both or last")
	}
}

func (p *scheduleParser) readExpressions() {
	if len(p.spec.Expressions) == 0 {
		p.fault("schedule", 0, 0, "no schedule", `write a cron expression such as "0 3 * * *"`)
	}
	for i, text := range p.spec.Expressions {
		fault := func(offset int, msg, hint string) { p.fault("schedule", i, offset, msg, hint) }
		e := expression{text: text, fault: fault, loc: p.shared}
		if source, ok := p.readExpression(&e); ok {
			p.entries = append(p.entries, scheduleEntry{
				text: strings.TrimSpace(text), source: source, zone: zoneClock{e.loc}, fraction: e.fraction,
			})
		}
	}
}

// expression is one entry of the schedule while it is read. What has been read
// is cut off the front of rest; at says how much that was.
type expression struct {
	text     string
	rest     string
	at       int
	fault    func(offset int, msg, hint string)
	loc      *time.Location
	fraction int64
}

// skip cuts n bytes and the blanks after them off the front.
func (e *expression) skip(n int) {
	trimmed := strings.TrimLeft(e.rest[n:], " \t")
	e.at += len(e.rest) - len(trimmed)
	e.rest = trimmed
}

func (p *scheduleParser) readExpression(e *expression) (fireSource, bool) {
	e.rest = strings.TrimRight(e.text, " \t\r\n")
	e.skip(0)
	if e.rest == "" {
		e.fault(0, "empty schedule", `write a cron expression such as "0 3 * * *"`)
		return nil, false
	}
	if !e.plainText() || !p.readOwnZone(e) {
		return nil, false
	}
	if !strings.HasPrefix(e.rest, "@") {
		return p.readCron(e, p.spec.Seconds)
	}
	word, argument, _ := strings.Cut(e.rest, " ")
	if tab := strings.IndexByte(word, '\t'); tab >= 0 {
		word, argument = e.rest[:tab], e.rest[tab:]
	}
	switch fields := descriptor(word); {
	case word == "@every":
		e.skip(len(word))
		return p.readEvery(e)
	case word == "@at":
		e.skip(len(word))
		return p.readAt(e)
	case fields != "" && strings.TrimSpace(argument) == "":
		plain := *e
		plain.rest = fields
		return p.readCron(&plain, false)
	case fields != "":
		e.fault(e.at+len(word), word+" stands alone", "")
	default:
		e.fault(e.at, "unknown form "+quoted(word), descriptorHint(word))
	}
	return nil, false
}

// plainText refuses what no schedule contains, so that it is not taken for a
// blank or a digit.
func (e *expression) plainText() bool {
	for i, r := range e.rest {
		switch {
		case r == '\n' || r == '\r':
			e.fault(e.at+i, "line break in a schedule", "write several expressions as a list")
			return false
		case r > '~' || r < ' ' && r != '\t':
			e.fault(e.at+i, fmt.Sprintf("character %s (%U) has no place in a schedule", strconv.QuoteRuneToASCII(r), r), "write plain ASCII")
			return false
		}
	}
	return true
}

// ownZone returns the name after TZ= or CRON_TZ= in front of an expression, and
// where it begins: 0 if there is none.
func ownZone(text string) (name string, at int) {
	name, found := strings.CutPrefix(strings.TrimPrefix(text, "CRON_"), "TZ=")
	if !found {
		return "", 0
	}
	at = len(text) - len(name)
	if end := strings.IndexAny(name, " \t"); end >= 0 {
		name = name[:end]
	}
	return name, at
}

// readOwnZone reads TZ=… or CRON_TZ=… off the front.
func (p *scheduleParser) readOwnZone(e *expression) bool {
	name, prefix := ownZone(e.rest)
	if prefix == 0 {
		if _, lower := ownZone(strings.ToUpper(e.rest)); lower > 0 {
			e.fault(e.at, quoted(e.rest[:lower])+" in the wrong letter case", "write "+strings.ToUpper(e.rest[:lower]))
			return false
		}
		return true
	}
	if p.spec.Timezone != "" && !p.spec.TimezoneIsDefault {
		e.fault(e.at, "zone in the expression and timezone: as well", "keep one of them")
		return false
	}
	loc, err := LoadZone(name)
	if zoneErr := (*ScheduleError)(nil); errors.As(err, &zoneErr) {
		e.fault(e.at+prefix, zoneErr.Msg, zoneErr.Hint)
		return false
	}
	e.skip(prefix + len(name))
	if e.rest == "" {
		e.fault(e.at, "zone without a schedule", `write a cron expression after it, such as "0 3 * * *"`)
		return false
	}
	if _, second := ownZone(e.rest); second > 0 {
		e.fault(e.at, "two zones in one expression", "keep one of them")
		return false
	}
	e.loc = loc
	return true
}

// displayZone is the zone that all expressions share, or the job's.
func (p *scheduleParser) displayZone() *time.Location {
	loc := p.entries[0].zone.loc
	for _, e := range p.entries {
		if e.zone.loc.String() != loc.String() {
			return p.shared
		}
	}
	return loc
}
