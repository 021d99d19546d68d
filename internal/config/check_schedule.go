package config

import (
	"errors"
	"time"

	"github.com/tidemarkd/tidemark/scheduler"
)

// schedule makes the spec and the schedule of it. Both are empty where a fault
// was reported.
func (c *jobCheck) schedule() (scheduler.ScheduleSpec, *scheduler.Schedule) {
	if !c.has("schedule") {
		c.fail("schedule", "is missing", `write a cron expression such as "0 3 * * *", or "@every 30s"`)
	}
	spec := c.scheduleSpec()
	schedule, err := scheduler.ParseSchedule(spec)
	for _, fault := range scheduleErrors(err) {
		path := fault.Field
		if path == "schedule" || path == "exclude" {
			path = itemPath(path, fault.Index)
		}
		if c.ok(top(path)) && c.has(top(path)) {
			c.failAt(path, fault.Offset, fault.Msg, fault.Hint)
		}
	}
	return spec, schedule
}

// scheduleSpec is what the job says of its schedule. Fields that are bad are
// left out, so that the others can be judged.
func (c *jobCheck) scheduleSpec() scheduler.ScheduleSpec {
	spec := scheduler.ScheduleSpec{
		Expressions: c.Schedule,
		Timezone:    c.Timezone,
		Seconds:     c.Seconds,
		GapPolicy:   c.DSTGap,
	}
	if !c.own("timezone") {
		spec.TimezoneIsDefault = true
	}
	if !c.has("timezone") || !c.ok("timezone") {
		spec.Timezone = c.defaultZone()
	}
	if c.DSTOverlap != "first" {
		spec.OverlapPolicy = c.DSTOverlap
	}
	spec.StartAt = c.bound("start_at", c.StartAt)
	spec.EndAt = c.bound("end_at", c.EndAt)
	for _, d := range c.Exclude {
		spec.Exclude = append(spec.Exclude, string(d))
	}
	return spec
}

// defaultZone is the file's zone; a bad one is reported at the top alone.
func (c *jobCheck) defaultZone() string {
	if _, err := scheduler.LoadZone(c.doc.Timezone); err != nil {
		return "UTC"
	}
	return c.doc.Timezone
}

func (c *jobCheck) bound(path string, t time.Time) *time.Time {
	if !c.has(path) || !c.ok(path) {
		return nil
	}
	return &t
}

// scheduleErrors takes the faults of a schedule apart.
func scheduleErrors(err error) []*scheduler.ScheduleError {
	var one *scheduler.ScheduleError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*scheduler.ScheduleError
		for _, e := range joined.Unwrap() {
			all = append(all, scheduleErrors(e)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []*scheduler.ScheduleError{one}
	}
	return nil
}

// scheduleFault is message and hint of a fault of a schedule.
func scheduleFault(err error) (msg, hint string) {
	for _, fault := range scheduleErrors(err) {
		return fault.Msg, fault.Hint
	}
	return err.Error(), ""
}
