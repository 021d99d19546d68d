package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [JOB…]",
		Short: "Show nodes, jobs, and what needs a person",
		Long: `Shows the store, the nodes that work on it and the config that each has loaded,
the jobs, and the failures that wait for a person. For jobs that are named it also
lists the newest fire times that made no run, and why: missed, coalesced into which
run, skipped or superseded. The exit code is 0 whatever there is to see, as long as
the store can be read.`,
		Example: `  tidemark status
  tidemark status nightly-report
  tidemark status --json | jq '.jobs[] | select(.overdue_seconds > 0)'`,
		ValidArgsFunction: c.completeJobs,
		RunE: func(cmd *cobra.Command, names []string) error {
			where, err := c.storeAddress()
			if err != nil {
				return err
			}
			return c.withStore(cmd, func(store jobstore.Store) error {
				s, err := c.readStatus(cmd, store, names)
				if err != nil {
					return err
				}
				s.store = where
				if c.json {
					return c.printJSON(s.json())
				}
				c.printStatus(s)
				return nil
			})
		},
	}
}

const (
	maxReview = 50 // failures that status lists
	maxRanges = 20 // of each job that is named
)

type status struct {
	store  address
	now    time.Time
	nodes  []jobstore.Node
	jobs   []*jobView
	review []jobstore.Run
	ranges map[string][]jobstore.Range // by job, oldest first; only of jobs that are named
}

func (c *cli) readStatus(cmd *cobra.Command, store jobstore.Store, names []string) (*status, error) {
	s := &status{now: c.now()}
	var err error
	if s.nodes, err = store.Nodes(cmd.Context()); err != nil {
		return nil, err
	}
	if s.jobs, err = c.readJobs(cmd, store); err != nil {
		return nil, err
	}
	if s.review, err = store.Runs(cmd.Context(), jobstore.RunFilter{Review: true, Limit: maxReview}); err != nil {
		return nil, err
	}
	return s, s.narrow(cmd, store, names)
}

// narrow leaves the named jobs, with their ranges.
func (s *status) narrow(cmd *cobra.Command, store jobstore.Store, names []string) error {
	if len(names) == 0 {
		return nil
	}
	s.ranges = map[string][]jobstore.Range{}
	jobs := s.jobs
	s.jobs = nil
	for _, name := range names {
		i := slices.IndexFunc(jobs, func(v *jobView) bool { return v.job.Name == name })
		if i < 0 {
			return failed("not_found", "no job %q in the store", name).hinted("`tidemark jobs` lists them")
		}
		s.jobs = append(s.jobs, jobs[i])
		ranges, err := store.Ranges(cmd.Context(), jobs[i].job.ID, time.Time{}, s.now)
		if err != nil {
			return err
		}
		s.ranges[name] = ranges[max(0, len(ranges)-maxRanges):]
	}
	s.review = slices.DeleteFunc(s.review, func(r jobstore.Run) bool { return !slices.Contains(names, r.Job) })
	return nil
}

// mismatch reports whether living nodes have loaded different configs.
func (s *status) mismatch() bool {
	hash := ""
	for i := range s.nodes {
		n := &s.nodes[i]
		if !isAlive(n, s.now) || n.ConfigHash == "" {
			continue
		}
		if hash != "" && hash != n.ConfigHash {
			return true
		}
		hash = n.ConfigHash
	}
	return false
}

type statusJSON struct {
	Store          storeJSON  `json:"store"`
	Nodes          []nodeJSON `json:"nodes"`
	ConfigMismatch bool       `json:"config_mismatch"`
	Jobs           []jobJSON  `json:"jobs"`
	Review         []runJSON  `json:"review"`
	// Of jobs that are named: fire times that made no run, by job.
	Ranges map[string][]rangeJSON `json:"ranges,omitempty"`
}

type storeJSON struct {
	Address string `json:"address"`
	OK      bool   `json:"ok"`
}

