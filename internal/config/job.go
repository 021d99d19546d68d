package config

import (
	"time"

	"github.com/tidemarkd/tidemark/internal/executor"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// jobCheck makes a Job of the keys of one, defaults merged in. Each rule looks
// at fields that are good by themselves, and reports on its own.
type jobCheck struct {
	*jobKeys
	name string
	doc  *document
}

// job checks everything and returns the job, which is of use only where
// nothing was reported.
func (c *jobCheck) job() Job {
	c.lateness()
	c.catchup()
	c.instances()
	c.overlap()
	c.windows()
	c.times()
	c.retry()
	c.targets()
	c.labels()
	if !c.has("schedule") {
		c.fail("schedule", "is missing", `write a cron expression such as "0 3 * * *", or "@every 30s"`)
	}
	spec, schedule := c.schedule()
	kind := c.work()
	return Job{
		Job:    c.scheduled(c.definition(spec, kind), schedule),
		Exec:   c.Exec,
		HTTP:   c.HTTP,
		SQL:    c.SQL,
		Common: c.common(),
		Pos:    Pos{File: c.src.name, Line: c.key.Line, Col: c.key.Column},
	}
}

func (c *jobCheck) scheduled(def jobstore.Definition, schedule *scheduler.Schedule) scheduler.Job {
	j := scheduler.Job{
		Definition:       def,
		Schedule:         schedule,
		Grace:            time.Duration(c.MisfireGraceTime),
		CatchupMax:       int(c.Catchup.Max),
		Jitter:           time.Duration(c.Jitter),
		Targets:          c.Targets,
		OnScheduleChange: orElse(c.OnScheduleChange, "supersede"),
		OnResume:         jobstore.ResumePolicy(orElse(c.OnResume, string(jobstore.ResumeSkip))),
		RenamedFrom:      c.RenamedFrom,
		Timeout:          time.Duration(c.Timeout),
		KillGrace:        max(c.common().KillGrace, 0),
		Description:      c.Description,
		Labels:           c.Labels,
	}
	if def.Coalesce != jobstore.CoalesceAll {
		j.CatchupMax = 0
	}
	if len(j.Targets) == 0 {
		j.Targets = []string{""}
	}
	if c.has("retry") {
		j.Retry = scheduler.Retry{
			MaxAttempts: int(c.Retry.MaxAttempts),
			Initial:     time.Duration(c.Retry.Initial),
			Max:         time.Duration(c.Retry.Max),
			Multiplier:  float64(c.Retry.Multiplier),
		}
	}
	return j
}

func (c *jobCheck) common() executor.Common {
	common := executor.Common{KillGrace: executor.DefaultKillGrace, Windowed: c.windowed()}
	switch {
	case c.has("kill_grace") && c.KillGrace == 0:
		common.KillGrace = -1 // at once: zero would be the default to an executor
	case c.has("kill_grace"):
		common.KillGrace = time.Duration(c.KillGrace)
	}
	for _, code := range c.Retry.ExitCodes {
		common.Retryable = append(common.Retryable, int(code))
	}
	return common
}

// overlapPolicy is what the job says, or what its coalescing leaves.
func (c *jobCheck) overlapPolicy() jobstore.Overlap {
	switch {
	case c.has("overlap"):
		return jobstore.Overlap(c.Overlap)
	case c.Coalesce == string(jobstore.CoalesceAll):
		return jobstore.OverlapQueueAll
	}
	return jobstore.OverlapQueue
}

// maxInstances is 0 where there is no bound.
func (c *jobCheck) maxInstances() int {
	switch {
	case c.has("max_instances"):
		return c.MaxInstances
	case c.overlapPolicy() == jobstore.OverlapAllow:
		return 0
	}
	return 1
}

// windowed reports whether runs carry a window: only where one follows the
// other is there an order to lean on (semantics 3).
func (c *jobCheck) windowed() bool {
	return c.overlapPolicy() != jobstore.OverlapAllow && c.maxInstances() == 1
}

// usesWindow reports whether the work depends on its window.
func (c *jobCheck) usesWindow() bool { return c.Window || c.SQL != nil }

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
