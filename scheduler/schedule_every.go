package scheduler

// everySource is an arithmetic progression in both directions.
type everySource struct {
	anchor, period int64
}

func (s everySource) next(lo, hi int64) (int64, bool) {
	sec := s.anchor + floorDivide(lo-s.anchor+s.period-1, s.period)*s.period
	return sec, sec < hi
}

func (s everySource) prev(lo, hi int64) (int64, bool) {
	sec := s.anchor + floorDivide(hi-1-s.anchor, s.period)*s.period
	return sec, sec >= lo && lo < hi
}

func (s everySource) count(lo, hi int64) int64 {
	return max(0, floorDivide(hi-1-s.anchor, s.period)-floorDivide(lo-1-s.anchor, s.period))
}

func (s everySource) mark(day *daySet, lo, hi int64) {
	sec, ok := s.next(lo, hi)
	if s.period >= 60 {
		for ; ok && sec < hi; sec += s.period {
			day.add(sec, 1)
		}
		return
	}
	var minute uint64 // the members of the minute that begins with one
	for i := int64(0); i < 60; i += s.period {
		minute |= 1 << i
	}
	for ok {
		day.add(sec, secondsWithin(minute, sec, lo, hi))
		sec, ok = s.next(sec+60, hi)
	}
}

func (s everySource) dayKey(begin int64) (int64, bool) {
	return begin - s.anchor - floorDivide(begin-s.anchor, s.period)*s.period, true
}

// onceSource is a single second.
type onceSource int64

func (s onceSource) next(lo, hi int64) (int64, bool) {
	return int64(s), lo <= int64(s) && int64(s) < hi
}
func (s onceSource) prev(lo, hi int64) (int64, bool) { return s.next(lo, hi) }

func (s onceSource) count(lo, hi int64) int64 {
	if _, ok := s.next(lo, hi); ok {
		return 1
	}
	return 0
}

func (s onceSource) mark(day *daySet, lo, hi int64) {
	if sec, ok := s.next(lo, hi); ok {
		day.add(sec, 1)
	}
}

func (s onceSource) dayKey(int64) (int64, bool) { return 0, false }
