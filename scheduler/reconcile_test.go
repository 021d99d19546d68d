package scheduler

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/jobstore"
)

// testJob is a job with the given schedule; change edits it before its hash is
// taken.
func testJob(t testing.TB, name, expr string, change ...func(*Job)) *Job {
	t.Helper()
	spec := ScheduleSpec{Expressions: []string{expr}, Timezone: "UTC"}
	s, err := ParseSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	job := &Job{
		Definition: jobstore.Definition{
			Name: name, Schedule: written, Fingerprint: "work", JSON: []byte("{}"),
			Overlap: jobstore.OverlapQueue, Coalesce: jobstore.CoalesceLatest, MaxInstances: 1, Windowed: true,
		},
		Schedule: s, Grace: Unlimited, Targets: []string{""}, OnScheduleChange: "supersede", OnResume: jobstore.ResumeSkip,
	}
	for _, f := range change {
		f(job)
	}
	if job.Hash == "" {
		job.Hash = name + " " + expr
	}
	return job
}

// stored is the job as the store would have it.
func stored(job *Job, id int64, lastPlanned time.Time) jobstore.Job {
	next, _ := job.Schedule.Next(lastPlanned)
	return jobstore.Job{ID: id, Version: 3, Definition: job.Definition, LastPlanned: lastPlanned, NextFire: next, CreatedAt: lastPlanned}
}

func at(clock string) time.Time {
	t, err := time.Parse("15:04:05", clock)
	if err != nil {
		panic(err)
	}
	return t.AddDate(2025, 5, 9)
}

