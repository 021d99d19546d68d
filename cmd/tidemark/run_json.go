package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/jobstore"
)

// runJSON is a run in a listing. All fields are always there: a time or a number
// that is none is null, a text that is none is empty.
type runJSON struct {
	Key              string   `json:"key"`
	Job              string   `json:"job"`
	Target           string   `json:"target"`
	FireTime         timeJSON `json:"fire_time"`
	Trigger          string   `json:"trigger"`
	State            string   `json:"state"`
	Reason           string   `json:"reason"`
	Review           bool     `json:"review"`
	Attempt          int      `json:"attempt"`
	LogicalRun       int      `json:"logical_run"`
	Node             string   `json:"node"`
	CreatedAt        timeJSON `json:"created_at"`
	NotBefore        timeJSON `json:"not_before"`
	Deadline         timeJSON `json:"deadline"`
	StartedAt        timeJSON `json:"started_at"`
	AttemptStartedAt timeJSON `json:"attempt_started_at"`
	FinishedAt       timeJSON `json:"finished_at"`
	WindowFrom       timeJSON `json:"window_from"`
	WindowTo         timeJSON `json:"window_to"`
	Covers           int64    `json:"covers"`
	CoalescedInto    string   `json:"coalesced_into"`
	CancelRequested  bool     `json:"cancel_requested"`
	ExitCode         *int     `json:"exit_code"`
	Message          string   `json:"message"`
}

func toRunJSON(r *jobstore.Run) runJSON {
	from, to := windowOf(r)
	return runJSON{
		Key: r.Key, Job: r.Job, Target: r.Target, FireTime: timeJSON(r.FireTime),
		Trigger: string(r.Trigger), State: string(r.State), Reason: r.Reason, Review: r.Review,
		Attempt: r.Attempt, LogicalRun: r.LogicalRun, Node: r.Node,
		CreatedAt: timeJSON(r.CreatedAt), NotBefore: timeJSON(r.NotBefore), Deadline: timeJSON(r.Deadline),
		StartedAt: timeJSON(r.StartedAt), AttemptStartedAt: timeJSON(r.AttemptStartedAt), FinishedAt: timeJSON(r.FinishedAt),
		WindowFrom: timeJSON(from), WindowTo: timeJSON(to), Covers: r.Covers, CoalescedInto: r.CoalescedInto,
		CancelRequested: r.CancelRequested, ExitCode: r.ExitCode, Message: r.Message,
	}
}

// windowOf is the run's window. It is fixed when the run first starts; the end
// that a run carries before, or without a beginning, is none.
func windowOf(r *jobstore.Run) (from, to time.Time) {
	if r.WindowFrom.IsZero() {
		return time.Time{}, time.Time{}
	}
	return r.WindowFrom, r.WindowTo
}

func stateColour(s jobstore.State) colour {
	switch s {
	case jobstore.Succeeded:
		return green
	case jobstore.Failed, jobstore.Missed:
		return red
	case jobstore.Running:
		return cyan
	case jobstore.Retrying, jobstore.Canceled:
		return yellow
	}
	return plain
}

func outcomeColour(o jobstore.Outcome) colour {
	if o == jobstore.OutcomeMissed {
		return red
	}
	return plain
}

// stateText says where a run stands, and why.
func stateText(r *jobstore.Run) string {
	text := string(r.State)
	switch {
	case r.Waiting():
		text += " (waits its turn)"
	case r.CancelRequested && r.State.Open():
		text += " (asked to stop)"
	case r.Reason != "" && r.Reason != text:
		text += " (" + r.Reason + ")"
	}
	return text
}

// took is how long a run has taken, or takes already.
func took(r *jobstore.Run, now time.Time) string {
	switch {
	case r.StartedAt.IsZero():
		return ""
	case r.FinishedAt.IsZero():
		return roughly(now.Sub(r.StartedAt))
	}
	return roughly(r.FinishedAt.Sub(r.StartedAt))
}

// await polls until a run has ended.
func (c *cli) await(ctx context.Context, store jobstore.Store, key string) (jobstore.Run, error) {
	poll := time.NewTicker(followEvery)
	defer poll.Stop()
	for {
		run, _, err := store.Run(ctx, key)
		if err != nil || !run.State.Open() {
			return run, err
		}
		select {
		case <-ctx.Done():
			c.note("stopped waiting; run %s goes on", safe(key))
			return run, context.Canceled
		case <-poll.C:
		}
	}
}

// followEvery is how often a run that is waited for is looked at.
const followEvery = 250 * time.Millisecond

// notSucceeded is the failure of a run that was waited for; nil for a success.
func notSucceeded(run *jobstore.Run) error {
	if run.State == jobstore.Succeeded {
		return nil
	}
	text := fmt.Sprintf("run %s: %s", run.Key, stateText(run))
	if run.Message != "" && !strings.Contains(text, run.Message) {
		text += ": " + run.Message
	}
	f := failed("run_"+string(run.State), "%s", text)
	f.at, f.hint = run.Key, "`tidemark show` and `tidemark logs` say more"
	return f
}
