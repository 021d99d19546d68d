package jobstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2025, 6, 10, 12, 0, 0, 0, time.UTC)

func minute(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

func queueJob() Definition {
	return Definition{Name: "a", Overlap: OverlapQueue, Coalesce: CoalesceLatest, MaxInstances: 1, Windowed: true, Fingerprint: "work"}
}

func incoming(n int) Run {
	at := minute(n)
	return NewRun{Key: fmt.Sprintf("a//%d", n), FireTime: at, Trigger: TriggerSchedule, NotBefore: at, Covers: 1, WindowTo: at}.Run(Job{Definition: queueJob()}, noon)
}

func running(n int) Run {
	r := incoming(n)
	r.State, r.Attempt, r.ClaimAt = Running, 1, noon.Add(30*time.Second)
	return r
}

func TestAdmitByPolicy(t *testing.T) {
	waiting := incoming(1)
	for name, c := range map[string]struct {
		change   func(*Definition)
		open, in []Run
		want     []string // the new runs, then the changed ones
	}{
		"nobody there":             {in: []Run{incoming(2)}, want: []string{"a//2 ready"}},
		"queue: one active":        {open: []Run{running(0)}, in: []Run{incoming(2)}, want: []string{"a//2 waits"}},
		"queue: one waits, latest": {open: []Run{running(0), waiting}, in: []Run{incoming(2)}, want: []string{"a//2 waits covers 2", "a//1 coalesced into a//2"}},
		"queue: one waits, earliest": {
			change: func(d *Definition) { d.Coalesce = CoalesceEarliest },
			open:   []Run{running(0), waiting}, in: []Run{incoming(2)}, want: []string{"a//2 coalesced into a//1", "a//1 waits covers 2"},
		},
		"queue_all": {
			change: func(d *Definition) { d.Overlap, d.Coalesce = OverlapQueueAll, CoalesceAll },
			open:   []Run{running(0), waiting}, in: []Run{incoming(2), incoming(3)}, want: []string{"a//2 waits", "a//3 waits"},
		},
		"allow": {
			change: func(d *Definition) { d.Overlap, d.MaxInstances = OverlapAllow, 0 },
			open:   []Run{running(0)}, in: []Run{incoming(2), incoming(3)}, want: []string{"a//2 ready", "a//3 ready"},
		},
		"allow, bounded": {
			change: func(d *Definition) { d.Overlap, d.MaxInstances = OverlapAllow, 2 },
			open:   []Run{running(0)}, in: []Run{incoming(2), incoming(3)}, want: []string{"a//2 ready", "a//3 waits"},
		},
		"a manual run is not coalesced": {
			open: []Run{running(0), waiting}, in: []Run{func() Run { r := incoming(2); r.Trigger = TriggerManual; return r }()},
			want: []string{"a//2 waits"},
		},
		"nor does one coalesce with it": {
			open: []Run{running(0), func() Run { r := incoming(1); r.Trigger = TriggerManual; return r }()}, in: []Run{incoming(2)},
			want: []string{"a//2 waits"},
		},
		"a chain of three": {open: []Run{running(0)}, in: []Run{incoming(1), incoming(2), incoming(3)}, want: []string{
			"a//1 coalesced into a//2", "a//2 coalesced into a//3", "a//3 waits covers 3",
		}},
	} {
		def := queueJob()
		if c.change != nil {
			c.change(&def)
		}
		adm := Admit(def, c.open, c.in, noon)
		var got []string
		for _, r := range append(adm.Insert, adm.Update...) {
			got = append(got, describe(r))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func describe(r Run) string {
	text := r.Key + " ready"
	switch {
	case r.State == Coalesced:
		return r.Key + " coalesced into " + r.CoalescedInto
	case r.Waiting():
		text = r.Key + " waits"
	}
	if r.Covers > 1 {
		text += fmt.Sprintf(" covers %d", r.Covers)
	}
	return text
}

func TestAdmitKeepsEveryFireTimeAndNeverTooManyInstances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		def := queueJob()
		def.Overlap = rapid.SampledFrom([]Overlap{OverlapQueue, OverlapQueueAll, OverlapAllow}).Draw(t, "overlap")
		def.Coalesce = rapid.SampledFrom([]Coalesce{CoalesceLatest, CoalesceEarliest}).Draw(t, "coalesce")
		def.MaxInstances = rapid.IntRange(0, 3).Draw(t, "max")
		store := map[string]Run{}
		created := int64(0)
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			var open []Run
			for n := range step {
				if r, ok := store[fmt.Sprintf("a//%d", n)]; ok && r.State.Open() {
					open = append(open, r)
				}
			}
			if len(open) > 0 && rapid.Bool().Draw(t, "end one") {
				r := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
				if !r.Waiting() {
					r.State, r.ClaimAt, r.FinishedAt = Succeeded, time.Time{}, noon
					store[r.Key] = r
					rest := open[:0:0]
					for _, o := range open {
						if o.Key != r.Key {
							rest = append(rest, o)
						}
					}
					for _, p := range Promote(def, rest, noon) {
						store[p.Key] = p
					}
				}
				continue
			}
			created++
			adm := Admit(def, open, []Run{incoming(step)}, noon)
			for _, r := range append(adm.Insert, adm.Update...) {
				store[r.Key] = r
			}
		}
		covered, occupied, waiting := int64(0), 0, 0
		for _, r := range store {
			switch {
			case r.State == Coalesced:
				into := store[r.CoalescedInto]
				if into.Key == "" {
					t.Fatalf("%s went into nothing", r.Key)
				}
				continue
			case r.Waiting():
				waiting++
			case r.State.Open():
				occupied++
			}
			covered += r.Covers
		}
		if covered != created {
			t.Fatalf("%d fire times, %d covered", created, covered)
		}
		if def.MaxInstances > 0 && occupied > def.MaxInstances {
			t.Fatalf("%d at once, %d allowed", occupied, def.MaxInstances)
		}
		if waiting > 0 && (def.MaxInstances == 0 || occupied < def.MaxInstances) {
			t.Fatalf("%d wait for nothing", waiting)
		}
		if def.Overlap == OverlapQueue && waiting > 1 {
			t.Fatalf("%d wait under queue", waiting)
		}
	})
}