type nodeJSON struct {
	Node        string   `json:"node"`
	Alive       bool     `json:"alive"`
	Version     string   `json:"version"`
	PID         int      `json:"pid"`
	StartedAt   timeJSON `json:"started_at"`
	SeenAt      timeJSON `json:"seen_at"`
	Running     int      `json:"running"`
	ConfigHash  string   `json:"config_hash"`
	ConfigAt    timeJSON `json:"config_at"`
	ConfigError string   `json:"config_error"`
	Revision    int64    `json:"revision"`
	ClockOffset float64  `json:"clock_offset_seconds"`
}

func (s *status) json() statusJSON {
	out := statusJSON{
		Store: storeJSON{s.store.shown, true}, Nodes: make([]nodeJSON, len(s.nodes)),
		ConfigMismatch: s.mismatch(), Jobs: jobViewsJSON(s.jobs), Review: make([]runJSON, len(s.review)),
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		out.Nodes[i] = nodeJSON{
			Node: n.Name, Alive: isAlive(n, s.now), Version: n.Version, PID: n.PID,
			StartedAt: timeJSON(n.StartedAt), SeenAt: timeJSON(n.SeenAt), Running: n.Running,
			ConfigHash: n.ConfigHash, ConfigAt: timeJSON(n.ConfigAt), ConfigError: n.ConfigErr,
			Revision: n.Revision, ClockOffset: n.ClockOffset.Seconds(),
		}
	}
	for i := range s.review {
		out.Review[i] = toRunJSON(&s.review[i])
	}
	for job, ranges := range s.ranges {
		if out.Ranges == nil {
			out.Ranges = map[string][]rangeJSON{}
		}
		out.Ranges[job] = rangesJSON(ranges)
	}
	return out
}

func (c *cli) printStatus(s *status) {
	c.printf("store %s: ok\n\n", safe(s.store.shown))
	c.printNodes(s)
	c.println()
	c.printJobs(s.jobs)
	c.printRanges(s)
	if len(s.review) == 0 {
		return
	}
	c.printf("\nfailed, for review (a later success of the job and target clears it):\n")
	t := c.table("KEY", "FAILED", "REASON", "MESSAGE")
	for i := range s.review {
		r := &s.review[i]
		t.row(r.Key, cell{away(r.FinishedAt, s.now), red}, r.Reason, shortened(r.Message, 80))
	}
	t.print()
}

func (c *cli) printRanges(s *status) {
	for _, v := range s.jobs {
		ranges := s.ranges[v.job.Name]
		if len(ranges) == 0 {
			continue
		}
		c.printf("\nfire times of %s that made no run of their own:\n", safe(v.job.Name))
		t := c.table("FIRST", "LAST", "COUNT", "OUTCOME", "REASON", "INTO")
		for _, r := range ranges {
			t.row(jobstore.FormatTime(r.First), jobstore.FormatTime(r.Last), r.Count, string(r.Outcome), r.Reason, jobstore.FormatTime(r.Into))
		}
		t.print()
	}
}

func (c *cli) printNodes(s *status) {
	if len(s.nodes) == 0 {
		c.println("no nodes: no daemon works on this store")
		return
	}
	t := c.table("NODE", "STATE", "VERSION", "RUNNING", "UP", "SEEN", "CONFIG")
	for i := range s.nodes {
		n := &s.nodes[i]
		state, up := cell{"dead", red}, ""
		if isAlive(n, s.now) {
			state, up = cell{"alive", green}, roughly(s.now.Sub(n.StartedAt))
		}
		config := cell{text: "loaded " + away(n.ConfigAt, s.now)}
		if n.ConfigErr != "" {
			first, _, _ := strings.Cut(n.ConfigErr, "\n")
			config = cell{"error, the older one goes on: " + first, red}
		}
		t.row(n.Name, state, n.Version, n.Running, up, away(n.SeenAt, s.now), config)
	}
	t.print()
	if s.mismatch() {
		c.println(c.tint("living nodes have loaded different configs: a node leaves jobs alone whose definition differs from the store's", yellow))
	}
}
