package daemon

import (
	"fmt"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/internal/executor"
	"github.com/tidemarkd/tidemark/scheduler"
)

// jobs makes runnable jobs of a config: each gets the executor of its work.
func (d *databases) jobs(cfg *config.Config) ([]*scheduler.Job, error) {
	jobs := make([]*scheduler.Job, 0, len(cfg.Jobs))
	for i := range cfg.Jobs {
		from := &cfg.Jobs[i]
		job := from.Job
		var err error
		if job.Executor, err = d.executor(cfg, from); err != nil {
			return nil, fmt.Errorf("%s:%d:%d: %s: %w", from.Pos.File, from.Pos.Line, from.Pos.Col, from.Name, err)
		}
		jobs = append(jobs, &job)
	}
	return jobs, nil
}

func (d *databases) executor(cfg *config.Config, job *config.Job) (scheduler.Executor, error) {
	switch {
	case job.Exec != nil:
		return executor.NewExec(*job.Exec, job.Common)
	case job.HTTP != nil:
		return executor.NewHTTP(*job.HTTP, job.Common)
	case job.SQL != nil:
		db, err := d.get(cfg.Databases[job.SQL.Database], cfg.AutoMigrate)
		if err != nil {
			return nil, err
		}
		return executor.NewSQL(*job.SQL, job.Common, db)
	}
	return nil, fmt.Errorf("no work") // config refuses this
}

// plainJobs are a config's jobs without executors: enough to plan with.
func plainJobs(cfg *config.Config) []*scheduler.Job {
	jobs := make([]*scheduler.Job, len(cfg.Jobs))
	for i := range cfg.Jobs {
		jobs[i] = &cfg.Jobs[i].Job
	}
	return jobs
}
