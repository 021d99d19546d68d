package scheduler

import (
	"math/bits"
	"time"
)

// maxMadeUpGap is the longest gap, in seconds, whose skipped local times fire
// after it. A longer one drops a calendar day, and nobody waited through it
// (the rule of vixie cron and cronie).
const maxMadeUpGap = 3 * 60 * 60

const (
	ruledSecond    = 4102444800          // 2100-01-01
	gregorianCycle = 146097 * daySeconds // 400 years
)

// cronSource is a wall calendar read on the clock of a zone.
//
// One picture serves every change of the clock: real time is cut into
// stretches of constant offset, and in each of them the readings fire that lie
// between a lowest and a highest one. For a recurring job these are the ends
// of the stretch. For a fixed-time job they are drawn in, so that a repeated
// reading belongs to one stretch alone, and a reading that was skipped fires
// at the beginning of the stretch that skipped it.
type cronSource struct {
	calendar *wallCalendar
	zone     zoneClock
	fixed    bool // neither the minute nor the hour field begins with a star
	skipGap  bool // fixed-time: dst_gap skip
	overlap  string
}

// zoneStretch is a span [from, to) of Unix seconds with one offset, and what
// of it fires: the readings in [lo, hi), and at its beginning those of the
// skipped seconds just before its first reading.
type zoneStretch struct {
	from, to, offset int64
	lo, hi           int64
	skipped          int64
}

// stretchAt returns the stretch that holds the instant u. No zone changes its
// clock twice within the length of a change (TestZoneChangesLieFarApart), so
// that only the neighbours matter.
func (c *cronSource) stretchAt(u int64) zoneStretch {
	from, to, offset := c.zone.spanAt(u)
	st := zoneStretch{from: from, to: to, offset: offset, lo: from + offset, hi: to + offset}
	if !c.fixed {
		return st
	}
	if from > minSecond {
		ahead := offset - c.zone.offsetAt(from-1)
		switch repeatsKept := c.overlap == "both" || c.overlap == "last"; {
		case ahead > 0 && ahead <= maxMadeUpGap && !c.skipGap:
			st.skipped = ahead
		case ahead < 0 && !repeatsKept:
			st.lo -= ahead
		}
	}
	if to < endSecond && c.overlap == "last" {
		st.hi += min(0, c.zone.offsetAt(to)-offset)
	}
	return st
}

// madeUp reports whether a skipped reading fires at the stretch's beginning.
func (c *cronSource) madeUp(st zoneStretch) bool {
	first := st.from + st.offset
	return c.calendar.any(first-st.skipped, first)
}

// next returns the first fire time in [lo, hi). Dates repeat after 400 years,
// and so do the changes of a clock once the zone database leaves them to a rule
// (Morocco's are the last, from 2087 on): what does not fire for so long never
// fires again.
func (c *cronSource) next(lo, hi int64) (int64, bool) {
	hi = min(hi, max(lo, ruledSecond)+gregorianCycle)
	for u := lo; u < hi; {
		st := c.stretchAt(u)
		if u == st.from && c.madeUp(st) {
			return u, true
		}
		if w, ok := c.calendar.next(max(st.lo, u+st.offset), min(st.hi, hi+st.offset)); ok {
			return w - st.offset, true
		}
		u = st.to
	}
	return 0, false
}

// prev returns the last fire time in [lo, hi).
func (c *cronSource) prev(lo, hi int64) (int64, bool) {
	for u := hi; u > lo; {
		st := c.stretchAt(u - 1)
		if w, ok := c.calendar.prev(max(st.lo, lo+st.offset), min(st.hi, u+st.offset)); ok {
			return w - st.offset, true
		}
		if st.from >= lo && c.madeUp(st) {
			return st.from, true
		}
		u = st.from
	}
	return 0, false
}

