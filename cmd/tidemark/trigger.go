package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

type triggerFlags struct {
	target, key, window string
	wait                bool
}

func (c *cli) triggerCommand() *cobra.Command {
	var f triggerFlags
	cmd := &cobra.Command{
		Use:   "trigger JOB",
		Short: "Ask for a run now",
		Long: `Asks for a run of a job now, and prints its key. It waits its turn behind runs
of the same job and target. The same --key twice is one run: the second call
prints the key of the first.

The window of the run is that from the watermark to now, and counts like any
other; one given with --window never moves the watermark.`,
		Example: `  tidemark trigger nightly-report --target seoul
  tidemark trigger nightly-report --target seoul --key ticket-4711 --wait
  tidemark trigger rollup --window 2026-11-28,2026-11-29`,
		Args:              wants("JOB"),
		ValidArgsFunction: c.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := c.triggerRequest(cmd, &f, args[0])
			if err != nil {
				return err
			}
			return c.withStore(cmd, func(store jobstore.Store) error {
				return c.trigger(cmd, store, req, f.wait)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.target, "target", "", "the `target`, of a job that has targets")
	flags.StringVar(&f.key, "key", "", "your own `key`: the same one again is the same run (default a random one)")
	flags.StringVar(&f.window, "window", "", "the window, `FROM,TO`")
	flags.BoolVar(&f.wait, "wait", false, "wait until the run has ended; exit code 1 unless it succeeded")
	return cmd
}

// maxOwnKey bounds a caller's key: it stands in headers and in environments.
const maxOwnKey = 255

func (c *cli) triggerRequest(cmd *cobra.Command, f *triggerFlags, job string) (jobstore.TriggerRequest, error) {
	req := jobstore.TriggerRequest{Job: job, Target: f.target}
	own := f.key
	switch {
	case !cmd.Flags().Changed("key"):
		own = strings.ToLower(rand.Text())
	case own == "":
		return req, usage(cmd, "--key is empty")
	case len(own) > maxOwnKey:
		return req, usage(cmd, "--key is longer than %d bytes", maxOwnKey)
	}
	req.Key = jobstore.ManualKey(job, f.target, own)
	if !cmd.Flags().Changed("window") {
		return req, nil
	}
	from, to, both := strings.Cut(f.window, ",")
	if !both {
		return req, usage(cmd, "--window: %q is no window", f.window).hinted("write FROM,TO, such as 2026-11-28,2026-11-29")
	}
	now := c.now()
	var err error
	if req.WindowFrom, err = parseTime(from, now); err != nil {
		return req, usageAt(cmd, "--window", err)
	}
	if req.WindowTo, err = parseTime(to, now); err != nil {
		return req, usageAt(cmd, "--window", err)
	}
	if req.WindowTo.Before(req.WindowFrom) {
		return req, usage(cmd, "--window: %s is after %s", jobstore.FormatTime(req.WindowFrom), jobstore.FormatTime(req.WindowTo)).hinted("write the earlier time first")
	}
	return req, nil
}

func (c *cli) trigger(cmd *cobra.Command, store jobstore.Store, req jobstore.TriggerRequest, wait bool) error {
	ctx := cmd.Context()
	job, err := c.storedJob(cmd, store, req.Job)
	if err != nil {
		return err
	}
	if !job.RemovedAt.IsZero() {
		f := failed("state", "job %q was removed from the config", job.Name)
		f.at = job.Name
		return f
	}
	if err := checkTarget(&job, req.Target); err != nil {
		return err
	}
	run, created, err := store.Trigger(ctx, req)
	if err != nil {
		return err
	}
	if !c.json {
		c.println(safe(run.Key))
	}
	if !created && !wait {
		c.note("that key's run exists already: %s", safe(stateText(&run)))
	}
	if run.State.Open() {
		if err := c.noteDelay(ctx, store, &job); err != nil {
			return err
		}
	}
	if wait {
		if run, err = c.await(ctx, store, run.Key); err != nil {
			return err
		}
	}
	if c.json {
		if err := c.printJSON(struct {
			runJSON
			Created bool `json:"created"`
		}{toRunJSON(&run), created}); err != nil {
			return err
		}
	}
	if !wait {
		return nil
	}
	if err := notSucceeded(&run); err != nil {
		return err
	}
	c.note("run %s: %s in %s", safe(run.Key), run.State, took(&run, c.now()))
	return nil
}

// checkTarget refuses a target that the job does not have.
func checkTarget(job *jobstore.Job, target string) error {
	targets := targetsOf(job)
	if slices.Contains(targets, target) {
		return nil
	}
	var f *failure
	switch {
	case len(targets) == 0 && target == "":
		return nil
	case len(targets) == 0:
		f = failed("not_found", "job %q has no targets, %q is one", job.Name, target)
	case target == "":
		f = failed("not_found", "job %q has targets: name one with --target", job.Name)
	default:
		f = failed("not_found", "job %q has no target %q", job.Name, target)
	}
	if len(targets) > 0 {
		f.hint = "there are " + strings.Join(targets, ", ")
	}
	f.at = "--target"
	return f
}

// targetsOf is the targets in a job's stored definition.
func targetsOf(job *jobstore.Job) []string {
	var def struct {
		Targets []string `json:"targets"`
	}
	if json.Unmarshal(job.JSON, &def) != nil {
		return nil
	}
	return def.Targets
}

// noteDelay says what keeps a run from starting now.
func (c *cli) noteDelay(ctx context.Context, store jobstore.Store, job *jobstore.Job) error {
	if job.Pause.Active(c.now()) {
		c.note("job %s is paused %s: the run waits until that ends", safe(job.Name), safe(pauseText(job.Pause)))
	}
	return c.noteNoDaemon(ctx, store)
}

// noteNoDaemon says so where nobody acts on what is asked for.
func (c *cli) noteNoDaemon(ctx context.Context, store jobstore.Store) error {
	nodes, err := store.Nodes(ctx)
	if err != nil {
		return err
	}
	now := c.now()
	if !slices.ContainsFunc(nodes, func(n jobstore.Node) bool { return isAlive(&n, now) }) {
		c.note("no daemon works on this store now: the run waits until one does")
	}
	return nil
}

func isAlive(n *jobstore.Node, now time.Time) bool { return now.Sub(n.SeenAt) < jobstore.NodeTimeout }
