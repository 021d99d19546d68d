package config

import (
	"errors"
	"slices"
	"time"

	"github.com/tidemarkd/tidemark/scheduler"
)

// schedule makes the spec and the schedule of it. Both are empty where a fault
// was reported.
func (c *jobCheck) schedule() (scheduler.ScheduleSpec, *scheduler.Schedule) {
	spec := c.scheduleSpec()
	if c.has("timezone") && c.ok("timezone") && c.Timezone == "" {
		c.fail("timezone", "names no zone", "write an IANA name such as Europe/Paris, or leave it out for the file's")
	}
	schedule, err := scheduler.ParseSchedule(spec)
	for _, fault := range c.unknownYet(err) {
		path := itemPath(fault.Field, fault.Index)
		if !c.has(path) {
			path = fault.Field
		}
		c.failAt(path, fault.Offset, fault.Msg, fault.Hint)
	}
	return spec, schedule
}

// unknownYet leaves out the faults of fields that were found bad before, or are
// not given and thus not the job's.
func (c *jobCheck) unknownYet(err error) []*scheduler.ScheduleError {
	return slices.DeleteFunc(scheduleErrors(err), func(fault *scheduler.ScheduleError) bool {
		return !c.has(fault.Field) || !c.ok(fault.Field)
	})
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
		spec.Timezone = c.doc.Timezone
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