// count returns the number of fire times in [lo, hi).
func (c *cronSource) count(lo, hi int64) int64 {
	var n int64
	for u := lo; u < hi; {
		st := c.stretchAt(u)
		n += c.calendar.count(max(st.lo, u+st.offset), min(st.hi, hi+st.offset))
		if u == st.from && c.madeUp(st) && !c.calendar.any(st.lo, st.lo+1) {
			n++
		}
		u = st.to
	}
	return n
}

// mark adds the fire times in [lo, hi), which lies within the day, to its set.
func (c *cronSource) mark(day *daySet, lo, hi int64) {
	for u := lo; u < hi; {
		st := c.stretchAt(u)
		if u == st.from && c.madeUp(st) {
			day.add(u, 1)
		}
		c.markReadings(day, st, max(st.lo, u+st.offset), min(st.hi, hi+st.offset))
		u = st.to
	}
}

// dayKey is made of the offset and of whether the two dates that the day
// touches match, for days without a change of the clock.
func (c *cronSource) dayKey(begin int64) (int64, bool) {
	st := c.stretchAt(begin)
	lo, hi := begin+st.offset, begin+st.offset+daySeconds
	if begin == st.from || lo < st.lo || hi > st.hi {
		return 0, false
	}
	key := st.offset * 4
	for i, w := range []int64{lo, hi} {
		if date := floorDivide(w, daySeconds); c.calendar.countDays(date, date+1) > 0 {
			key += int64(i + 1)
		}
	}
	return key, true
}

// markReadings adds what fires in the stretch between the readings lo and hi.
func (c *cronSource) markReadings(day *daySet, st zoneStretch, lo, hi int64) {
	for w, ok := c.calendar.next(lo, hi); ok; w, ok = c.calendar.next(lo, hi) {
		midnight := floorDivide(w, daySeconds) * daySeconds
		for hours := c.calendar.hour; hours != 0; hours &= hours - 1 {
			hour := midnight + int64(bits.TrailingZeros64(hours))*3600
			for minutes := c.calendar.minute; minutes != 0; minutes &= minutes - 1 {
				minute := hour + int64(bits.TrailingZeros64(minutes))*60
				day.add(minute-st.offset, secondsWithin(c.calendar.second, minute, lo, hi))
			}
		}
		lo = midnight + daySeconds
	}
}

// secondsWithin keeps of the seconds of a minute those that lie in [lo, hi).
func secondsWithin(seconds uint64, minute, lo, hi int64) uint64 {
	if minute >= hi || minute+60 <= lo {
		return 0
	}
	if minute < lo {
		seconds &^= 1<<(lo-minute) - 1
	}
	if minute+60 > hi {
		seconds &= 1<<(hi-minute) - 1
	}
	return seconds
}

// zoneClock reads offsets and their changes from the zone database.
type zoneClock struct{ loc *time.Location }

// offsetAt returns the seconds east of UTC at the instant u.
func (z zoneClock) offsetAt(u int64) int64 {
	_, offset := time.Unix(u, 0).In(z.loc).Zone()
	return int64(offset)
}

// spanAt returns the largest span [from, to) around u with one offset.
//
// The bounds that the standard library gives are only hints: it also cuts
// where a zone changes its name alone and at the turn of each year governed by
// a rule, and on the last day of a leap year its end lies before the instant
// asked about (Go 1.26).
func (z zoneClock) spanAt(u int64) (from, to, offset int64) {
	offset = z.offsetAt(u)
	for from = u; ; from-- {
		start, _ := time.Unix(from, 0).In(z.loc).ZoneBounds()
		if from = start.Unix(); start.IsZero() || from <= minSecond {
			from = minSecond
			break
		}
		if z.offsetAt(from-1) != offset {
			break
		}
	}
	for to = u; ; {
		_, end := time.Unix(to, 0).In(z.loc).ZoneBounds()
		if end.IsZero() || end.Unix() >= endSecond {
			to = endSecond
			break
		}
		if end.Unix() > to {
			to = end.Unix()
		} else {
			to = min((floorDivide(to, daySeconds)+1)*daySeconds, endSecond) // see above
		}
		if to == endSecond || z.offsetAt(to) != offset {
			break
		}
	}
	return from, to, offset
}
