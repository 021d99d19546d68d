package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkd/tidemark/jobstore"
)

// runModel does to two handles on one store what nodes, people and time may do
// in any order, and after each step looks whether what doc.go promises holds.
// All sequences share the store: each has a job of its own.
func runModel(t *testing.T, open Open) {
	f := newFixture(t, open)
	sequence := 0
	rapid.Check(t, func(rt *rapid.T) {
		sequence++
		m := newModel(f, rt, fmt.Sprintf("model-%d", sequence))
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"fire":    m.fire,
			"claim":   m.claim,
			"finish":  m.finish,
			"trigger": m.trigger,
			"cancel":  m.cancel,
			"pause":   m.pause,
			"update":  m.update,
			"prune":   m.prune,
		})
		m.leave()
	})
}

// model is what the suite knows of its job without asking.
type model struct {
	f    *fixture
	rt   *rapid.T
	name string
	id   int64
	max  int // instances

	windowed bool
	overlap  jobstore.Overlap

	due     int64
	held    []jobstore.Run // leased at some time, whatever became of them
	current map[int64]int  // the attempt under which each run runs
	latest  map[int64]int
	ended   map[string]jobstore.State
	marks   map[string]time.Time // watermarks
	manual  int
}

// rapidTB has a fixture fail the sequence, not the test.
type rapidTB struct {
	testing.TB
	rt *rapid.T
}

func (t rapidTB) Helper()                   {}
func (t rapidTB) Fatal(args ...any)         { t.rt.Fatal(args...) }
func (t rapidTB) Fatalf(s string, a ...any) { t.rt.Fatalf(s, a...) }
func (t rapidTB) Errorf(s string, a ...any) { t.rt.Errorf(s, a...) }

func newModel(f *fixture, rt *rapid.T, name string) *model {
	own := *f
	own.TB = rapidTB{f.TB, rt}
	m := &model{
		f: &own, rt: rt, name: name,
		current: map[int64]int{}, latest: map[int64]int{}, ended: map[string]jobstore.State{}, marks: map[string]time.Time{},
	}
	job := m.f.create(name, func(n *jobstore.NewJob) {
		n.Overlap = rapid.SampledFrom([]jobstore.Overlap{jobstore.OverlapQueue, jobstore.OverlapQueueAll, jobstore.OverlapAllow}).Draw(rt, "overlap")
		n.Coalesce = rapid.SampledFrom([]jobstore.Coalesce{jobstore.CoalesceLatest, jobstore.CoalesceEarliest, jobstore.CoalesceAll}).Draw(rt, "coalesce")
		n.MaxInstances = rapid.IntRange(0, 3).Draw(rt, "max instances")
		n.Windowed = n.MaxInstances == 1
		n.UsesWindow = n.Windowed && rapid.Bool().Draw(rt, "uses its window")
	})
	m.id, m.max, m.windowed, m.overlap = job.ID, job.MaxInstances, job.Windowed, job.Overlap
	return m
}

// any is one of the two handles.
func (m *model) any(rt *rapid.T) jobstore.Store {
	return rapid.SampledFrom([]jobstore.Store{m.f.a, m.f.b}).Draw(rt, "handle")
}

func (m *model) fire(rt *rapid.T) {
	job := m.f.job(m.name)
	n := rapid.IntRange(1, 4).Draw(rt, "instants")
	var at []time.Time
	for i := range n {
		at = append(at, job.LastPlanned.Add(time.Duration(i+1)*time.Second))
	}
	p := jobstore.Firing{JobID: m.id, Version: job.Version, LastPlanned: at[n-1], NextFire: at[n-1].Add(time.Second), Due: int64(n)}
	if rapid.Bool().Draw(rt, "coalesced") && n > 1 {
		p.Ranges = []jobstore.Range{{
			First: at[0], Last: at[n-2], Count: int64(n - 1), Outcome: jobstore.OutcomeCoalesced, Reason: jobstore.ReasonCoalesced, Into: at[n-1],
		}}
		at = at[n-1:]
	}
	for _, instant := range at {
		for _, target := range []string{"", "x"} {
			run := m.f.newRun(job, target, instant)
			if rapid.IntRange(0, 4).Draw(rt, "deadline") == 0 {
				run.Deadline = m.f.base.Add(-time.Minute)
			}
			p.Runs = append(p.Runs, run)
		}
	}
	_, p.EndPause = job.Pause.End(m.f.now())
	req := jobstore.FireRequest{
		Node: node, Lease: m.lease(rt), Slots: rapid.IntRange(0, 3).Draw(rt, "slots"), Firings: []jobstore.Firing{p},
	}
	out, err := m.any(rt).Fire(m.f.ctx, req)
	m.f.ok(err)
	if fired := len(out.Jobs) == 1; fired == job.Pause.Active(out.Now) {
		rt.Fatalf("fired %v, paused %v", fired, !fired)
	} else if fired {
		m.due += int64(n)
	}
	m.leased(out.Leased)
	again, err := m.any(rt).Fire(m.f.ctx, req) // a reply was lost
	m.f.ok(err)
	if len(again.Jobs)+len(again.Leased) != 0 {
		rt.Fatalf("the same call fired again: %+v", again)
	}
}

func (m *model) lease(rt *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{lease, ended}).Draw(rt, "lease")
}

