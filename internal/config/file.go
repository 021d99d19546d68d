package config

import (
	"time"

	"github.com/tidemarkd/tidemark/internal/executor"
)

// document is a config file as it is written. Choices and defaults in the
// jsonschema tags, here and below, are what the binder, the definitions and the
// JSON Schema go by; docs/configuration.md has the meanings.
type document struct {
	// Where state and history are kept: sqlite:FILE or postgres://….
	Store executor.Text `yaml:"store" jsonschema:"default=sqlite:tidemark.db"`
	// Address of metrics, health, API and dashboard: host:port.
	Listen executor.Text `yaml:"listen" jsonschema:"default=127.0.0.1:9720"`
	// IANA zone of the jobs that name none.
	Timezone string `yaml:"timezone" jsonschema:"default=UTC"`
	// Name of this node among those that share the store. Empty means the host name.
	Node executor.Text `yaml:"node"`
	// How many runs this node executes at once.
	MaxConcurrentRuns integer `yaml:"max_concurrent_runs" jsonschema:"default=64,minimum=1"`
	// How long running work may go on after the daemon was told to stop.
	ShutdownGrace duration `yaml:"shutdown_grace" jsonschema:"default=30s"`
	// Bring the schema of the store up to date at start.
	AutoMigrate boolean `yaml:"auto_migrate" jsonschema:"default=true"`
	// Of two nodes' files the one with the higher revision wins.
	Revision integer `yaml:"revision" jsonschema:"default=0,minimum=0"`
	// How long finished runs and their output are kept.
	Retention retentionKeys `yaml:"retention"`
	// The databases that sql jobs work in, by name.
	Databases map[string]databaseKeys `yaml:"databases"`
	// More files with jobs: names or patterns, relative to this file.
	Include patterns `yaml:"include"`
	// What jobs have that do not say otherwise: every job field except renamed_from, exec, http and sql.
	Defaults *jobKeys `yaml:"defaults"`
	// The jobs, by name.
	Jobs map[string]*jobKeys `yaml:"jobs"`
}

// patterns are names of files with * and the like.
type patterns []executor.Text

func (d *document) preset() {
	d.Store = executor.Plain("sqlite:tidemark.db")
	d.Listen = executor.Plain("127.0.0.1:9720")
	d.Timezone = "UTC"
	d.MaxConcurrentRuns = 64
	d.ShutdownGrace = duration(30 * time.Second)
	d.AutoMigrate = true
	d.Retention.preset()
}

func (document) misplaced(key string) string {
	if _, isJobs := fieldsOf(jobType)[key]; isJobs {
		return "it belongs to a job, or into `defaults:`"
	}
	return ""
}

// included is a file that `include:` names.
type included struct {
	// The jobs, by name.
	Jobs map[string]*jobKeys `yaml:"jobs"`
}

func (included) misplaced(key string) string {
	if _, isTop := fieldsOf(documentType)[key]; isTop {
		return "an included file holds only `jobs:`; this belongs into the file that includes it"
	}
	return document{}.misplaced(key)
}

// retentionKeys is `retention:`.
type retentionKeys struct {
	// How long finished runs are kept.
	Runs duration `yaml:"runs" jsonschema:"default=90d"`
	// How long their output is kept.
	Output duration `yaml:"output" jsonschema:"default=14d"`
}

func (r *retentionKeys) preset() {
	r.Runs, r.Output = duration(90*24*time.Hour), duration(14*24*time.Hour)
}

// databaseKeys is an entry of `databases:`.
type databaseKeys struct {
	// Where it is: postgres://… or sqlite:FILE.
	URL executor.Text `yaml:"url"`
	// How many connections this node opens to it at most.
	MaxConns integer `yaml:"max_conns" jsonschema:"default=4,minimum=1"`
}

func (d *databaseKeys) preset() { d.MaxConns = defaultMaxConns }

// defaultMaxConns lets a few jobs of one database run beside each other, and is
// far from the hundred connections that a Postgres server allows in all.
const defaultMaxConns = 4

