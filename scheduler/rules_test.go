package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkd/tidemark/jobstore"
)

func TestRetryDelayIsBoundedAndGrows(t *testing.T) {
	r := Retry{MaxAttempts: 5, Initial: 10 * time.Second, Max: time.Minute, Multiplier: 2}
	for failures, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 4: time.Minute, 60: time.Minute} {
		if got := r.Delay(failures, 1); got != want {
			t.Errorf("bound after %d failures: %v, want %v", failures, got, want)
		}
		if got := r.Delay(failures, 0); got != 0 {
			t.Errorf("full jitter begins at 0, not %v", got)
		}
	}
}

func TestConclude(t *testing.T) {
	boom := errors.New("boom")
	job := &Job{Retry: Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Minute, Multiplier: 2}}
	for name, c := range map[string]struct {
		failures int
		res      Result
		cause    error
		state    jobstore.State
		outcome  jobstore.AttemptOutcome
		review   bool
		failure  bool
		in       time.Duration
	}{
		"success":                 {state: jobstore.Succeeded, outcome: jobstore.AttemptSucceeded},
		"success though stopped":  {cause: ErrCanceled, state: jobstore.Succeeded, outcome: jobstore.AttemptSucceeded},
		"transient":               {res: Result{Err: boom, Transient: true}, state: jobstore.Retrying, outcome: jobstore.AttemptFailed, failure: true, in: time.Second / 2},
		"transient, Retry-After":  {res: Result{Err: boom, Transient: true, RetryAfter: time.Hour}, state: jobstore.Retrying, outcome: jobstore.AttemptFailed, failure: true, in: time.Hour},
		"transient, last attempt": {failures: 2, res: Result{Err: boom, Transient: true}, state: jobstore.Failed, outcome: jobstore.AttemptFailed, failure: true},
		"permanent":               {res: Result{Err: boom}, state: jobstore.Failed, outcome: jobstore.AttemptFailed, failure: true, review: true},
		"timeout":                 {res: Result{Err: boom, Transient: true}, cause: ErrTimeout, state: jobstore.Retrying, outcome: jobstore.AttemptTimedOut, failure: true, in: time.Second / 2},
		"canceled":                {res: Result{Err: boom}, cause: ErrCanceled, state: jobstore.Canceled, outcome: jobstore.AttemptCanceled},
		"shutdown":                {failures: 2, res: Result{Err: boom, Transient: true}, cause: ErrShutdown, state: jobstore.Retrying, outcome: jobstore.AttemptHandedBack},
	} {
		end := job.Conclude(&jobstore.Run{ID: 1, Attempt: 1, Failures: c.failures}, c.res, c.cause, 0.5)
		if end.State != c.state || end.Outcome != c.outcome || end.Review != c.review || end.Failure != c.failure || end.RetryIn != c.in {
			t.Errorf("%s: %+v", name, end)
		}
	}
}

func TestStopCauseKnowsWhyTheWorkWasStopped(t *testing.T) {
	if stopCause(context.Background()) != nil {
		t.Error("nothing stopped it")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	limited, done := context.WithTimeoutCause(ctx, time.Hour, ErrTimeout)
	defer done()
	cancel(ErrShutdown)
	if got := stopCause(limited); !errors.Is(got, ErrShutdown) {
		t.Error(got)
	}
}

func TestAClockThatJumpsAheadIsNotBelievedUntilItAgreesWithItself(t *testing.T) {
	var g clockGuard
	for _, r := range []struct {
		store, mono time.Duration
		want        bool
	}{
		{100 * time.Second, 0, true},
		{101 * time.Second, time.Second, true},
		{90 * time.Second, 2 * time.Second, true}, // back: nothing is due by it
		{92 * time.Second, 4 * time.Second, true},
		{4000 * time.Second, 5 * time.Second, false}, // ahead by more than a minute
		{4003 * time.Second, 8 * time.Second, false}, // agrees, but too soon
		{93 * time.Second, 9 * time.Second, true},    // corrected: nothing was burned
		{5000 * time.Second, 10 * time.Second, false},
		{5011 * time.Second, 21 * time.Second, true}, // two readings ten seconds apart agree
		{5012 * time.Second, 22 * time.Second, true},
		{9000 * time.Second, 23 * time.Second, false},
		{9900 * time.Second, 35 * time.Second, false}, // another jump: begin again
		{9911 * time.Second, 46 * time.Second, true},
	} {
		if got := g.believe(r.store, r.mono); got != r.want {
			t.Errorf("store %v mono %v: %v", r.store, r.mono, got)
		}
	}
}

func TestOutputKeepsTheFirstAndTheLastPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o output
		var all strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			chunk := strings.Repeat(rapid.StringN(1, 8, 8).Draw(t, "text"), rapid.IntRange(1, 20000).Draw(t, "times"))
			if n, err := o.Write([]byte(chunk)); n != len(chunk) || err != nil {
				t.Fatal(n, err)
			}
			all.WriteString(chunk)
		}
		got := o.snapshot()
		want := all.String()
		if got.Size != int64(len(want)) || o.written() != got.Size {
			t.Fatalf("size %d of %d", got.Size, len(want))
		}
		if len(want) <= 2*outputPart {
			if string(got.Head)+string(got.Tail) != want {
				t.Fatal("an output that fits is kept whole")
			}
			return
		}
		if string(got.Head) != want[:outputPart] || string(got.Tail) != want[len(want)-outputPart:] {
			t.Fatal("the first and the last part are kept")
		}
	})
}