func reconcile(t *testing.T, file []*Job, revision int64, state jobstore.SyncState) jobstore.Changes {
	t.Helper()
	changes, err := Reconcile(file, revision, state)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func TestAnUnchangedJobIsNotTouched(t *testing.T) {
	job := testJob(t, "a", "* * * * *")
	state := jobstore.SyncState{Now: at("10:00:30"), Jobs: []jobstore.Job{stored(job, 1, at("09:00:00"))}}
	if got := reconcile(t, []*Job{job}, 0, state); len(got.Create)+len(got.Update)+len(got.Remove)+len(got.Firings) != 0 {
		t.Fatalf("a restart changes %+v", got)
	}
}

func TestANewJobStartsFromNow(t *testing.T) {
	got := reconcile(t, []*Job{testJob(t, "a", "0 9 * * *")}, 0, jobstore.SyncState{Now: at("11:00:00")})
	if len(got.Create) != 1 || !got.Create[0].LastPlanned.Equal(at("11:00:00")) || !got.Create[0].NextFire.Equal(at("09:00:00").AddDate(0, 0, 1)) {
		t.Fatalf("%+v", got.Create)
	}
}

func TestAOneShotThatHasPassedIsStillPlanned(t *testing.T) {
	job := testJob(t, "a", "@at "+at("10:00:00").Format(time.RFC3339))
	got := reconcile(t, []*Job{job}, 0, jobstore.SyncState{Now: at("10:05:00")})
	if len(got.Create) != 1 || !got.Create[0].NextFire.Equal(at("10:00:00")) {
		t.Fatalf("%+v", got.Create)
	}
	job.Grace = time.Minute
	plan := job.Plan(jobstore.Job{LastPlanned: got.Create[0].LastPlanned}, at("10:05:00"), 0)
	if plan.Expired != 1 {
		t.Fatalf("later than its grace it is missed: %+v", plan)
	}
}

func TestAChangedScheduleNeverJudgesThePast(t *testing.T) {
	old, changed := testJob(t, "a", "0 * * * *"), testJob(t, "a", "30 * * * *")
	state := jobstore.SyncState{Now: at("12:40:00"), Jobs: []jobstore.Job{stored(old, 7, at("09:00:00"))}}
	got := reconcile(t, []*Job{changed}, 0, state)
	if len(got.Firings) != 1 || len(got.Update) != 1 {
		t.Fatalf("%+v", got)
	}
	want := []jobstore.Range{{First: at("10:00:00"), Last: at("12:00:00"), Count: 3, Outcome: jobstore.OutcomeSuperseded, Reason: jobstore.ReasonSuperseded}}
	if diff := cmp.Diff(want, got.Firings[0].Ranges); diff != "" || got.Firings[0].Due != 3 || len(got.Firings[0].Runs) != 0 {
		t.Fatalf("superseded (-want +got)\n%s", diff)
	}
	if u := got.Update[0]; !u.Reschedule || !u.LastPlanned.Equal(state.Now) || !u.NextFire.Equal(at("13:30:00")) {
		t.Fatalf("%+v", u)
	}
}

func TestOnScheduleChangeFinishPlansByTheOldScheduleFirst(t *testing.T) {
	old := testJob(t, "a", "0 * * * *")
	changed := testJob(t, "a", "30 * * * *", func(j *Job) { j.OnScheduleChange = "finish" })
	state := jobstore.SyncState{Now: at("12:40:00"), Jobs: []jobstore.Job{stored(old, 7, at("09:00:00"))}}
	got := reconcile(t, []*Job{changed}, 0, state)
	if len(got.Firings) != 1 || len(got.Firings[0].Runs) != 1 || !got.Firings[0].Runs[0].FireTime.Equal(at("12:00:00")) {
		t.Fatalf("%+v", got.Firings)
	}
}

func TestOtherChangesKeepTheNextFire(t *testing.T) {
	old := testJob(t, "a", "0 * * * *")
	changed := testJob(t, "a", "0 * * * *", func(j *Job) { j.Hash, j.Fingerprint = "other", "other work" })
	state := jobstore.SyncState{Now: at("12:40:00"), Jobs: []jobstore.Job{stored(old, 7, at("09:00:00"))}}
	got := reconcile(t, []*Job{changed}, 0, state)
	if len(got.Firings) != 0 || len(got.Update) != 1 || got.Update[0].Reschedule {
		t.Fatalf("%+v", got)
	}
}

func TestARemovedJobSupersedesWhatItOwedAndReturnsFromNow(t *testing.T) {
	job := testJob(t, "a", "0 * * * *")
	state := jobstore.SyncState{Now: at("11:30:00"), Jobs: []jobstore.Job{stored(job, 7, at("09:00:00"))}}
	got := reconcile(t, nil, 0, state)
	if diff := cmp.Diff([]int64{7}, got.Remove); diff != "" || got.Firings[0].Ranges[0].Reason != jobstore.ReasonRemoved || got.Firings[0].Due != 2 {
		t.Fatalf("%s %+v", diff, got.Firings)
	}
	state.Jobs[0].RemovedAt, state.Now = at("11:30:00"), at("15:10:00")
	got = reconcile(t, []*Job{job}, 0, state)
	if len(got.Update) != 1 || !got.Update[0].LastPlanned.Equal(at("15:10:00")) || len(got.Create)+len(got.Firings) != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestARenamedJobKeepsItsRow(t *testing.T) {
	old := testJob(t, "old", "0 * * * *")
	renamed := testJob(t, "new", "0 * * * *", func(j *Job) { j.RenamedFrom = "old" })
	state := jobstore.SyncState{Now: at("09:30:00"), Jobs: []jobstore.Job{stored(old, 7, at("09:00:00"))}}
	got := reconcile(t, []*Job{renamed}, 0, state)
	if len(got.Create)+len(got.Remove) != 0 || len(got.Update) != 1 || got.Update[0].ID != 7 || got.Update[0].Name != "new" || got.Update[0].Reschedule {
		t.Fatalf("%+v", got)
	}
	// Once renamed, the key in the file does nothing more.
	state.Jobs = []jobstore.Job{stored(renamed, 7, at("09:00:00"))}
	if got := reconcile(t, []*Job{renamed}, 0, state); len(got.Update) != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestAFileOfALowerRevisionRevertsNobody(t *testing.T) {
	job, older := testJob(t, "a", "0 * * * *"), testJob(t, "a", "5 * * * *")
	state := jobstore.SyncState{Now: at("09:30:00"), Revision: 4, Jobs: []jobstore.Job{stored(job, 7, at("09:00:00"))}}
	if got := reconcile(t, []*Job{older}, 3, state); len(got.Update)+len(got.Firings) != 0 || got.Revision != 4 {
		t.Fatalf("%+v", got)
	}
	if got := reconcile(t, []*Job{older}, 5, state); len(got.Update) != 1 || got.Revision != 5 {
		t.Fatalf("%+v", got)
	}
}

func TestPausedInTheFile(t *testing.T) {
	job := testJob(t, "a", "0 * * * *")
	paused := testJob(t, "a", "0 * * * *", func(j *Job) { j.FilePaused, j.Hash = true, "paused" })
	state := jobstore.SyncState{Now: at("09:30:00"), Jobs: []jobstore.Job{stored(job, 7, at("09:00:00"))}}
	u := reconcile(t, []*Job{paused}, 0, state).Update[0]
	if !u.Pause.At.Equal(state.Now) || u.Pause.By != jobstore.PausedByFile {
		t.Fatalf("%+v", u.Pause)
	}
	state.Jobs[0] = stored(paused, 7, at("09:00:00"))
	state.Jobs[0].Pause, state.Now = u.Pause, at("11:30:00")
	u = reconcile(t, []*Job{job}, 0, state).Update[0]
	if !u.Pause.ResumedAt.Equal(at("11:30:00")) {
		t.Fatalf("%+v", u.Pause)
	}
	// The next plan passes over what came due meanwhile, and says so.
	state.Jobs[0].Definition, state.Jobs[0].Pause = job.Definition, u.Pause
	plan := job.Plan(state.Jobs[0], at("11:30:00"), 0)
	if plan.Skipped != 2 || len(plan.Kept) != 0 || plan.Ranges[0].Reason != jobstore.ReasonPaused {
		t.Fatalf("%+v", plan)
	}
	job.OnResume = jobstore.ResumeCatchUp
	if plan := job.Plan(state.Jobs[0], at("11:30:00"), 0); plan.Skipped != 0 || len(plan.Kept) != 1 {
		t.Fatalf("%+v", plan)
	}
}

func TestAPersonsPauseAndTheFilesAreTwo(t *testing.T) {
	job := testJob(t, "a", "0 * * * *")
	paused := testJob(t, "a", "0 * * * *", func(j *Job) { j.FilePaused, j.Hash = true, "paused" })
	person := jobstore.Pause{At: at("09:10:00"), Reason: "migration", By: "ops"}
	state := jobstore.SyncState{Now: at("09:30:00"), Jobs: []jobstore.Job{stored(job, 7, at("09:00:00"))}}
	state.Jobs[0].Pause = person
	if u := reconcile(t, []*Job{paused}, 0, state).Update[0]; u.Pause != person {
		t.Fatalf("%+v", u.Pause)
	}
	// The file lets go: the person's pause stays.
	state.Jobs[0].Definition = paused.Definition
	if u := reconcile(t, []*Job{job}, 0, state).Update[0]; u.Pause != person {
		t.Fatalf("%+v", u.Pause)
	}
	// The person lets go first: the file's stays, since when it all began.
	left, err := person.Unpause("", true, at("09:40:00"))
	if err != nil || left.By != jobstore.PausedByFile || !left.At.Equal(person.At) || !left.Active(at("12:00:00")) {
		t.Fatalf("%+v %v", left, err)
	}
	if _, err := left.Unpause("", true, at("09:41:00")); !errors.Is(err, jobstore.ErrState) {
		t.Fatal(err)
	}
	// One that had an end gives way, and a pause that has ended is begun anew.
	for _, p := range []jobstore.Pause{
		{At: at("09:10:00"), Until: at("10:00:00"), By: "ops"},
		{At: at("08:00:00"), By: jobstore.PausedByFile, ResumedAt: at("08:30:00")},
	} {
		state.Jobs[0].Definition, state.Jobs[0].Pause = job.Definition, p
		if u := reconcile(t, []*Job{paused}, 0, state).Update[0]; u.Pause.By != jobstore.PausedByFile || !u.Pause.Until.IsZero() || !u.Pause.Active(at("11:00:00")) {
			t.Fatalf("%+v", u.Pause)
		}
	}
}

func TestFinishingAnOldScheduleMakesNoRunsOfAPauseAndNotTooMany(t *testing.T) {
	old := testJob(t, "a", "0 * * * *")
	changed := testJob(t, "a", "30 * * * *", func(j *Job) { j.OnScheduleChange = "finish" })
	state := jobstore.SyncState{Now: at("12:40:00"), Jobs: []jobstore.Job{stored(old, 7, at("09:00:00"))}}
	state.Jobs[0].Pause = jobstore.Pause{At: at("09:30:00"), By: "ops"}
	f := reconcile(t, []*Job{changed}, 0, state).Firings[0]
	if len(f.Runs) != 0 || f.Due != 3 || f.Ranges[0].Reason != jobstore.ReasonPaused || f.EndPause {
		t.Fatalf("%+v", f)
	}
	old = testJob(t, "a", "@every 1s")
	changed.Coalesce = jobstore.CoalesceAll
	state.Jobs = []jobstore.Job{stored(old, 7, at("09:00:00"))}
	f = reconcile(t, []*Job{changed}, 0, state).Firings[0]
	due := int64(3*3600 + 40*60)
	if rest := f.Ranges[len(f.Ranges)-1]; len(f.Runs) != planLimit || f.Due != due || rest.Outcome != jobstore.OutcomeSuperseded || rest.Count != due-planLimit {
		t.Fatalf("%d runs, due %d, %+v", len(f.Runs), f.Due, f.Ranges)
	}
}

func TestReconcilingTwiceChangesNothing(t *testing.T) {
	file := []*Job{
		testJob(t, "same", "0 * * * *"), testJob(t, "changed", "30 * * * *"), testJob(t, "fresh", "@every 1m"),
		testJob(t, "new", "0 0 * * *", func(j *Job) { j.RenamedFrom = "old" }),
	}
	state := jobstore.SyncState{Now: at("12:40:00"), Jobs: []jobstore.Job{
		stored(file[0], 1, at("12:00:00")), stored(testJob(t, "changed", "0 * * * *"), 2, at("09:00:00")),
		stored(testJob(t, "gone", "0 * * * *"), 3, at("09:00:00")), stored(testJob(t, "old", "0 0 * * *"), 4, at("00:00:00")),
	}}
	after := Reconciled(reconcile(t, file, 0, state), state)
	state.Jobs = nil
	for _, job := range after {
		state.Jobs = append(state.Jobs, job)
	}
	if got := reconcile(t, file, 0, state); len(got.Create)+len(got.Update)+len(got.Remove)+len(got.Firings) != 0 {
		t.Fatalf("%+v", got)
	}
}
