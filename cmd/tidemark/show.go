package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show one run whole",
		Long: `Shows one run whole: its attempts, its window, its output, and the plan decision
that made it.`,
		Example: `  tidemark show nightly-report/seoul/2026-11-29T03:00:00Z
  tidemark show warm-cache//2026-11-29T03:00:30Z --json`,
		Args: wants("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withStore(cmd, func(store jobstore.Store) error {
				s, err := readShown(cmd.Context(), store, args[0])
				if err != nil {
					return err
				}
				if c.json {
					return c.printJSON(s.json())
				}
				c.printShown(s)
				return nil
			})
		},
	}
}

// shown is all there is to know about a run.
type shown struct {
	run      jobstore.Run
	attempts []jobstore.Attempt // the latest included
	output   jobstore.Output
	ranges   []jobstore.Range // coalesced into it by the plan
	folded   []string         // keys of runs coalesced into it while it waited
}

func readShown(ctx context.Context, store jobstore.Store, key string) (*shown, error) {
	run, attempts, err := readRun(ctx, store, key)
	if err != nil {
		return nil, err
	}
	s := &shown{run: run, attempts: attempts}
	if s.output, err = store.Output(ctx, run.ID, 0); err != nil {
		return nil, err
	}
	if run.Covers <= 1 {
		return s, nil
	}
	end := run.FireTime
	if run.WindowTo.After(end) {
		end = run.WindowTo
	}
	ranges, err := store.Ranges(ctx, run.JobID, time.Unix(0, 0), end)
	if err != nil {
		return nil, err
	}
	left := run.Covers - 1
	for _, r := range ranges {
		if r.Outcome == jobstore.OutcomeCoalesced && r.Into.Equal(run.FireTime) {
			s.ranges = append(s.ranges, r)
			left -= r.Count
		}
	}
	if left > 0 {
		s.folded, err = foldedInto(ctx, store, &run)
	}
	return s, err
}

// readRun is a run with all its attempts, and a plain error where there is none.
func readRun(ctx context.Context, store jobstore.Store, key string) (jobstore.Run, []jobstore.Attempt, error) {
	run, attempts, err := store.Run(ctx, key)
	if err != nil {
		return run, nil, noRun(err, key)
	}
	if n := len(attempts); run.Attempt > 0 && (n == 0 || attempts[n-1].Attempt < run.Attempt) {
		attempts = append(attempts, latestAttempt(&run))
	}
	return run, attempts, nil
}

// latestAttempt is the attempt that the run itself tells of.
func latestAttempt(run *jobstore.Run) jobstore.Attempt {
	a := jobstore.Attempt{
		Attempt: run.Attempt, Node: run.Node, StartedAt: run.AttemptStartedAt, FinishedAt: run.FinishedAt,
		ExitCode: run.ExitCode, Message: run.Message, Outcome: jobstore.AttemptOutcome(run.State),
	}
	if run.State == jobstore.Failed && run.Reason == jobstore.ReasonTimeout {
		a.Outcome = jobstore.AttemptTimedOut
	}
	return a
}

// maxFolded bounds the search for runs that were coalesced while they waited.
const maxFolded = 1000

func foldedInto(ctx context.Context, store jobstore.Store, into *jobstore.Run) ([]string, error) {
	runs, err := store.Runs(ctx, jobstore.RunFilter{
		Job: into.Job, Target: &into.Target, States: []jobstore.State{jobstore.Coalesced}, Limit: maxFolded,
	})
	var keys []string
	for i := range runs {
		if runs[i].CoalescedInto == into.Key {
			keys = append(keys, runs[i].Key)
		}
	}
	return keys, err
}

// showJSON is a run with what only `show` says of it.
type showJSON struct {
	runJSON
	Attempts   []attemptJSON  `json:"attempts"`
	Output     outputJSON     `json:"output"`
	Checkpoint any            `json:"checkpoint"` // of batches; null
	Plan       planDecisionJS `json:"plan"`
}

type attemptJSON struct {
	Attempt    int      `json:"attempt"`
	Node       string   `json:"node"`
	StartedAt  timeJSON `json:"started_at"`
	FinishedAt timeJSON `json:"finished_at"`
	Outcome    string   `json:"outcome"`
	ExitCode   *int     `json:"exit_code"`
	Message    string   `json:"message"`
}

type outputJSON struct {
	Head    string `json:"head"`
	Tail    string `json:"tail"`
	Size    int64  `json:"size"`     // bytes written
	NotKept int64  `json:"not_kept"` // of them, between head and tail
}

type planDecisionJS struct {
	Trigger string      `json:"trigger"`
	Covers  int64       `json:"covers"`
	Ranges  []rangeJSON `json:"ranges"`
	Runs    []string    `json:"runs"` // coalesced into it while it waited
}

