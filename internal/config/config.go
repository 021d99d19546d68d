package config

import (
	"time"

	"github.com/tidemarkd/tidemark/internal/executor"
	"github.com/tidemarkd/tidemark/scheduler"
)

// Config is a config file with all that it includes, checked.
type Config struct {
	Path              string        // of the file, as given to Load
	Store             executor.Text // sqlite:FILE or postgres://…
	Listen            string        // host:port
	Timezone          string        // IANA name
	Node              string        // empty: the host name
	MaxConcurrentRuns int
	ShutdownGrace     time.Duration
	AutoMigrate       bool
	Revision          int64
	Retention         Retention
	Databases         map[string]Database
	Jobs              []Job // sorted by name
	// Hash is that of all jobs as written: order, comments and the spelling of
	// YAML do not change it, nor does what a `${…}` stands for, nor what is a
	// node's own affair, such as `node` and `listen`.
	Hash string
	// Files are all files that were read, secrets included, and all directories
	// in which `include:` looked: what to watch for changes.
	Files []string
}

// Retention is how long history is kept.
type Retention struct {
	Runs   time.Duration
	Output time.Duration
}

// Database is where sql jobs work.
type Database struct {
	URL      executor.Text
	MaxConns int
}

// Job is a job of the file: what a node runs, but for the Executor, which is
// made from the one kind of work that is not nil.
type Job struct {
	scheduler.Job
	Exec   *executor.ExecConfig
	HTTP   *executor.HTTPConfig
	SQL    *executor.SQLConfig
	Common executor.Common
	Pos    Pos
}

// Pos is where a job is defined.
type Pos struct {
	File      string
	Line, Col int
}

// Options are what Load takes from its surroundings.
type Options struct {
	// LookupEnv finds the variables of `${NAME}`; nil means os.LookupEnv.
	LookupEnv func(string) (string, bool)
}

// Load reads and checks a config file and all that it includes. The error is
// of type Errors and holds every fault that there is; the Config is then nil.
func Load(path string, opts Options) (*Config, error) {
	l := loader{path: path, rep: newReport(), env: newExpander(opts.LookupEnv), byName: map[string]*jobKeys{}}
	l.readMain()
	l.readIncluded()
	l.checkTop()
	l.checkDefaults()
	jobs := l.jobs()
	if err := l.rep.err(); err != nil {
		return nil, err
	}
	return l.config(jobs), nil
}
