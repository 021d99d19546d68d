package sqlite

import (
	"slices"

	"github.com/tidemarkd/tidemark/jobstore"
)

// lane is one (job, target) in a transaction: its row and its open runs, oldest
// first. The rules of jobstore are applied to it in memory, and each row that
// they changed is written once, by lanes.store.
type lane struct {
	job    *jobstore.Job
	target jobstore.Target
	stored bool // the target has its row
	dirty  bool // and that row has to be written
	clear  bool // earlier failures need no person any more
	runs   []*entry
}

// entry is a run in a lane.
type entry struct {
	jobstore.Run
	dirty   bool
	stored  bool // it has its row, in this state and attempt
	state   jobstore.State
	attempt int
}

type laneKey struct {
	job    int64
	target string
}

// lanes are those that a transaction works on.
type lanes struct {
	t     *tx
	jobs  map[int64]*jobstore.Job
	byKey map[laneKey]*lane
	all   []*lane // in the order of their coming
	runs  map[int64]*entry
}

func newLanes(t *tx) *lanes {
	return &lanes{t: t, jobs: map[int64]*jobstore.Job{}, byKey: map[laneKey]*lane{}, runs: map[int64]*entry{}}
}

// lane is that of the job and target, begun if need be.
func (l *lanes) lane(jobID int64, target string) *lane {
	key := laneKey{jobID, target}
	if lane := l.byKey[key]; lane != nil {
		return lane
	}
	lane := &lane{job: l.jobs[jobID], target: jobstore.Target{JobID: jobID, Target: target}}
	l.byKey[key] = lane
	l.all = append(l.all, lane)
	return lane
}

// open are the lane's open runs, oldest first.
func (n *lane) open() []jobstore.Run {
	var out []jobstore.Run
	for _, e := range n.runs {
		if e.State.Open() {
			out = append(out, e.Run)
		}
	}
	return out
}

// enter sees to the target's row: its watermark begins where the file says, or
// where planning stood before the plan that first saw it.
func (n *lane) enter() {
	if !n.stored {
		n.dirty = true
	}
	if n.job.Windowed && n.target.Watermark.IsZero() {
		n.target.Watermark = n.job.WatermarkStart
		if n.target.Watermark.IsZero() {
			n.target.Watermark = n.job.LastPlanned
		}
		n.dirty = true
	}
}

// admit adds runs by the overlap rule, oldest first, and returns them.
func (n *lane) admit(incoming []jobstore.Run, t *tx) []*entry {
	n.enter()
	adm := jobstore.Admit(n.job.Definition, n.open(), incoming, t.now)
	for _, run := range adm.Update {
		n.set(n.byID(run.ID), run)
	}
	var added []*entry
	for _, run := range adm.Insert {
		e := &entry{Run: run, dirty: true}
		n.runs = append(n.runs, e)
		added = append(added, e)
	}
	slices.SortStableFunc(n.runs, func(a, b *entry) int { return a.FireTime.Compare(b.FireTime) })
	return added
}

func (n *lane) byID(id int64) *entry {
	for _, e := range n.runs {
		if e.ID == id {
			return e
		}
	}
	return nil
}

func (n *lane) set(e *entry, run jobstore.Run) {
	e.Run, e.dirty = run, true
}

// end sets a run that has ended, with what that means for the target.
func (n *lane) end(e *entry, run jobstore.Run) {
	n.set(e, run)
	review := n.target.Review
	n.target = n.target.Ended(run, n.job.Windowed)
	n.dirty = true
	n.clear = n.clear || review && !n.target.Review
}

// promote lets waiting runs go where there is room, and returns them.
func (n *lane) promote(t *tx) []*entry {
	var out []*entry
	for _, run := range jobstore.Promote(n.job.Definition, n.open(), t.now) {
		e := n.byID(run.ID)
		n.set(e, run)
		out = append(out, e)
	}
	return out
}