func TestBegin(t *testing.T) {
	target := Target{Watermark: minute(-10), LastSuccessKey: "a//-10"}
	ready := func(change ...func(*Run)) Run {
		r := incoming(0)
		r.ClaimAt = r.NotBefore
		for _, f := range change {
			f(&r)
		}
		return r
	}
	retry := func(r *Run) {
		r.State, r.Attempt, r.StartedAt, r.Fingerprint, r.WindowFrom = Retrying, 1, minute(-1), "work", minute(-20)
		r.Deadline = minute(-5)
	}
	uses := queueJob()
	uses.UsesWindow = true
	for name, c := range map[string]struct {
		run    Run
		def    Definition
		state  State
		reason string
		check  func(Run) bool
	}{
		"first start": {ready(), queueJob(), Running, "", func(r Run) bool {
			return r.Attempt == 1 && r.WindowFrom.Equal(minute(-10)) && r.StartedAt.Equal(noon) && r.Fingerprint == "work" && r.ClaimAt.Equal(noon.Add(time.Minute))
		}},
		"equal to the deadline still starts": {ready(func(r *Run) { r.Deadline = noon }), queueJob(), Running, "", nil},
		"past the deadline":                  {ready(func(r *Run) { r.Deadline = noon.Add(-time.Microsecond) }), queueJob(), Missed, ReasonDeadline, nil},
		"a retry is no new start": {ready(retry), queueJob(), Running, "", func(r Run) bool {
			return r.Attempt == 2 && r.WindowFrom.Equal(minute(-20)) && r.StartedAt.Equal(minute(-1))
		}},
		"another definition under the same key": {ready(retry, func(r *Run) { r.Fingerprint = "other" }), queueJob(), Failed, ReasonFingerprint, func(r Run) bool { return r.Review }},
		"covered, and it uses its window":       {ready(func(r *Run) { r.WindowTo = minute(-15) }), uses, Skipped, ReasonCovered, func(r Run) bool { return r.CoalescedInto == "a//-10" }},
		"covered, and it does not": {ready(func(r *Run) { r.WindowTo = minute(-15) }), queueJob(), Running, "", func(r Run) bool {
			return r.WindowFrom.Equal(r.WindowTo) && r.WindowTo.Equal(minute(-15))
		}},
		"its own window":     {ready(func(r *Run) { r.OwnWindow, r.WindowFrom, r.WindowTo = true, minute(-30), minute(-15) }), uses, Running, "", func(r Run) bool { return r.WindowFrom.Equal(minute(-30)) }},
		"canceled meanwhile": {ready(retry, func(r *Run) { r.CancelRequested = true }), queueJob(), Canceled, "", nil},
	} {
		got := Begin(c.run, c.def, target, "n", noon, time.Minute)
		if got.State != c.state || got.Reason != c.reason || c.check != nil && !c.check(got) {
			t.Errorf("%s: %+v", name, got)
		}
		if !got.State.Open() && (got.FinishedAt.IsZero() || !got.ClaimAt.IsZero()) {
			t.Errorf("%s: ended, and still to be claimed: %+v", name, got)
		}
	}
}