// jobKeys is a job, or `defaults:`.
type jobKeys struct {
	*scope `yaml:"-"`

	// When it fires: a cron expression, @hourly and the like, @every DURATION, @at TIME, or a list of these.
	Schedule oneOrMany `yaml:"schedule"`
	// Cron expressions have six fields, the first one seconds.
	Seconds bool `yaml:"seconds" jsonschema:"default=false"`
	// IANA zone of the schedule. Default: the file's timezone.
	Timezone string `yaml:"timezone"`
	// First instant that may fire, included; anchors @every.
	StartAt time.Time `yaml:"start_at"`
	// Last instant that may fire, included.
	EndAt time.Time `yaml:"end_at"`
	// Dates (2026-12-25) and ranges of them (2026-12-24..2026-12-26) on which nothing fires, in the job's zone.
	Exclude dates `yaml:"exclude"`
	// Delays each start by a stable amount below this.
	Jitter duration `yaml:"jitter" jsonschema:"default=0s"`
	// What a fixed-time fire does whose local time daylight saving skips. Default: it fires once, after the gap.
	DSTGap string `yaml:"dst_gap" jsonschema:"enum=skip"`
	// Which of two equal local times a fixed-time fire takes.
	DSTOverlap string `yaml:"dst_overlap" jsonschema:"enum=first,enum=both,enum=last,default=first"`
	// How late a run may first start: a duration of 1s or more, or unlimited. No default.
	MisfireGraceTime grace `yaml:"misfire_grace_time"`
	// Which of several late fire times becomes a run. No default.
	Coalesce string `yaml:"coalesce" jsonschema:"enum=latest,enum=earliest,enum=all"`
	// Bounds what coalesce: all catches up.
	Catchup catchupKeys `yaml:"catchup"`
	// What was due by the old schedule when it changes: given up, or planned first.
	OnScheduleChange string `yaml:"on_schedule_change" jsonschema:"enum=supersede,enum=finish,default=supersede"`
	// What was due during a pause: passed over, or treated like downtime.
	OnResume string `yaml:"on_resume" jsonschema:"enum=skip,enum=catch_up,default=skip"`
	// What a due run does while max_instances of its target are active. Default: queue; with coalesce: all, queue_all.
	Overlap string `yaml:"overlap" jsonschema:"enum=queue,enum=queue_all,enum=allow"`
	// How many runs of one target may be active. Default: 1; with overlap: allow, no bound.
	MaxInstances int `yaml:"max_instances" jsonschema:"minimum=1"`
	// Independent partitions of the job, such as tenants or shards: each fire time gives one run for each.
	Targets []string `yaml:"targets"`
	// The work depends on its window: a run that a later one has covered is skipped.
	Window bool `yaml:"window" jsonschema:"default=false"`
	// Where the first window of a new target begins. Default: the job's last planned instant.
	WatermarkStart time.Time `yaml:"watermark_start"`
	// How long an attempt may take. Default: no bound.
	Timeout duration `yaml:"timeout"`
	// How long a command has between SIGTERM and SIGKILL.
	KillGrace duration `yaml:"kill_grace" jsonschema:"default=10s"`
	// Whether and how a failed attempt is repeated. Default: one attempt.
	Retry retryKeys `yaml:"retry"`
	// Nothing of the job is planned or started.
	Paused bool `yaml:"paused" jsonschema:"default=false"`
	// The name that the job had: state, history and watermark are carried over.
	RenamedFrom string `yaml:"renamed_from"`
	// Free labels, for people and the API.
	Labels map[string]string `yaml:"labels"`
	// What the job is for.
	Description string `yaml:"description"`
	// A command to run.
	Exec *executor.ExecConfig `yaml:"exec"`
	// A request to send.
	HTTP *executor.HTTPConfig `yaml:"http"`
	// A statement to run in a database.
	SQL *executor.SQLConfig `yaml:"sql"`
}

func (j *jobKeys) enter(s *scope) { j.scope = s }

func (jobKeys) misplaced(key string) string {
	if _, isTop := fieldsOf(documentType)[key]; isTop {
		return "it belongs to the top of the file"
	}
	for kind, work := range workTypes() {
		if _, ok := fieldsOf(work)[key]; ok {
			return "it belongs into `" + kind + ":`"
		}
	}
	return ""
}

// catchupKeys is `catchup:`.
type catchupKeys struct {
	// How many of the late fire times are kept, the newest: a number or unlimited.
	Max limit `yaml:"max"`
}

// retryKeys is `retry:`.
type retryKeys struct {
	// How many attempts may fail, the last one included.
	MaxAttempts integer `yaml:"max_attempts" jsonschema:"minimum=1"`
	// Bound of the first delay.
	Initial duration `yaml:"initial" jsonschema:"default=10s"`
	// Bound of every delay.
	Max duration `yaml:"max" jsonschema:"default=10m"`
	// What the bound grows by with each failure.
	Multiplier decimal `yaml:"multiplier" jsonschema:"default=2,minimum=1"`
	// Exit codes that are worth a retry, beside 75.
	ExitCodes []integer `yaml:"exit_codes"`
}

func (r *retryKeys) preset() {
	r.Initial, r.Max, r.Multiplier = duration(10*time.Second), duration(10*time.Minute), 2
}
