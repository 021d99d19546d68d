package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// loader makes a Config of one file and those that it includes.
type loader struct {
	path    string
	rep     *report
	env     *expander
	doc     document
	top     *scope // nil where the file cannot be parsed
	dirs    []string
	byName  map[string]*jobKeys
	entries []entry // those of byName
}

// entry is a job as written, under its name.
type entry struct {
	name string
	*jobKeys
}

// readMain reads the file itself. A value that cannot be read keeps its default.
func (l *loader) readMain() {
	l.doc.preset()
	src := readSource(l.path, l.rep)
	if src.root == nil {
		return
	}
	l.top = newBinder(src, l.rep, l.env).bind(&l.doc)
	l.addJobs(l.doc.Jobs)
}

// addJobs takes the jobs of one file, unless another file has their names.
func (l *loader) addJobs(jobs map[string]*jobKeys) {
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		keys := jobs[name]
		if keys == nil || keys.scope == nil {
			continue // reported: its value is no mapping
		}
		if first, exists := l.byName[name]; exists {
			keys.failSelf("job of this name exists already", fmt.Sprintf("it stands in %s on line %d", first.src.name, first.key.Line))
			continue
		}
		l.byName[name] = keys
		l.entries = append(l.entries, entry{name, keys})
	}
}

// jobs makes the jobs, sorted by name, and reports what is wrong with each and
// with all of them together.
func (l *loader) jobs() []Job {
	slices.SortFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	l.checkNames()
	l.checkRenames()
	var jobs []Job
	fields := fieldsOf(jobType)
	for _, e := range l.entries {
		if l.doc.Defaults != nil && l.doc.Defaults.scope != nil {
			e.inherit(l.doc.Defaults, fields)
		}
		c := jobCheck{jobKeys: e.jobKeys, name: e.name, doc: &l.doc}
		jobs = append(jobs, c.job())
	}
	return jobs
}

// config is the Config of a document without faults.
func (l *loader) config(jobs []Job) *Config {
	cfg := &Config{
		Path:              l.path,
		Store:             l.doc.Store,
		Listen:            l.doc.Listen.Value,
		Timezone:          l.doc.Timezone,
		Node:              l.doc.Node.Value,
		MaxConcurrentRuns: int(l.doc.MaxConcurrentRuns),
		ShutdownGrace:     time.Duration(l.doc.ShutdownGrace),
		AutoMigrate:       bool(l.doc.AutoMigrate),
		Revision:          int64(l.doc.Revision),
		Retention:         Retention{time.Duration(l.doc.Retention.Runs), time.Duration(l.doc.Retention.Output)},
		Databases:         map[string]Database{},
		Jobs:              jobs,
		Files:             l.watched(),
	}
	for name, d := range l.doc.Databases {
		cfg.Databases[name] = Database{URL: d.URL, MaxConns: int(d.MaxConns)}
	}
	cfg.Hash = hashOf(jobs)
	return cfg
}

// watched is every file read and every directory looked into, each once.
func (l *loader) watched() []string {
	all := slices.Concat(l.rep.files, l.dirs, l.env.read)
	slices.Sort(all)
	return slices.Compact(all)
}
