package scheduler

import (
	"strings"
	"time"
)

// descriptor returns the cron fields that a word such as @daily stands for, or
// nothing.
func descriptor(word string) string {
	switch word {
	case "@yearly", "@annually":
		return "0 0 1 1 *"
	case "@monthly":
		return "0 0 1 * *"
	case "@weekly":
		return "0 0 * * 0"
	case "@daily", "@midnight":
		return "0 0 * * *"
	case "@hourly":
		return "0 * * * *"
	}
	return ""
}

// descriptorHint says what to write in place of an unknown @-form.
func descriptorHint(word string) string {
	lower := strings.ToLower(word)
	switch {
	case lower != word && (descriptor(lower) != "" || lower == "@every" || lower == "@at" || lower == "@after"):
		return "did you mean " + lower + "?"
	case word == "@after":
		return "@after, counted from the end of the previous run, is not part of this version: write @every"
	case word == "@reboot":
		return "a job fires at instants, not at start-up: leave that to the init system"
	case strings.HasPrefix(lower, "@every"):
		return "write a blank after @every, as in @every 90s"
	}
	return "known are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every DURATION, @after DURATION and @at TIME"
}

// readEvery reads the duration of @every. It is anchored to start_at, else to
// the Unix epoch, so that every node and every restart finds the same instants.
func (p *scheduleParser) readEvery(e *expression) (fireSource, bool) {
	period, err := time.ParseDuration(e.rest)
	switch {
	case e.rest == "":
		e.fault(e.at, "@every without a duration", "write it as in @every 90s")
	case strings.HasPrefix(e.rest, "-") || strings.HasPrefix(e.rest, "+"):
		e.fault(e.at, "signed duration "+quoted(e.rest), "write it without a sign")
	case err != nil:
		e.fault(e.at, quoted(e.rest)+" is not a duration", durationHint(e.rest))
	case period < time.Second:
		e.fault(e.at, "@every below one second", "the least is @every 1s")
	case period%time.Second != 0:
		e.fault(e.at, "@every is not whole seconds", "round "+quoted(e.rest)+" to seconds")
	default:
		source := everySource{period: int64(period / time.Second)}
		if start := p.spec.StartAt; start != nil {
			source.anchor = floorDivide(microsecond(*start), perSecond)
			e.fraction = microsecond(*start) - source.anchor*perSecond
		}
		return source, true
	}
	return nil, false
}

func durationHint(text string) string {
	digits := strings.TrimLeft(text, "0123456789.")
	switch {
	case digits == "" && len(text) < 10:
		return "give a unit, as in @every " + text + "s"
	case strings.HasPrefix(digits, "d"), strings.HasPrefix(digits, "w"):
		return "a day is not always 24 hours: write @every 24h for exactly that, @daily or a cron expression for days of the calendar"
	}
	return "units are h, m and s, as in @every 1h30m"
}

// readAt reads the instant of a one-shot.
func (p *scheduleParser) readAt(e *expression) (fireSource, bool) {
	var at time.Time
	faults := len(p.faults)
	if err := at.UnmarshalText([]byte(e.rest)); err != nil {
		msg := quoted(e.rest) + " is not an RFC 3339 instant"
		if e.rest == "" {
			msg = "@at without an instant"
		}
		e.fault(e.at, msg, "write it as in @at 2026-12-24T18:00:00Z or @at 2026-12-24T18:00:00+01:00")
		return nil, false
	}
	switch {
	case at.Unix() < minSecond || at.Unix() >= endSecond:
		e.fault(e.at, "year outside 0001 to 9999", "")
	case at.Nanosecond()%1000 != 0:
		e.fault(e.at, "finer than a microsecond", "give at most six decimals of a second")
	}
	sec := floorDivide(microsecond(at), perSecond)
	e.fraction = microsecond(at) - sec*perSecond
	return onceSource(sec), len(p.faults) == faults
}
