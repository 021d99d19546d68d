package main

import (
	"fmt"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// planJSON is what `plan` says of one job. Counts are of fire times, not times
// targets.
type planJSON struct {
	Job         string       `json:"job"`
	Schedule    string       `json:"schedule"`
	Timezone    string       `json:"timezone"`
	LastPlanned timeJSON     `json:"last_planned"`
	Now         timeJSON     `json:"now"`
	Due         int64        `json:"due"`
	Expired     int64        `json:"expired"`
	Coalesced   int64        `json:"coalesced"`
	Skipped     int64        `json:"skipped"`
	Held        int64        `json:"held"`
	Next        timeJSON     `json:"next"`
	Paused      bool         `json:"paused"`
	Runs        []newRunJSON `json:"runs"`
	RunsLeftOut int64        `json:"runs_left_out"` // fire times kept beyond those listed
	Ranges      []rangeJSON  `json:"ranges"`
}

type newRunJSON struct {
	Key        string   `json:"key"`
	FireTime   timeJSON `json:"fire_time"`
	Target     string   `json:"target"`
	Trigger    string   `json:"trigger"`
	WindowFrom timeJSON `json:"window_from"`
	WindowTo   timeJSON `json:"window_to"`
	Covers     int64    `json:"covers"`
	NotBefore  timeJSON `json:"not_before"`
	Deadline   timeJSON `json:"deadline"`
}

type rangeJSON struct {
	First   timeJSON `json:"first"`
	Last    timeJSON `json:"last"`
	Count   int64    `json:"count"`
	Outcome string   `json:"outcome"`
	Reason  string   `json:"reason"`
	Into    timeJSON `json:"into"` // fire time of the run that covers them
}

func rangesJSON(ranges []jobstore.Range) []rangeJSON {
	out := make([]rangeJSON, len(ranges))
	for i, r := range ranges {
		out[i] = rangeJSON{timeJSON(r.First), timeJSON(r.Last), r.Count, string(r.Outcome), r.Reason, timeJSON(r.Into)}
	}
	return out
}

func (p *planned) json() planJSON {
	out := planJSON{
		Job: p.job.Name, Schedule: p.schedule, Timezone: p.job.Schedule.Location().String(),
		LastPlanned: timeJSON(p.state.LastPlanned), Now: timeJSON(p.now),
		Due: p.plan.Due, Expired: p.plan.Expired, Coalesced: p.plan.Coalesced, Skipped: p.plan.Skipped,
		Next: timeJSON(p.plan.Next), Paused: p.paused != "",
		Runs: make([]newRunJSON, len(p.runs)), RunsLeftOut: p.leftOut, Ranges: rangesJSON(p.plan.Ranges),
	}
	for i, w := range p.windows() {
		run := p.runs[i]
		out.Runs[i] = newRunJSON{
			Key: run.Key, FireTime: timeJSON(run.FireTime), Target: run.Target, Trigger: string(run.Trigger),
			WindowFrom: timeJSON(w.After), WindowTo: timeJSON(w.Until), Covers: run.Covers,
			NotBefore: timeJSON(run.NotBefore), Deadline: timeJSON(run.Deadline),
		}
	}
	return out
}

func (c *cli) printPlans(plans []planned) {
	for i := range plans {
		if i > 0 {
			c.println()
		}
		c.printPlan(&plans[i])
	}
	if len(plans) == 0 {
		c.println("no jobs")
	}
}

func (c *cli) printPlan(p *planned) {
	zone := p.job.Schedule.Location()
	title := fmt.Sprintf("%s, %s; grace %s, coalesce %s", p.schedule, zone, graceText(p.job.Grace), p.job.Coalesce)
	if p.job.CatchupMax > 0 {
		title += fmt.Sprintf(" (catchup.max %d)", p.job.CatchupMax)
	}
	if p.job.Name != "" {
		title = c.tint(safe(p.job.Name), cyan) + "  " + title
	}
	c.println(title)
	at := func(t time.Time) string { return jobstore.FormatTime(t) + " (" + local(t, zone) + ")" }
	if !p.state.LastPlanned.IsZero() {
		c.println("  last planned  " + at(p.state.LastPlanned))
	}
	c.println("  now           " + at(p.now))
	switch {
	case p.paused != "":
		c.println("  paused " + safe(p.paused) + ": nothing is planned or started")
	case p.now.Before(p.state.LastPlanned):
		c.println("  nothing is due: the clock went back behind the last plan")
	case p.plan.Due == 0:
		c.println("  nothing is due")
	default:
		c.println("  " + p.summary())
		c.printOutcomes(p, zone)
	}
	if p.plan.Next.IsZero() {
		c.println("  fires no more")
		return
	}
	c.println("  next          " + at(p.plan.Next))
}

// summary counts what becomes of the due fire times.
func (p *planned) summary() string {
	kept := p.plan.Due - p.plan.Expired - p.plan.Coalesced - p.plan.Skipped
	text := fmt.Sprintf("%s due: %d to run", plural(p.plan.Due, "fire time"), kept)
	if n := len(p.job.Targets); n > 1 {
		text += fmt.Sprintf(" for each of %d targets", n)
	}
	for _, part := range []struct {
		n    int64
		what string
	}{{p.plan.Coalesced, "coalesced"}, {p.plan.Expired, "expired"}, {p.plan.Skipped, "skipped"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}

// printOutcomes lists what becomes of the due fire times, the oldest first.
func (c *cli) printOutcomes(p *planned, zone *time.Location) {
	t := table{c: c, tints: make([]bool, 4)}
	for _, r := range p.plan.Ranges {
		t.row(cell{"  " + string(r.Outcome), outcomeColour(r.Outcome)}, r.Count, spanOf(r.First, r.Last, zone), p.why(r, zone))
	}
	windows := p.windows()
	for i, run := range p.runs[:min(len(p.runs), maxListed)] {
		t.row(cell{"  run", green}, run.Covers, local(run.FireTime, zone), p.newRunText(&run, windows[i]))
	}
	t.print()
	if len(p.runs) > maxListed {
		c.printf("  … and %d runs more\n", int64(len(p.runs)-maxListed)+p.leftOut*int64(len(p.job.Targets)))
	}
}

// newRunText says what is special about a run to be made.
func (p *planned) newRunText(run *jobstore.NewRun, window scheduler.Interval) string {
	text := run.Key
	if run.Trigger == jobstore.TriggerCatchUp {
		text += ", " + roughly(p.now.Sub(run.FireTime)) + " late"
	}
	if run.NotBefore.After(run.FireTime) {
		text += ", starts " + roughly(run.NotBefore.Sub(run.FireTime)) + " later (jitter)"
	}
	if run.Covers > 1 {
		text += fmt.Sprintf(", stands for %d", run.Covers)
	}
	if !window.Until.IsZero() {
		text += ", window " + jobstore.FormatTime(window.After) + " to " + jobstore.FormatTime(window.Until)
	}
	return text
}

func spanOf(first, last time.Time, zone *time.Location) string {
	if first.Equal(last) {
		return local(first, zone)
	}
	return local(first, zone) + " … " + local(last, zone)
}

// why explains a range.
func (p *planned) why(r jobstore.Range, zone *time.Location) string {
	switch r.Reason {
	case jobstore.ReasonGrace:
		return "later than the grace of " + graceText(p.job.Grace) + " allows"
	case jobstore.ReasonCoalesced:
		keeps := "newest"
		if p.job.Coalesce == jobstore.CoalesceEarliest {
			keeps = "oldest"
		}
		return fmt.Sprintf("into %s: coalesce %s keeps the %s", local(r.Into, zone), p.job.Coalesce, keeps)
	case jobstore.ReasonCatchupMax:
		return fmt.Sprintf("into %s: catchup.max keeps the newest %d", local(r.Into, zone), p.job.CatchupMax)
	case jobstore.ReasonPaused:
		return "passed over by the pause (on_resume: skip)"
	}
	return r.Reason
}

func graceText(d time.Duration) string {
	if d == scheduler.Unlimited {
		return "unlimited"
	}
	return spanText(d)
}

// maxListed bounds what people are shown of a plan; --json lists all.
const maxListed = 100