func (s *shown) json() showJSON {
	out := showJSON{
		runJSON:  toRunJSON(&s.run),
		Attempts: make([]attemptJSON, len(s.attempts)),
		Output:   outputJSON{string(s.output.Head), string(s.output.Tail), s.output.Size, notKept(s.output)},
		Plan:     planDecisionJS{string(s.run.Trigger), s.run.Covers, rangesJSON(s.ranges), append([]string{}, s.folded...)},
	}
	for i, a := range s.attempts {
		out.Attempts[i] = attemptJSON{
			a.Attempt, a.Node, timeJSON(a.StartedAt), timeJSON(a.FinishedAt), string(a.Outcome), a.ExitCode, a.Message,
		}
	}
	return out
}

func notKept(o jobstore.Output) int64 {
	return max(0, o.Size-int64(len(o.Head))-int64(len(o.Tail)))
}

func (c *cli) printShown(s *shown) {
	r, now := &s.run, c.now()
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return jobstore.FormatTime(t) + " (" + away(t, now) + ")"
	}
	t := table{c: c, tints: make([]bool, 2)}
	line := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" {
			t.row(name, value)
		}
	}
	t.row("run", r.Key)
	t.row("state", cell{stateText(r), stateColour(r.State)})
	if r.Review {
		t.row("review", cell{"a person must look at this failure", red})
	}
	line("message", r.Message)
	if r.ExitCode != nil {
		line("exit code", *r.ExitCode)
	}
	line("job", r.Job)
	line("target", r.Target)
	line("fire time", when(r.FireTime))
	if !r.NotBefore.Equal(r.FireTime) {
		line("not before", when(r.NotBefore))
	}
	line("deadline", when(r.Deadline))
	line("started", when(r.StartedAt))
	line("finished", when(r.FinishedAt))
	line("took", took(r, now))
	if from, to := windowOf(r); !from.IsZero() {
		line("window", jobstore.FormatTime(from)+" to "+jobstore.FormatTime(to))
	}
	line("covered by", r.CoalescedInto)
	line("made by", s.decision())
	t.print()
	c.printAttempts(s.attempts, now)
	c.printExcerpt(s.output)
}

// decision says which plan decision made the run.
func (s *shown) decision() string {
	what := map[jobstore.Trigger]string{
		jobstore.TriggerSchedule: "its schedule, on time",
		jobstore.TriggerCatchUp:  "its schedule, late: it was caught up",
		jobstore.TriggerManual:   "somebody who asked for it",
	}[s.run.Trigger]
	if what == "" {
		what = string(s.run.Trigger)
	}
	if s.run.Covers <= 1 {
		return what
	}
	what += fmt.Sprintf("; stands for %d fire times", s.run.Covers)
	for _, r := range s.ranges {
		what += fmt.Sprintf("; %d from %s to %s (%s)", r.Count, jobstore.FormatTime(r.First), jobstore.FormatTime(r.Last), r.Reason)
	}
	if len(s.folded) > 0 {
		what += "; came due while it waited: " + strings.Join(s.folded, ", ")
	}
	return what
}

func (c *cli) printAttempts(attempts []jobstore.Attempt, now time.Time) {
	if len(attempts) == 0 {
		return
	}
	c.println()
	t := c.table("ATTEMPT", "OUTCOME", "NODE", "STARTED", "TOOK", "EXIT", "MESSAGE")
	for _, a := range attempts {
		exit, end := "", a.FinishedAt
		if a.ExitCode != nil {
			exit = fmt.Sprint(*a.ExitCode)
		}
		if end.IsZero() {
			end = now
		}
		t.row(a.Attempt, cell{string(a.Outcome), stateColour(jobstore.State(a.Outcome))}, a.Node,
			jobstore.FormatTime(a.StartedAt), roughly(end.Sub(a.StartedAt)), exit, a.Message)
	}
	t.print()
}

// excerpt is how many bytes of each end of the output `show` prints.
const excerpt = 2 << 10

func (c *cli) printExcerpt(o jobstore.Output) {
	if o.Size == 0 {
		return
	}
	c.printf("\noutput, %d bytes:\n", o.Size)
	all := string(o.Head)
	gap := notKept(o)
	if gap == 0 {
		all += string(o.Tail)
	}
	head, tail := all, string(o.Tail)
	if gap == 0 {
		if len(all) <= 2*excerpt {
			c.printIndented(all)
			return
		}
		tail = all
	}
	head, tail = head[:min(len(head), excerpt)], tail[max(0, len(tail)-excerpt):]
	c.printIndented(head)
	c.printf("  … %d bytes; `tidemark logs` prints what is kept of them …\n", o.Size-int64(len(head)+len(tail)))
	c.printIndented(tail)
}

func (c *cli) printIndented(text string) {
	for line := range strings.Lines(safeBlock(text)) {
		c.printf("  %s\n", strings.TrimSuffix(line, "\n"))
	}
}
