package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// lateness asks for the two choices that have no right answer for everybody
// (semantics 3), and compares grace with jitter.
func (c *jobCheck) lateness() {
	if !c.has("misfire_grace_time") {
		c.fail("misfire_grace_time", "is set neither here nor in defaults",
			"it says how late a run may still start after downtime: hours for a nightly report, seconds for a cache warmer; write a duration such as 10m, or unlimited")
	}
	if !c.has("coalesce") {
		c.fail("coalesce", "is set neither here nor in defaults",
			"it says what becomes of several fire times missed in a row: latest or earliest makes one run of them, all makes up for each")
	}
	if !c.has("misfire_grace_time") || !c.ok("misfire_grace_time", "jitter") || time.Duration(c.MisfireGraceTime) == scheduler.Unlimited {
		return
	}
	if c.Jitter > 0 && time.Duration(c.Jitter) >= time.Duration(c.MisfireGraceTime) {
		c.failPair("jitter", "misfire_grace_time", "jitter is not below misfire_grace_time",
			"a run delayed to the end of the jitter would be missed: shorten the one or lengthen the other")
	}
}

// catchup belongs to coalesce: all, which would otherwise have no bound.
func (c *jobCheck) catchup() {
	if !c.has("coalesce") || !c.ok("coalesce") {
		return
	}
	all := c.Coalesce == string(jobstore.CoalesceAll)
	if !all {
		c.drop("catchup")
	}
	switch {
	case all && !c.has("catchup.max") && c.ok("catchup"):
		c.failPair("catchup", "coalesce", "coalesce: all wants catchup: {max: …}",
			"it bounds how many late runs an outage leaves: a number, or unlimited")
	case !all && c.has("catchup"):
		c.fail("catchup", "means nothing with coalesce: "+c.Coalesce, "only coalesce: all makes more than one late run: leave it out")
	}
}

// instances refuses a bound that lets nothing run.
func (c *jobCheck) instances() {
	if c.has("max_instances") && c.ok("max_instances") && c.MaxInstances < 1 {
		c.fail("max_instances", "less than one", "leave it out with overlap: allow for no bound; `paused: true` stops a job")
	}
}

// overlap refuses policies that drop what coalescing kept.
func (c *jobCheck) overlap() {
	if c.Coalesce == string(jobstore.CoalesceAll) && c.overlapPolicy() == jobstore.OverlapQueue {
		c.failPair("overlap", "coalesce", "overlap: queue drops what coalesce: all keeps", "write overlap: queue_all, or leave it out")
	}
}

// windows refuses jobs that need a window and can have none.
func (c *jobCheck) windows() {
	if !c.ok("overlap", "max_instances") || c.windowed() {
		return
	}
	field, why := "overlap", "overlap: allow"
	if c.overlapPolicy() != jobstore.OverlapAllow {
		field, why = "max_instances", "max_instances above 1"
	}
	const hint = "windows follow one another only where one run of a target is active at a time"
	switch {
	case c.SQL != nil:
		c.failPair(field, "sql", "a sql job uses its window, and "+why+" leaves it none", hint)
	case c.Window && c.ok("window"):
		c.failPair(field, "window", "window: true, and "+why+" leaves the job no windows", hint)
	}
	c.drop("watermark_start")
	if c.has("watermark_start") && c.ok("watermark_start") {
		c.fail("watermark_start", "means nothing with "+why, hint)
	}
}

// times checks the durations of attempts.
func (c *jobCheck) times() {
	if c.has("timeout") && c.ok("timeout") && c.Timeout == 0 {
		c.fail("timeout", "0s ends every attempt at once", "leave it out for no bound")
	}
	if c.SQL != nil && c.own("window") && c.ok("window") && !c.Window {
		c.fail("window", "a sql job always uses its window", "leave it out")
	}
}

// retry checks the policy that the job gives.
func (c *jobCheck) retry() {
	if !c.has("retry") {
		return
	}
	switch {
	case !c.has("retry.max_attempts") && c.ok("retry"):
		c.fail("retry", "max_attempts is missing", "without it a run has one attempt; write max_attempts: 5 or so")
	case c.has("retry.max_attempts"):
		atLeast(c.scope, "retry.max_attempts", c.Retry.MaxAttempts, 1)
	}
	if c.ok("retry.multiplier") && c.Retry.Multiplier < 1 {
		c.fail("retry.multiplier", "less than 1", "1 keeps the delay as it is, 2 doubles it with each failure")
	}
	if c.ok("retry.initial", "retry.max") && c.Retry.Initial > c.Retry.Max {
		path := "retry.initial"
		if !c.has(path) {
			path = "retry.max"
		}
		c.fail(path, "initial is above max", "initial bounds the first delay and max every one; they are 10s and 10m unless given")
	}
	for i, code := range c.Retry.ExitCodes {
		if path := itemPath("retry.exit_codes", i); c.ok(path) && (code < 1 || code > 255) {
			c.fail(path, "no exit code of a failure", "use 1 to 255")
		}
	}
}

// maxTargetBytes bounds a target: it stands in keys.
const maxTargetBytes = 255

// targets are part of the identity of runs: no two alike, and none empty, for
// that is the target of a job without any.
func (c *jobCheck) targets() {
	if c.has("targets") && c.ok("targets") && len(c.Targets) == 0 {
		c.fail("targets", "is empty: the job would never run", "leave it out for a job without targets, or write `paused: true`")
	}
	seen := map[string]bool{}
	for i, target := range c.Targets {
		path := itemPath("targets", i)
		if !c.ok(path) {
			continue
		}
		switch {
		case target == "":
			c.fail(path, "target is empty", "leave targets out for a job without any")
		case len(target) > maxTargetBytes:
			c.fail(path, fmt.Sprintf("target is longer than %d bytes", maxTargetBytes), "")
		case strings.ContainsFunc(target, notShown):
			c.fail(path, "target holds a control character", "")
		case seen[target]:
			c.fail(path, "target "+target+" is listed twice", "")
		}
		seen[target] = true
	}
}

// labels keeps their names fit to be shown and asked for.
func (c *jobCheck) labels() {
	for name := range c.Labels {
		if path := join("labels", name); name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, notPlain) {
			c.fail(path, "no name of a label", fmt.Sprintf("use 1 to %d bytes without blanks", maxNameBytes))
		}
	}
}

// notShown reports characters that cannot stand in a line of text.
func notShown(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' }
