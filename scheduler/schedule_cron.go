package scheduler

import (
	"fmt"
	"strconv"
	"strings"
)

// cronField is what one of the six fields may hold.
type cronField struct {
	name     string
	min, max int
	names    string // three letters each, in order from first on
	first    int
}

const (
	secondField = iota
	minuteField
	hourField
	dayField
	monthField
	weekdayField
)

// cronFields describes the six fields in the order of the library. The weekday
// goes to 7, which is Sunday as 0 is (crontab(5)).
func cronFields() [6]cronField {
	return [6]cronField{
		{name: "second", max: 59},
		{name: "minute", max: 59},
		{name: "hour", max: 23},
		{name: "day of month", min: 1, max: 31},
		{name: "month", min: 1, max: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec", first: 1},
		{name: "day of week", max: 7, names: "sunmontuewedthufrisat"},
	}
}

// readCron reads a cron expression of five fields, or of six with seconds.
func (p *scheduleParser) readCron(e *expression, seconds bool) (fireSource, bool) {
	words, offsets := splitFields(e.rest, e.at)
	if !checkFieldCount(e, len(words), seconds) {
		return nil, false
	}
	if !seconds {
		words, offsets = append([]string{"0"}, words...), append([]int{e.at}, offsets...)
	}
	faults := len(p.faults)
	var calendar wallCalendar
	var plain [6]string
	for i, field := range cronFields() {
		plain[i] = readField(&calendar, i, field, words[i], func(offset int, msg, hint string) {
			e.fault(offsets[i]+offset, field.name+": "+msg, hint)
		})
	}
	if len(p.faults) > faults {
		return nil, false
	}
	sets, err := cronBits(plain)
	if err != nil {
		e.fault(e.at, err.Error(), "")
		return nil, false
	}
	calendar.second, calendar.minute, calendar.hour, calendar.month = sets[0], sets[1], sets[2], sets[4]
	if plain[dayField] != noMember {
		calendar.day = sets[dayField]
	}
	if plain[weekdayField] != noMember {
		calendar.weekday = sets[weekdayField]
	}
	calendar.dayStar, calendar.weekdayStar = isStar(words[dayField]), isStar(words[weekdayField])
	if _, ok := calendar.next(0, gregorianCycle); !ok {
		e.fault(offsets[dayField], "never fires: no month that it names has such a day", "check day of month and month")
		return nil, false
	}
	return &cronSource{
		calendar: &calendar,
		zone:     zoneClock{e.loc},
		fixed:    !isStar(words[minuteField]) && !isStar(words[hourField]),
		skipGap:  p.spec.GapPolicy == "skip",
		overlap:  p.spec.OverlapPolicy,
	}, true
}

// isStar reports whether a field counts as unrestricted.
func isStar(field string) bool { return field[0] == '*' || field[0] == '?' }

// splitFields cuts at blanks and tabs, and returns where each field begins.
func splitFields(text string, at int) (words []string, offsets []int) {
	for text != "" {
		end := strings.IndexAny(text, " \t")
		if end < 0 {
			end = len(text)
		}
		if end > 0 {
			words, offsets = append(words, text[:end]), append(offsets, at)
		}
		end = min(end+1, len(text))
		text, at = text[end:], at+end
	}
	return words, offsets
}

func checkFieldCount(e *expression, n int, seconds bool) bool {
	switch {
	case seconds && n == 6, !seconds && n == 5:
		return true
	case seconds && n == 5:
		e.fault(e.at, "5 fields, but with seconds: true the first of 6 is the second", `put "0" in front for second 0`)
	case seconds:
		e.fault(e.at, fmt.Sprintf("%d fields where 6 are expected", n), "second minute hour day-of-month month day-of-week")
	case n == 6:
		e.fault(e.at, "6 fields where 5 are expected: seconds in front, a year or a user behind look alike",
			"for short intervals use @every, or set seconds: true on the job, which makes the first of six fields seconds")
	default:
		e.fault(e.at, fmt.Sprintf("%d fields where 5 are expected", n), "minute hour day-of-month month day-of-week")
	}
	return false
}

// noMember is the field given to the library where the guard has kept all
// members for itself.
const noMember = "*"

// readField checks a field and returns its plain members as the library reads
// them without fail: a list of number ranges. What the library does not know
// goes into the calendar.
func readField(c *wallCalendar, index int, field cronField, text string, fault func(int, string, string)) string {
	var plain []string
	at, empty := 0, false
	for element := range strings.SplitSeq(text, ",") {
		report := func(msg, hint string) { fault(at, msg, hint) }
		switch {
		case element == "" && !empty:
			empty = true
			report("empty list entry", "remove the comma")
		case element == "":
		case index == dayField && readDayRule(c, element, report):
		case index == weekdayField && readWeekdayRule(c, field, element, report):
		default:
			if r, ok := readRange(field, element, report); ok {
				plain = append(plain, r.plain(index)...)
			}
		}
		at += len(element) + 1
	}
	if len(plain) == 0 {
		return noMember
	}
	return strings.Join(plain, ",")
}

// numberRange is first-last/step with all parts known and in order.
type numberRange struct{ first, last, step int }

// plain writes the range for the library, which knows no weekday 7.
func (r numberRange) plain(index int) []string {
	if index != weekdayField || r.last < 7 {
		return []string{fmt.Sprintf("%d-%d/%d", r.first, r.last, r.step)}
	}
	var parts []string
	if r.first < 7 {
		parts = append(parts, fmt.Sprintf("%d-6/%d", r.first, r.step))
	}
	if (7-r.first)%r.step == 0 {
		parts = append(parts, "0")
	}
	return parts
}

// readRange reads *, N, N-M, each with or without /step.
func readRange(field cronField, text string, report func(msg, hint string)) (r numberRange, ok bool) {
	end := field.max
	if field.names != "" && field.max == 7 {
		end = 6 // "N/step" and "*" reach to Saturday: 7 is a second name of Sunday
	}
	base, step, stepped := strings.Cut(text, "/")
	r = numberRange{first: field.min, last: end, step: 1}
	if stepped {
		if r.step, ok = readStep(step, report); !ok {
			return r, false
		}
	}
	if base == "*" || base == "?" {
		return r, true
	}
	first, last, isRange := strings.Cut(base, "-")
	switch {
	case strings.ContainsAny(base, "*?"):
		report(quoted(base)+" is not understood", "a star stands alone or before a step, as in */5")
		return r, false
	case isRange && first == "":
		report("range "+quoted(base)+" has no beginning", "numbers are not signed")
		return r, false
	case isRange && last == "":
		report("range "+quoted(base)+" has no end", "")
		return r, false
	case strings.Contains(last, "-"):
		report("more than one hyphen in "+quoted(base), "write ranges as a list, as in 1-2,4-6")
		return r, false
	}
	if r.first, ok = readValue(field, first, report); !ok {
		return r, false
	}
	switch {
	case isRange:
		if r.last, ok = readValue(field, last, report); !ok {
			return r, false
		}
	case !stepped || r.first > end:
		r.last = r.first
	}
	if r.first > r.last {
		report("range "+quoted(base)+" runs backwards", "write "+reversedHint(field, r))
		return r, false
	}
	return r, true
}

// reversedHint writes a range that wraps round as a list of those that do not.
func reversedHint(field cronField, r numberRange) string {
	one := func(first, last int) string {
		if first == last {
			return strconv.Itoa(first)
		}
		return fmt.Sprintf("%d-%d", first, last)
	}
	front := field.min
	if field.max == 7 {
		front = 1 // Sunday is the 7 before
	}
	hint := one(r.first, field.max)
	if r.last >= front {
		hint += "," + one(front, r.last)
	}
	return hint
}

func readStep(text string, report func(msg, hint string)) (int, bool) {
	step, ok := number(text)
	switch {
	case text == "":
		report("slash without a step", "write it as in */5")
	case strings.Contains(text, "/"):
		report("more than one slash", "write one step, as in */5")
	case !ok:
		report("step "+quoted(text)+" is not a number", "")
	case step == 0:
		report("step of zero", "the least step is 1")
	default:
		return step, true
	}
	return 0, false
}

// readValue reads a number or a name.
func readValue(field cronField, text string, report func(msg, hint string)) (int, bool) {
	if n, ok := number(text); ok {
		if n < field.min || n > field.max {
			report(fmt.Sprintf("%s is out of range %d-%d", quoted(text), field.min, field.max), "")
			return 0, false
		}
		return n, true
	}
	lower := strings.ToLower(text)
	if len(lower) >= 3 && field.names != "" {
		if at := strings.Index(field.names, lower[:3]); at >= 0 && at%3 == 0 {
			if len(lower) == 3 {
				return field.first + at/3, true
			}
			report(quoted(text)+" is not a name", "names have three letters: did you mean "+lower[:3]+"?")
			return 0, false
		}
	}
	what, hint := " is not a number", ""
	if field.names != "" {
		what, hint = " is neither a number nor a name", "names are "+field.names[:3]+" to "+field.names[len(field.names)-3:]
	}
	if lower == "h" || strings.HasPrefix(lower, "h(") {
		hint = "there are no hashed values here: choose a number, and spread starts with jitter:"
	}
	report(quoted(text)+what, hint)
	return 0, false
}

// number reads digits and nothing else. What is larger than any field holds
// comes back as 9999: too large for a value, and as good as any large step.
func number(text string) (int, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	if n, err := strconv.Atoi(text); err == nil && n < 9999 {
		return n, true
	}
	return 9999, true
}

// quoted quotes a part of the config for a message, not more than a line of it.
func quoted(text string) string {
	const most = 40
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strconv.QuoteToASCII(text)
}
