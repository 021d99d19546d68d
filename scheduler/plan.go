package scheduler

import (
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// lateAfter is how long after its instant a run may be planned and still count
// as on time (semantics 1, "late").
const lateAfter = time.Second

// PlanInput is all that a plan depends on. There is no other input: no clock,
// no store, no mode for start-up.
type PlanInput struct {
	Schedule    *Schedule
	Grace       time.Duration // Unlimited expires nothing
	Coalesce    jobstore.Coalesce
	CatchupMax  int // under all: keep the newest this many; 0: every one
	LastPlanned time.Time
	Now         time.Time
	Passed      Interval // a pause whose instants are passed over; zero: none
	// Limit bounds the runs of one plan under coalesce: all without CatchupMax,
	// so that a year of seconds is planned in pieces; 0: no bound.
	Limit int
}

// Interval is the half-open stretch (After, Until].
type Interval struct{ After, Until time.Time }

func (i Interval) empty() bool { return !i.After.Before(i.Until) }

// cut returns the part of i in (after, until].
func (i Interval) cut(after, until time.Time) Interval {
	if i.After.Before(after) {
		i.After = after
	}
	if i.Until.After(until) {
		i.Until = until
	}
	return i
}

// Plan is what a job's due instants become. Every one of them is either in
// Kept or in exactly one of Ranges.
type Plan struct {
	Due, Expired, Coalesced, Skipped int64 // fire times; Due is the sum of all that follow and of Kept

	Kept        []Kept           // oldest first
	Ranges      []jobstore.Range // oldest first within an outcome
	LastPlanned time.Time        // the newest due instant dealt with, else as it was
	Next        time.Time        // the first instant after it; zero: never again
	More        bool             // Limit cut the plan: plan again from LastPlanned
}

// Kept is a fire time that becomes one run for each target.
type Kept struct {
	FireTime time.Time
	Late     bool
	Covers   int64     // fire times that it stands for, its own included
	WindowTo time.Time // the newest of them
}

// MakePlan decides what becomes of every instant in (LastPlanned, Now]
// (semantics 3, steps 1 to 6). It is pure; its cost follows what is kept and
// the days in the gap, not the number of instants.
func MakePlan(in PlanInput) Plan {
	p := planner{in: in, until: in.Now}
	p.out.LastPlanned = in.LastPlanned
	if in.Now.After(in.LastPlanned) {
		p.split()
		p.limit()
		p.settle()
		p.keep()
	}
	p.out.Next, _ = in.Schedule.Next(p.out.LastPlanned)
	return p.out
}

type planner struct {
	in       PlanInput
	until    time.Time
	expired  []Interval
	passed   []Interval
	eligible []Interval
	out      Plan
}

// split sorts the gap into stretches: passed over by a pause, expired, eligible.
func (p *planner) split() {
	gap := Interval{p.in.LastPlanned, p.until}
	open := []Interval{gap}
	if pause := p.in.Passed.cut(gap.After, gap.Until); !pause.empty() {
		p.passed = []Interval{pause}
		open = []Interval{{gap.After, pause.After}, {pause.Until, gap.Until}}
	}
	limit := gap.After
	if p.in.Grace != Unlimited {
		// Equal to grace still runs, and instants are whole microseconds.
		limit = p.in.Now.Add(-p.in.Grace - time.Microsecond)
	}
	for _, i := range open {
		if late := i.cut(i.After, limit); !late.empty() {
			p.expired = append(p.expired, late)
		}
		if rest := i.cut(limit, i.Until); !rest.empty() {
			p.eligible = append(p.eligible, rest)
		}
	}
}

// limit moves the end of the plan back where coalesce: all would keep more
// than Limit runs. Planning the rest later gives the same outcome.
func (p *planner) limit() {
	if p.in.Limit == 0 || p.in.Coalesce != jobstore.CoalesceAll || p.in.CatchupMax != 0 {
		return
	}
	kept := p.first(p.in.Limit + 1)
	if len(kept) <= p.in.Limit {
		return
	}
	p.until, p.out.More = kept[p.in.Limit-1], true
	for _, list := range []*[]Interval{&p.expired, &p.passed, &p.eligible} {
		cut := (*list)[:0]
		for _, i := range *list {
			if i = i.cut(i.After, p.until); !i.empty() {
				cut = append(cut, i)
			}
		}
		*list = cut
	}
}

// settle records what makes no run whatever the coalescing says.
func (p *planner) settle() {
	for _, i := range p.expired {
		p.out.Expired += p.record(i, jobstore.OutcomeMissed, jobstore.ReasonGrace, time.Time{}).Count
	}
	for _, i := range p.passed {
		p.out.Skipped += p.record(i, jobstore.OutcomeSkipped, jobstore.ReasonPaused, time.Time{}).Count
	}
}

// keep applies the coalescing to the eligible instants.
func (p *planner) keep() {
	switch p.in.Coalesce {
	case jobstore.CoalesceEarliest:
		p.fold(p.first(1), jobstore.ReasonCoalesced)
	case jobstore.CoalesceLatest:
		p.fold(p.last(1), jobstore.ReasonCoalesced)
	case jobstore.CoalesceAll:
		if p.in.CatchupMax > 0 {
			p.fold(p.last(p.in.CatchupMax), jobstore.ReasonCatchupMax)
			break
		}
		for _, i := range p.eligible {
			p.out.Kept = append(p.out.Kept, p.kept(p.in.Schedule.FirstN(i.After, i.Until, int(p.in.Schedule.Count(i.After, i.Until))))...)
		}
	}
	p.out.Due += int64(len(p.out.Kept))
	if n := len(p.out.Kept); n > 0 {
		p.see(p.out.Kept[n-1].FireTime)
	}
}

// fold keeps the given instants, which stand together at one end of the
// eligible ones, and coalesces the others into the first of them.
func (p *planner) fold(instants []time.Time, reason string) {
	if len(instants) == 0 {
		return
	}
	p.out.Kept = p.kept(instants)
	into := &p.out.Kept[0]
	first, last := instants[0], instants[len(instants)-1]
	for _, i := range p.eligible {
		for _, rest := range []Interval{i.cut(i.After, first.Add(-time.Microsecond)), i.cut(last, i.Until)} {
			if rest.empty() {
				continue
			}
			r := p.record(rest, jobstore.OutcomeCoalesced, reason, into.FireTime)
			p.out.Coalesced += r.Count
			into.Covers += r.Count
			if p.in.Coalesce == jobstore.CoalesceEarliest && r.Last.After(into.WindowTo) {
				into.WindowTo = r.Last
			}
		}
	}
}

func (p *planner) kept(instants []time.Time) []Kept {
	kept := make([]Kept, len(instants))
	for i, t := range instants {
		kept[i] = Kept{FireTime: t, Late: p.in.Now.Sub(t) > lateAfter, Covers: 1, WindowTo: t}
	}
	return kept
}

// record adds a range for the instants in i, if there are any, and returns it.
func (p *planner) record(i Interval, outcome jobstore.Outcome, reason string, into time.Time) jobstore.Range {
	r, ok := rangeOf(p.in.Schedule, i)
	if !ok {
		return jobstore.Range{}
	}
	r.Outcome, r.Reason, r.Into = outcome, reason, into
	p.out.Ranges = append(p.out.Ranges, r)
	p.out.Due += r.Count
	p.see(r.Last)
	return r
}

func (p *planner) see(t time.Time) {
	if t.After(p.out.LastPlanned) {
		p.out.LastPlanned = t
	}
}

func (p *planner) first(n int) []time.Time {
	var out []time.Time
	for _, i := range p.eligible {
		if len(out) < n {
			out = append(out, p.in.Schedule.FirstN(i.After, i.Until, n-len(out))...)
		}
	}
	return out
}

func (p *planner) last(n int) []time.Time {
	var out []time.Time
	for k := len(p.eligible) - 1; k >= 0 && len(out) < n; k-- {
		i := p.eligible[k]
		out = append(p.in.Schedule.LastN(i.After, i.Until, n-len(out)), out...)
	}
	return out
}

// rangeOf is the range of the instants in i; ok is false where there is none.
func rangeOf(s *Schedule, i Interval) (r jobstore.Range, ok bool) {
	if i.empty() {
		return r, false
	}
	first, ok := s.Next(i.After)
	if !ok || first.After(i.Until) {
		return r, false
	}
	last, ok := s.Prev(i.Until)
	if !ok {
		return r, false
	}
	return jobstore.Range{First: first, Last: last, Count: s.Count(i.After, i.Until)}, true
}
