package scheduler

import (
	"cmp"
	"slices"
	"sort"
)

// fireSource is one expression as a set of Unix seconds. All spans are half
// open, and lie between minSecond and endSecond.
type fireSource interface {
	next(lo, hi int64) (int64, bool) // the first in [lo, hi)
	prev(lo, hi int64) (int64, bool) // the last in [lo, hi)
	count(lo, hi int64) int64        // how many lie in [lo, hi)
	mark(day *daySet, lo, hi int64)  // adds those in [lo, hi)
	// dayKey returns a number that is equal for days (of UTC, given by their
	// beginning) with fire times at the same times of day; false if it is like
	// no other.
	dayKey(begin int64) (int64, bool)
}

// timeSpan is a half-open interval [from, to).
type timeSpan struct{ from, to int64 }

// scheduleEntry is an expression together with the time that is open to it:
// within start_at and end_at, outside the excluded dates.
type scheduleEntry struct {
	text   string // the expression
	source fireSource
	zone   zoneClock
	// fraction, in microseconds, is added to each second of the source: it is
	// that of the instant in @at, or of the start_at that anchors @every.
	fraction int64
	open     []timeSpan // in seconds of the source, ascending, apart
}

// next returns the first fire time in [lo, hi), in microseconds.
func (e *scheduleEntry) next(lo, hi int64) (int64, bool) {
	sec, ok := e.nextSecond(e.seconds(lo), e.seconds(hi))
	return sec*perSecond + e.fraction, ok
}

// prev returns the last fire time in [lo, hi), in microseconds.
func (e *scheduleEntry) prev(lo, hi int64) (int64, bool) {
	sec, ok := e.prevSecond(e.seconds(lo), e.seconds(hi))
	return sec*perSecond + e.fraction, ok
}

// seconds returns the source's first second at or after u microseconds.
func (e *scheduleEntry) seconds(u int64) int64 {
	return floorDivide(u-e.fraction+perSecond-1, perSecond)
}

func (e *scheduleEntry) nextSecond(lo, hi int64) (int64, bool) {
	for i := e.openAfter(lo); i < len(e.open); i = e.openAfter(lo) {
		sec, ok := e.source.next(max(lo, e.open[i].from), min(hi, e.open[len(e.open)-1].to))
		if !ok || sec < e.open[i].to {
			return sec, ok
		}
		if lo = sec; e.open[e.openAfter(lo)].from <= lo {
			return sec, true
		}
	}
	return 0, false
}

func (e *scheduleEntry) prevSecond(lo, hi int64) (int64, bool) {
	for i := e.openBefore(hi); i >= 0; i = e.openBefore(hi) {
		sec, ok := e.source.prev(max(lo, e.open[0].from), min(hi, e.open[i].to))
		if !ok || sec >= e.open[i].from {
			return sec, ok
		}
		if hi = sec + 1; e.open[e.openBefore(hi)].to >= hi {
			return sec, true
		}
	}
	return 0, false
}

// openAfter returns the index of the first open span that ends after sec.
func (e *scheduleEntry) openAfter(sec int64) int {
	return sort.Search(len(e.open), func(i int) bool { return e.open[i].to > sec })
}

// openBefore returns the index of the last open span that begins before sec.
func (e *scheduleEntry) openBefore(sec int64) int {
	return sort.Search(len(e.open), func(i int) bool { return e.open[i].from >= sec }) - 1
}

// eachOpen calls do for what is open within [lo, hi).
func (e *scheduleEntry) eachOpen(lo, hi int64, do func(lo, hi int64)) {
	for i := e.openAfter(lo); i < len(e.open) && e.open[i].from < hi; i++ {
		do(max(lo, e.open[i].from), min(hi, e.open[i].to))
	}
}

func (e *scheduleEntry) count(lo, hi int64) int64 {
	var n int64
	e.eachOpen(lo, hi, func(lo, hi int64) { n += e.source.count(lo, hi) })
	return n
}

func (e *scheduleEntry) mark(day *daySet, lo, hi int64) {
	e.eachOpen(lo, hi, func(lo, hi int64) { e.source.mark(day, lo, hi) })
}

// dayKey is that of the source, for days that are wholly open.
func (e *scheduleEntry) dayKey(begin int64) (int64, bool) {
	i := e.openAfter(begin)
	if i == len(e.open) || e.open[i].from > begin || e.open[i].to < begin+daySeconds {
		return 0, false
	}
	return e.source.dayKey(begin)
}

// setOpen keeps the time between the bounds (microseconds) and outside the
// blocked spans (seconds, ascending, apart).
func (e *scheduleEntry) setOpen(bounds timeSpan, blocked []timeSpan) {
	at, end := e.seconds(bounds.from), e.seconds(bounds.to)
	for _, b := range blocked {
		from, to := e.seconds(b.from*perSecond), e.seconds(b.to*perSecond)
		if at < min(from, end) {
			e.open = append(e.open, timeSpan{at, min(from, end)})
		}
		at = max(at, to)
	}
	if at < end {
		e.open = append(e.open, timeSpan{at, end})
	}
}

// datesAsSpans returns the instants whose local date lies in the given ranges
// of date numbers (the last one included). One date may give several spans,
// for a clock can be set back over midnight.
func (z zoneClock) datesAsSpans(dates []timeSpan) []timeSpan {
	var spans []timeSpan
	for _, d := range mergeSpans(dates) {
		lo, hi := d.from*daySeconds, d.to*daySeconds
		end := min(hi+2*daySeconds, endSecond)
		for u := max(lo-2*daySeconds, minSecond); u < end; {
			from, to, offset := z.spanAt(u)
			if s := (timeSpan{max(from, lo-offset), min(to, hi-offset)}); s.from < s.to {
				spans = append(spans, s)
			}
			u = to
		}
	}
	return mergeSpans(spans)
}

// mergeSpans sorts spans and joins those that touch.
func mergeSpans(spans []timeSpan) []timeSpan {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b timeSpan) int { return cmp.Compare(a.from, b.from) })
	merged := sorted[:0]
	for _, s := range sorted {
		if last := len(merged) - 1; last >= 0 && s.from <= merged[last].to {
			merged[last].to = max(merged[last].to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}
