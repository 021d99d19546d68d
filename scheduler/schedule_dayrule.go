package scheduler

import "strings"

// readDayRule reads what only a day of month may be: L (the last day), LW (the
// last working day) and 15W (the working day nearest to the 15th, in the same
// month). It returns false for a plain member.
func readDayRule(c *wallCalendar, text string, report func(msg, hint string)) bool {
	upper := strings.ToUpper(text)
	day, near := strings.CutSuffix(upper, "W")
	n, isNumber := number(day)
	switch {
	case upper == "L":
		c.lastDay = true
	case upper == "LW":
		c.lastWorkday = true
	case near && isNumber && (n < 1 || n > 31):
		report(quoted(text)+" is out of range 1W-31W", "")
	case near && isNumber:
		c.nearWorkday |= 1 << n
	case strings.ContainsAny(upper, "LW#"):
		report(quoted(text)+" is not understood", "L is the last day, LW the last working day, 15W the working day nearest to the 15th; they take no range and no step")
	default:
		return false
	}
	return true
}

// readWeekdayRule reads what only a day of week may be: MON#2 (the second
// Monday) and 5L or FRIL (the last Friday of the month). It returns false for
// a plain member.
func readWeekdayRule(c *wallCalendar, field cronField, text string, report func(msg, hint string)) bool {
	if day, nth, found := strings.Cut(text, "#"); found {
		weekday, ok := readValue(field, day, report)
		n, isNumber := number(nth)
		switch {
		case !ok:
		case !isNumber || n < 1 || n > len(c.nthWeekday):
			report(quoted(nth)+" is out of range #1-#5", "MON#2 is the second Monday of the month; the last one is MONL")
		default:
			c.nthWeekday[n-1] |= 1 << (weekday % 7)
		}
		return true
	}
	day, last := strings.CutSuffix(strings.ToUpper(text), "L")
	switch {
	case !last:
		return false
	case day == "":
		report("L alone is no day of week", "5L is the last Friday of the month; the last day of the month is L in day of month")
	default:
		if weekday, ok := readValue(field, day, report); ok {
			c.lastOfWeekdays |= 1 << (weekday % 7)
		}
	}
	return true
}
