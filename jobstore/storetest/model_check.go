package storetest

import (
	"pgregory.net/rapid"

	"github.com/tidemarkd/tidemark/jobstore"
)

// check looks whether all that must hold at any time does.
func (m *model) check(*rapid.T) {
	if b := m.f.balanced()[m.name]; b.Due != m.due {
		m.rt.Fatalf("%d instants were due, the ledger says %+v", m.due, b)
	}
	runs := m.runs()
	occupied, waiting, queued := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range runs {
		run := &runs[i]
		m.checkRun(run)
		switch {
		case run.Waiting():
			waiting[run.Target]++
			if run.Trigger != jobstore.TriggerManual {
				queued[run.Target]++
			}
		case run.State.Open():
			occupied[run.Target]++
		}
	}
	for _, target := range []string{"", "x"} {
		if m.max > 0 && occupied[target] > m.max {
			m.rt.Fatalf("%d runs of %q have their turn, of %d instances", occupied[target], target, m.max)
		}
		if waiting[target] > 0 && (m.max == 0 || occupied[target] < m.max) {
			m.rt.Fatalf("%d runs of %q wait, and %d of %d instances are taken", waiting[target], target, occupied[target], m.max)
		}
		if m.overlap == jobstore.OverlapQueue && queued[target] > 1 {
			m.rt.Fatalf("%d scheduled runs of %q wait under overlap: queue", queued[target], target)
		}
	}
	m.checkMarks()
}

func (m *model) checkRun(run *jobstore.Run) {
	if state, over := m.ended[run.Key]; over && state != run.State {
		m.rt.Fatalf("%s was %s and is %s", run.Key, state, run.State)
	}
	if !run.State.Open() {
		m.ended[run.Key] = run.State
	}
	if attempt := m.current[run.ID]; (run.State == jobstore.Running) != (attempt > 0) || attempt > 0 && attempt != run.Attempt {
		m.rt.Fatalf("%s is %s under attempt %d, want %d", run.Key, run.State, run.Attempt, attempt)
	}
}

func (m *model) checkMarks() {
	targets, err := m.f.b.Targets(m.f.ctx)
	m.f.ok(err)
	for _, target := range targets {
		if target.JobID != m.id {
			continue
		}
		if target.Watermark.Before(m.marks[target.Target]) {
			m.rt.Fatalf("the watermark of %q went back from %v to %v", target.Target, m.marks[target.Target], target.Watermark)
		}
		m.marks[target.Target] = target.Watermark
	}
}