func TestTheWatermarkMovesWithASuccessWhoseWindowBeginsAtIt(t *testing.T) {
	target := Target{Watermark: minute(0), Review: true}
	run := Run{Key: "a//5", State: Succeeded, FireTime: minute(5), WindowFrom: minute(0), WindowTo: minute(5), FinishedAt: minute(6)}
	for name, c := range map[string]struct {
		change func(*Run)
		want   time.Time
	}{
		"success":                  {func(*Run) {}, minute(5)},
		"failure":                  {func(r *Run) { r.State = Failed }, minute(0)},
		"a window that begins not": {func(r *Run) { r.WindowFrom = minute(1) }, minute(0)},
		"a window of its own":      {func(r *Run) { r.OwnWindow = true }, minute(0)},
		"an empty window":          {func(r *Run) { r.WindowTo = r.WindowFrom }, minute(0)},
	} {
		r := run
		c.change(&r)
		if got := target.Ended(r, true); !got.Watermark.Equal(c.want) || got.Review != (r.State != Succeeded) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := target.Ended(run, false); !got.Watermark.Equal(minute(0)) {
		t.Errorf("a job without windows moves none: %+v", got)
	}
}

func TestNoTwoRunsShareAKey(t *testing.T) {
	at := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	if got := Key("nightly", "", at); got != "nightly//2026-11-29T03:00:00Z" {
		t.Error(got)
	}
	if got := Key("nightly", "a/b %", at.Add(1500*time.Microsecond)); got != "nightly/a%2Fb%20%25/2026-11-29T03:00:00.0015Z" {
		t.Error(got)
	}
	if Key("a:b", "c", at) == Key("a", "b:c", at) {
		t.Error("job a:b of target c and job a of target b:c")
	}
	zone := time.FixedZone("", -4*3600)
	if Key("a", "", at) != Key("a", "", at.In(zone)) {
		t.Error("one instant in two spellings")
	}
	if got := ManualKey("a", "x", "my/key"); got != "a/x/manual:my%2Fkey" {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z:.%]{1,4}`)
		j1, t1, j2, t2 := name.Draw(t, "j1"), rapid.String().Draw(t, "t1"), name.Draw(t, "j2"), rapid.String().Draw(t, "t2")
		if (j1 != j2 || t1 != t2) && Key(j1, t1, at) == Key(j2, t2, at) {
			t.Fatal(Key(j1, t1, at))
		}
	})
}

func TestAPauseEnds(t *testing.T) {
	for name, c := range map[string]struct {
		p      Pause
		active bool
		end    time.Time
	}{
		"none":                   {Pause{}, false, time.Time{}},
		"open":                   {Pause{At: minute(-5)}, true, time.Time{}},
		"until later":            {Pause{At: minute(-5), Until: minute(1)}, true, time.Time{}},
		"until now":              {Pause{At: minute(-5), Until: minute(0)}, false, minute(0)},
		"ended by hand":          {Pause{At: minute(-5), ResumedAt: minute(-2)}, false, minute(-2)},
		"by hand before its end": {Pause{At: minute(-5), Until: minute(3), ResumedAt: minute(-2)}, false, minute(-2)},
		"by itself before":       {Pause{At: minute(-5), Until: minute(-3), ResumedAt: minute(-2)}, false, minute(-3)},
	} {
		end, ok := c.p.End(noon)
		if c.p.Active(noon) != c.active || !end.Equal(c.end) || ok != !c.end.IsZero() {
			t.Errorf("%s: active %v, end %v %v", name, c.p.Active(noon), end, ok)
		}
	}
}
