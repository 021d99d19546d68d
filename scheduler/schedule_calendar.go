package scheduler

import (
	"math/bits"
	"time"
)

const (
	daySeconds  = 24 * 60 * 60
	everyDay    = 1<<32 - 2 // bits 1 to 31
	weekPattern = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28
)

// wallCalendar is a cron expression as a set of readings of a wall clock. It
// knows dates and times of day, but nothing of zones: a reading is the number
// of seconds since 1970-01-01 00:00 on that same clock.
type wallCalendar struct {
	second, minute, hour, month uint64

	day, weekday         uint64 // plain members: bits 1-31, bits 0-6
	dayStar, weekdayStar bool   // the field begins with * or ?

	lastDay        bool     // L
	lastWorkday    bool     // LW
	nearWorkday    uint64   // 15W: bits 1-31
	nthWeekday     [5]uint8 // MON#2: bits 0-6 for each of the five
	lastOfWeekdays uint8    // 5L: bits 0-6
}

// next returns the first member in [lo, hi).
func (c *wallCalendar) next(lo, hi int64) (int64, bool) {
	if lo >= hi {
		return 0, false
	}
	date := floorDivide(lo, daySeconds)
	year, month, day := calendarDate(date)
	days := c.days(year, month)
	if days>>day&1 != 0 {
		if tod, ok := c.nextTimeOfDay(int(lo - date*daySeconds)); ok {
			w := date*daySeconds + int64(tod)
			return w, w < hi
		}
	}
	tod, _ := c.nextTimeOfDay(0)
	for days &= everyDay << day; ; days = c.days(year, month) {
		first := dateNumber(year, month, 1)
		if days != 0 {
			w := (first+int64(bits.TrailingZeros32(days))-1)*daySeconds + int64(tod)
			return w, w < hi
		}
		if first*daySeconds >= hi {
			return 0, false
		}
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
}

// prev returns the last member in [lo, hi).
func (c *wallCalendar) prev(lo, hi int64) (int64, bool) {
	if lo >= hi {
		return 0, false
	}
	date := floorDivide(hi-1, daySeconds)
	year, month, day := calendarDate(date)
	days := c.days(year, month)
	if days>>day&1 != 0 {
		if tod, ok := c.prevTimeOfDay(int(hi - 1 - date*daySeconds)); ok {
			w := date*daySeconds + int64(tod)
			return w, w >= lo
		}
	}
	tod, _ := c.prevTimeOfDay(daySeconds - 1)
	for days &= 1<<day - 1; ; days = c.days(year, month) {
		first := dateNumber(year, month, 1)
		if days != 0 {
			w := (first+int64(bits.Len32(days))-2)*daySeconds + int64(tod)
			return w, w >= lo
		}
		if first*daySeconds <= lo {
			return 0, false
		}
		if month--; month < time.January {
			year, month = year-1, time.December
		}
	}
}

// count returns the number of members in [lo, hi).
func (c *wallCalendar) count(lo, hi int64) int64 {
	if lo >= hi {
		return 0
	}
	from, to := floorDivide(lo, daySeconds), floorDivide(hi, daySeconds)
	n := c.countDays(from, to) * int64(c.timesBefore(daySeconds))
	if rest := int(lo - from*daySeconds); rest > 0 {
		n -= c.countDays(from, from+1) * int64(c.timesBefore(rest))
	}
	if rest := int(hi - to*daySeconds); rest > 0 {
		n += c.countDays(to, to+1) * int64(c.timesBefore(rest))
	}
	return n
}

// any reports whether there is a member in [lo, hi).
func (c *wallCalendar) any(lo, hi int64) bool {
	_, ok := c.next(lo, hi)
	return ok
}

// countDays returns how many dates in [from, to) match.
func (c *wallCalendar) countDays(from, to int64) int64 {
	var n int64
	for from < to {
		year, month, day := calendarDate(from)
		end := min(to, dateNumber(year, month+1, 1))
		mask := uint32(1)<<(end-from) - 1 // a shift by a whole month is at most 31
		n += int64(bits.OnesCount32(c.days(year, month) >> day & mask))
		from = end
	}
	return n
}

// days returns the matching days of a month, as bits 1 to 31.
//
// Both day fields restricted means either of them; a field that begins with a
// star restricts nothing by itself, and both must then match (cron(8) of vixie
// cron and cronie).
func (c *wallCalendar) days(year int, month time.Month) uint32 {
	if c.month>>month&1 == 0 {
		return 0
	}
	first := dateNumber(year, month, 1)
	length := int(dateNumber(year, month+1, 1) - first)
	weekday := int((first%7 + 7 + 4) % 7) // 1970-01-01 was a Thursday
	byDay := c.byDay(length, weekday)
	byWeekday := c.byWeekday(length, weekday)
	if c.dayStar || c.weekdayStar {
		return byDay & byWeekday
	}
	return byDay | byWeekday
}

// byDay returns what the day-of-month field matches in a month that has the
// given length and begins on the given weekday.
func (c *wallCalendar) byDay(length, first int) uint32 {
	days := uint32(c.day)
	if c.lastDay {
		days |= 1 << length
	}
	if c.lastWorkday {
		days |= 1 << nearestWorkday(length, length, first)
	}
	for near := c.nearWorkday & (2<<length - 1); near != 0; near &= near - 1 {
		days |= 1 << nearestWorkday(bits.TrailingZeros64(near), length, first)
	}
	return days & (2<<length - 1)
}

// byWeekday returns what the day-of-week field matches in such a month.
func (c *wallCalendar) byWeekday(length, first int) uint32 {
	days := weekdayDays(c.weekday, first)
	for i, weekdays := range c.nthWeekday {
		if weekdays != 0 {
			days |= weekdayDays(uint64(weekdays), first) & (0x7f << (1 + 7*i))
		}
	}
	if c.lastOfWeekdays != 0 {
		days |= weekdayDays(uint64(c.lastOfWeekdays), first) & (0x7f << (length - 6))
	}
	return days & (2<<length - 1)
}

// weekdayDays spreads a set of weekdays over a month that begins on first.
func weekdayDays(weekdays uint64, first int) uint32 {
	week := weekdays>>first | weekdays<<(7-first)
	return uint32(week&0x7f*weekPattern<<1) & everyDay
}

// nearestWorkday returns the day from Monday to Friday nearest to the given
// one without leaving the month.
func nearestWorkday(day, length, first int) int {
	switch (first + day - 1) % 7 {
	case 6: // Saturday
		if day == 1 {
			return 3
		}
		return day - 1
	case 0: // Sunday
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

// nextTimeOfDay returns the first matching second of the day at or after t.
func (c *wallCalendar) nextTimeOfDay(t int) (int, bool) {
	h, m, s := t/3600, t/60%60, t%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if rest := c.second >> s; rest != 0 {
				return t + bits.TrailingZeros64(rest), true
			}
		}
		if rest := c.minute >> m >> 1; rest != 0 {
			m += 1 + bits.TrailingZeros64(rest)
			return h*3600 + m*60 + bits.TrailingZeros64(c.second), true
		}
	}
	rest := c.hour >> h >> 1
	if rest == 0 {
		return 0, false
	}
	h += 1 + bits.TrailingZeros64(rest)
	return h*3600 + bits.TrailingZeros64(c.minute)*60 + bits.TrailingZeros64(c.second), true
}

// prevTimeOfDay returns the last matching second of the day at or before t.
func (c *wallCalendar) prevTimeOfDay(t int) (int, bool) {
	h, m, s := t/3600, t/60%60, t%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if rest := c.second & (2<<s - 1); rest != 0 {
				return t - s + bits.Len64(rest) - 1, true
			}
		}
		if rest := c.minute & (1<<m - 1); rest != 0 {
			return h*3600 + (bits.Len64(rest)-1)*60 + bits.Len64(c.second) - 1, true
		}
	}
	rest := c.hour & (1<<h - 1)
	if rest == 0 {
		return 0, false
	}
	return (bits.Len64(rest)-1)*3600 + (bits.Len64(c.minute)-1)*60 + bits.Len64(c.second) - 1, true
}

// timesBefore returns how many matching seconds of a day lie before t.
func (c *wallCalendar) timesBefore(t int) int {
	h, m, s := t/3600, t/60%60, t%60
	perMinute := bits.OnesCount64(c.second)
	perHour := bits.OnesCount64(c.minute) * perMinute
	n := bits.OnesCount64(c.hour&(1<<h-1)) * perHour
	if c.hour>>h&1 != 0 {
		n += bits.OnesCount64(c.minute&(1<<m-1)) * perMinute
		if c.minute>>m&1 != 0 {
			n += bits.OnesCount64(c.second & (1<<s - 1))
		}
	}
	return n
}

// calendarDate turns a number of days since 1970-01-01 into a date.
func calendarDate(n int64) (int, time.Month, int) {
	return time.Unix(n*daySeconds, 0).UTC().Date()
}

// dateNumber is the inverse of calendarDate; the month may be 13.
func dateNumber(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

// floorDivide divides by a positive number and rounds down.
func floorDivide(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
