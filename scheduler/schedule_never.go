package scheduler

import (
	"slices"
	"time"
)

// opened returns the entries with the time that the bounds (microseconds) and
// the excluded dates leave open to them.
func (p *scheduleParser) opened(bounds timeSpan, dates []timeSpan) []scheduleEntry {
	entries := slices.Clone(p.entries)
	blocked := map[*time.Location][]timeSpan{}
	for i := range entries {
		zone := entries[i].zone
		if _, ok := blocked[zone.loc]; !ok {
			blocked[zone.loc] = zone.datesAsSpans(dates)
		}
		entries[i].setOpen(bounds, blocked[zone.loc])
	}
	return entries
}

func canFire(entries []scheduleEntry) bool {
	return slices.ContainsFunc(entries, func(e scheduleEntry) bool {
		_, ok := e.next(minSecond*perSecond, endSecond*perSecond)
		return ok
	})
}

// neverFires adds the fault of a schedule whose expressions are all right and
// which can never fire all the same: for its bounds, for its exclusions, or
// because the clock of its zone never shows such a time.
func (p *scheduleParser) neverFires(bounds timeSpan, dates []timeSpan) {
	always := timeSpan{minSecond * perSecond, endSecond * perSecond}
	switch {
	case canFire(p.opened(bounds, nil)):
		p.fault("exclude", 0, 0, "never fires: every fire time lies on an excluded date", "exclude less")
	case !canFire(p.opened(always, nil)):
		p.fault("schedule", 0, 0, "never fires: the clock of its zone never shows such a time", "")
	case p.spec.EndAt == nil:
		p.fault("start_at", 0, 0, "never fires: no fire time lies after start_at", "")
	case p.spec.StartAt == nil:
		p.fault("end_at", 0, 0, "never fires: no fire time lies before end_at", "")
	default:
		p.fault("end_at", 0, 0, "never fires: no fire time lies between start_at and end_at", "")
	}
}
