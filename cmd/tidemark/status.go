package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show nodes, jobs, and what needs a person",
		Long: `Shows the store, the nodes that work on it and the config that each has loaded,
the jobs, and the failures that wait for a person. The exit code is 0 whatever
there is to see, as long as the store can be read.`,
		Example: `  tidemark status
  tidemark status --json | jq '.jobs[] | select(.overdue_seconds > 0)'`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			where, err := c.storeAddress()
			if err != nil {
				return err
			}
			return c.withStore(cmd, func(store jobstore.Store) error {
				s, err := c.readStatus(cmd, store)
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

// maxReview bounds the failures that status lists.
const maxReview = 50

type status struct {
	store  address
	now    time.Time
	nodes  []jobstore.Node
	jobs   []*jobView
	review []jobstore.Run
}

func (c *cli) readStatus(cmd *cobra.Command, store jobstore.Store) (*status, error) {
	s := &status{now: c.now()}
	var err error
	if s.nodes, err = store.Nodes(cmd.Context()); err != nil {
		return nil, err
	}
	if s.jobs, err = c.readJobs(cmd, store, false); err != nil {
		return nil, err
	}
	s.review, err = store.Runs(cmd.Context(), jobstore.RunFilter{Review: true, Limit: maxReview})
	return s, err
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
	return out
}

func (c *cli) printStatus(s *status) {
	c.printf("store %s: ok\n\n", safe(s.store.shown))
	c.printNodes(s)
	c.println()
	c.printJobs(s.jobs)
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
