package scheduler

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// count returns the number of distinct fire times in [lo, hi), in Unix
// microseconds. Entries with different fractions of a second never meet; those
// with the same one are counted as a union.
func (s *Schedule) count(lo, hi int64) int64 {
	var n int64
	entries := slices.Clone(s.entries)
	for len(entries) > 0 {
		fraction := entries[0].fraction
		same := func(e scheduleEntry) bool { return e.fraction == fraction }
		var group []scheduleEntry
		for _, e := range entries {
			if same(e) {
				group = append(group, e)
			}
		}
		entries = slices.DeleteFunc(entries, same)
		n += countUnion(group, group[0].seconds(lo), group[0].seconds(hi))
	}
	return n
}

// countUnion counts the seconds in [lo, hi) on which any of the entries fires.
// It goes through the days (of UTC) on which something fires.
func countUnion(entries []scheduleEntry, lo, hi int64) int64 {
	if len(entries) == 1 {
		return entries[0].count(lo, hi)
	}
	union := dayUnion{entries: entries, heads: make([]int64, len(entries)), known: map[string]int64{}}
	for i := range union.heads {
		union.heads[i] = minSecond - 1
	}
	var n int64
	for u := lo; ; {
		union.advance(u, hi)
		first := slices.Min(union.heads)
		if first >= hi {
			return n
		}
		begin := floorDivide(first, daySeconds) * daySeconds
		u = min(begin+daySeconds, hi)
		n += union.count(timeSpan{max(begin, lo), u})
	}
}

// dayUnion counts a union day by day. Where one entry alone fires on a day, it
// counts for itself; otherwise all are marked in one set, once for all days
// that look alike.
type dayUnion struct {
	entries []scheduleEntry
	heads   []int64 // each entry's next fire time, the end of the count if none
	known   map[string]int64
	day     daySet
	key     []byte
}

// advance moves the heads to u or beyond.
func (d *dayUnion) advance(u, hi int64) {
	for i, head := range d.heads {
		if head >= u {
			continue
		}
		next, ok := d.entries[i].nextSecond(u, hi)
		if !ok {
			next = hi
		}
		d.heads[i] = next
	}
}

// count counts within one day, or a part of it.
func (d *dayUnion) count(part timeSpan) int64 {
	firing, only := 0, 0
	for i, head := range d.heads {
		if head < part.to {
			firing, only = firing+1, i
		}
	}
	if firing == 1 {
		return d.entries[only].count(part.from, part.to)
	}
	alike := d.likeness(part)
	if n, ok := d.known[string(d.key)]; ok && alike {
		return n
	}
	d.day = daySet{begin: floorDivide(part.from, daySeconds) * daySeconds}
	for i, head := range d.heads {
		if head < part.to {
			d.entries[i].mark(&d.day, part.from, part.to)
		}
	}
	n := d.day.size()
	if alike {
		d.known[string(d.key)] = n
	}
	return n
}

// likeness sets the key that the day shares with all days that look alike, and
// returns false if it is like no other.
func (d *dayUnion) likeness(part timeSpan) bool {
	d.key = d.key[:0]
	if part.to-part.from != daySeconds {
		return false
	}
	for i, head := range d.heads {
		if head >= part.to {
			d.key = append(d.key, 0) // silent
			continue
		}
		key, ok := d.entries[i].dayKey(part.from)
		if !ok {
			return false
		}
		d.key = binary.AppendVarint(append(d.key, 1), key)
	}
	return true
}

// daySet is a set of the seconds of one day: a word for each minute, a bit for
// each second.
type daySet struct {
	begin   int64
	minutes [24*60 + 1]uint64 // one to spare, for add
}

// add puts the seconds of the 60 from start on into the set: bit 0 is start
// itself. They must lie within the day.
func (d *daySet) add(start int64, seconds uint64) {
	if seconds == 0 {
		return
	}
	if shift := bits.TrailingZeros64(seconds); start < d.begin {
		start, seconds = start+int64(shift), seconds>>shift
	}
	at := start - d.begin
	minute, second := at/60, at%60
	d.minutes[minute] |= seconds << second & (1<<60 - 1)
	d.minutes[minute+1] |= seconds >> (60 - second)
}

// size returns the number of seconds in the set.
func (d *daySet) size() int64 {
	n := 0
	for _, seconds := range d.minutes {
		n += bits.OnesCount64(seconds)
	}
	return int64(n)
}
