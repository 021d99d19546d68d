package scheduler

import (
	"fmt"
	"time"
)

// maxNotes bounds what Notes returns: its reader is a person.
const maxNotes = 50

// Notes explains, for a person, what is easily taken for a mistake in
// (after, until]: where a change of the clock moves, drops or repeats a fire
// time, and what @every counts from. It is empty where there is nothing to
// explain.
func (s *Schedule) Notes(after, until time.Time) []string {
	var notes []string
	lo, hi := microsecond(after)+1, microsecond(until)+1
	for i := range s.entries {
		e := &s.entries[i]
		switch source := e.source.(type) {
		case *cronSource:
			notes = append(notes, source.changeNotes(e, e.seconds(lo), e.seconds(hi), maxNotes-len(notes))...)
		case everySource:
			if _, fires := e.next(lo, hi); fires && len(notes) < maxNotes {
				notes = append(notes, e.text+" counts from "+source.anchorText(e.fraction))
			}
		}
	}
	return notes
}

func (s everySource) anchorText(fraction int64) string {
	if s.anchor == 0 && fraction == 0 {
		return "1970-01-01T00:00:00Z (start_at chooses another instant)"
	}
	return "start_at, " + instantText(s.anchor*perSecond+fraction)
}

// changeNotes returns a note for each change of the clock in [lo, hi) that
// touches a fire time, at most n.
func (c *cronSource) changeNotes(e *scheduleEntry, lo, hi int64, n int) []string {
	var notes []string
	for u := c.stretchAt(max(lo-1, minSecond)).to; u < hi && len(notes) < n; {
		st := c.stretchAt(u)
		change := clockChange{at: u, before: u + c.zone.offsetAt(u-1), after: u + st.offset}
		outcome := ""
		if change.before < change.after {
			outcome = c.skipOutcome(e, change, st)
		} else {
			outcome = c.repeatOutcome(e, change)
		}
		if outcome != "" {
			notes = append(notes, fmt.Sprintf("%q: %s, which %s: %s", e.text, change.text(c.zone), c.touched(change), outcome))
		}
		u = st.to
	}
	return notes
}

// clockChange is an instant at which a clock is set, and its readings there by
// the offsets before and after.
type clockChange struct{ at, before, after int64 }

func (c clockChange) text(zone zoneClock) string {
	layout := "15:04:05"
	if c.before%60 == 0 && c.after%60 == 0 {
		layout = "15:04"
	}
	before, after := time.Unix(c.before, 0).UTC(), time.Unix(c.after, 0).UTC()
	text := fmt.Sprintf("the clock of %s goes from %s to ", zone.loc, before.Format(time.DateOnly+" "+layout))
	if before.Day() != after.Day() {
		layout = time.DateOnly + " " + layout
	}
	return text + after.Format(layout)
}

// touched names the readings that fire and are skipped or repeated.
func (c *cronSource) touched(change clockChange) string {
	what, lo, hi := "skips", change.before, change.after
	if lo > hi {
		what, lo, hi = "repeats", hi, lo
	}
	first, _ := c.calendar.next(lo, hi)
	layout := "15:04"
	if first%60 != 0 {
		layout = time.TimeOnly
	}
	text := what + " " + time.Unix(first, 0).UTC().Format(layout)
	if more := c.calendar.count(lo, hi) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// skipOutcome says what becomes of the readings that a change skips.
func (c *cronSource) skipOutcome(e *scheduleEntry, change clockChange, st zoneStretch) string {
	switch {
	case !c.calendar.any(change.before, change.after):
		return ""
	case !c.fixed:
		return "does not fire, for a recurring schedule goes by real time"
	case c.skipGap:
		return "does not fire (dst_gap: skip)"
	case st.skipped == 0:
		return "does not fire, for a gap of more than three hours is not made up"
	case !e.openAt(change.at):
		return ""
	}
	return "fires once, right after, at " + instantText(change.at*perSecond) + " (unless dst_gap: skip)"
}

// repeatOutcome says what becomes of the readings that a change repeats.
func (c *cronSource) repeatOutcome(e *scheduleEntry, change clockChange) string {
	reading, ok := c.calendar.next(change.after, change.before)
	first := reading - (change.before - change.at)
	second := reading - (change.after - change.at)
	switch {
	case !ok || !e.openAt(first) && !e.openAt(second):
		return ""
	case !c.fixed:
		return "fires both times, for a recurring schedule goes by real time"
	case c.overlap == "both":
		return "fires both times (dst_overlap: both)"
	case c.overlap == "last":
		return "fires the second time, at " + instantText(second*perSecond) + " (dst_overlap: last)"
	}
	return "fires the first time, at " + instantText(first*perSecond) + " (unless dst_overlap: both or last)"
}

func instantText(u int64) string { return time.UnixMicro(u).UTC().Format(time.RFC3339Nano) }

// openAt reports whether the entry may fire at the given second.
func (e *scheduleEntry) openAt(sec int64) bool {
	i := e.openAfter(sec)
	return i < len(e.open) && e.open[i].from <= sec
}