func (m *model) leased(runs []jobstore.Run) {
	for _, run := range runs {
		if run.Attempt != m.latest[run.ID]+1 {
			m.rt.Fatalf("%s was leased as attempt %d after %d", run.Key, run.Attempt, m.latest[run.ID])
		}
		m.current[run.ID], m.latest[run.ID] = run.Attempt, run.Attempt
		m.held = append(m.held, run)
	}
}

func (m *model) claim(rt *rapid.T) {
	out, err := m.any(rt).Claim(m.f.ctx, jobstore.ClaimRequest{
		Node: "n2", Lease: m.lease(rt), Limit: rapid.IntRange(1, 3).Draw(rt, "limit"),
		Accept: func(id int64, _ string) bool { return id == m.id },
	})
	m.f.ok(err)
	for _, run := range out.Lost {
		if run.ClaimAt.After(out.Now) || m.current[run.ID] != run.Attempt {
			rt.Fatalf("%s was lost while its lease held: %+v", run.Key, run)
		}
	}
	for _, run := range out.Settled {
		delete(m.current, run.ID)
	}
	m.leased(out.Runs)
}

func (m *model) finish(rt *rapid.T) {
	if len(m.held) == 0 {
		return
	}
	run := rapid.SampledFrom(m.held).Draw(rt, "run")
	end := rapid.SampledFrom([]jobstore.End{succeeded(run), failed(run), retrying(run, 0), retrying(run, time.Hour)}).Draw(rt, "end")
	before := m.marks[run.Target]
	out, err := m.any(rt).Finish(m.f.ctx, []jobstore.End{end})
	m.f.ok(err)
	if stale := m.current[run.ID] != run.Attempt; out[0].Stale != stale {
		rt.Fatalf("attempt %d of %s is stale: %v, want %v", run.Attempt, run.Key, out[0].Stale, stale)
	}
	if out[0].Stale {
		return
	}
	delete(m.current, run.ID)
	if got := out[0].Run; got.State == jobstore.Succeeded && m.windowed && !got.OwnWindow && got.WindowTo.After(before) {
		mark := m.f.target(jobstore.Job{ID: m.id}, run.Target).Watermark
		if moves := got.WindowFrom.Equal(before); moves && !mark.Equal(got.WindowTo) || !moves && !mark.Equal(before) {
			rt.Fatalf("watermark %v after %v and a success of [%v, %v)", mark, before, got.WindowFrom, got.WindowTo)
		}
	}
}

func (m *model) trigger(rt *rapid.T) {
	m.manual++
	target := rapid.SampledFrom([]string{"", "x"}).Draw(rt, "target")
	req := jobstore.TriggerRequest{Job: m.name, Target: target, Key: jobstore.ManualKey(m.name, target, named(m.manual))}
	if rapid.Bool().Draw(rt, "own window") {
		req.WindowFrom, req.WindowTo = m.f.at(-99), m.f.at(-9)
	}
	first, created, err := m.any(rt).Trigger(m.f.ctx, req)
	m.f.ok(err)
	again, twice, err := m.any(rt).Trigger(m.f.ctx, req)
	m.f.ok(err)
	if !created || twice || again.ID != first.ID {
		rt.Fatalf("created %v, again %v: %+v", created, twice, again)
	}
}

func (m *model) cancel(rt *rapid.T) {
	runs := m.runs()
	if len(runs) == 0 {
		return
	}
	run := rapid.SampledFrom(runs).Draw(rt, "run")
	got, err := m.any(rt).Cancel(m.f.ctx, run.Key, "ops")
	if !run.State.Open() {
		m.f.is(err, jobstore.ErrState)
		return
	}
	m.f.ok(err)
	if run.State == jobstore.Running != (got.State == jobstore.Running) {
		rt.Fatalf("canceled from %s to %s", run.State, got.State)
	}
}

func (m *model) pause(rt *rapid.T) {
	if m.f.job(m.name).Pause.Active(m.f.now()) {
		_, err := m.any(rt).Unpause(m.f.ctx, m.name, jobstore.ResumeSkip)
		m.f.ok(err)
		return
	}
	_, err := m.any(rt).Pause(m.f.ctx, m.name, jobstore.Pause{})
	m.f.ok(err)
}

// update renames the job, and gives it more room where it has some.
func (m *model) update(rt *rapid.T) {
	u := update(m.f.job(m.name))
	if rapid.Bool().Draw(rt, "rename") {
		u.Name += "+"
	}
	if u.MaxInstances > 1 {
		u.MaxInstances++
	}
	m.name, m.max = u.Name, u.MaxInstances
	_, err := m.any(rt).Sync(m.f.ctx, func(jobstore.SyncState) (jobstore.Changes, error) {
		return jobstore.Changes{Update: []jobstore.JobUpdate{u}}, nil
	})
	m.f.ok(err)
}

func (m *model) prune(rt *rapid.T) {
	_, err := m.any(rt).Prune(m.f.ctx, m.f.at(3600), m.f.at(3600))
	m.f.ok(err)
}

// leave takes the job out of the way of the next sequence.
func (m *model) leave() { m.f.sync(jobstore.Changes{Remove: []int64{m.id}}) }

func (m *model) runs() []jobstore.Run {
	runs, err := m.f.b.Runs(m.f.ctx, jobstore.RunFilter{Job: m.name})
	m.f.ok(err)
	return runs
}
