package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/jobstore"
)

// task is an attempt that this node makes.
type task struct {
	run    jobstore.Run
	job    *Job
	ctx    context.Context
	cancel context.CancelCauseFunc
	out    output
	ending atomic.Bool // the work has ended, its outcome is being recorded

	reported int64 // bytes of output that the store has; the work loop's own
}

func (t *task) lease() jobstore.Lease { return jobstore.Lease{RunID: t.run.ID, Attempt: t.run.Attempt} }

// stop tells the work to end; the first cause counts.
func (t *task) stop(cause error) { t.cancel(cause) }

// ended is an attempt whose outcome is to be recorded.
type ended struct {
	task *task
	end  jobstore.End
}

// reserve promises up to want free slots to a call that may lease runs.
func (s *Scheduler) reserve(want int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return 0
	}
	n := max(min(want, s.opt.Slots-len(s.tasks)-s.reserved), 0)
	s.reserved += n
	return n
}

// begin starts the leased runs, and gives the promised slots back.
func (s *Scheduler) begin(runs []jobstore.Run, reserved int) {
	s.mu.Lock()
	s.reserved -= reserved
	tasks := make([]*task, 0, len(runs))
	for _, run := range runs {
		t := &task{run: run, job: s.jobs[run.Job]}
		t.ctx, t.cancel = context.WithCancelCause(s.work.Context)
		s.tasks[t.lease()] = t
		tasks = append(tasks, t)
	}
	freed := s.backlog && len(runs) < reserved
	s.mu.Unlock()
	if freed {
		kick(s.kickWork)
	}
	for _, t := range tasks {
		go s.execute(t.ctx, t)
	}
}

// running is the number of attempts whose outcome is not recorded yet.
func (s *Scheduler) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)
}

// busy reports whether there are such attempts, or may be in a moment.
func (s *Scheduler) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)+s.reserved > 0
}

func (s *Scheduler) current() map[jobstore.Lease]*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := make(map[jobstore.Lease]*task, len(s.tasks))
	for lease, t := range s.tasks {
		tasks[lease] = t
	}
	return tasks
}

// held are the ids of the runs that this node works on.
func (s *Scheduler) held() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]int64, 0, len(s.tasks))
	for lease := range s.tasks {
		ids = append(ids, lease.RunID)
	}
	return ids
}

func (s *Scheduler) setBacklog(left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backlog = left
}

// forget frees the task's slot.
func (s *Scheduler) forget(t *task) {
	t.cancel(nil)
	s.mu.Lock()
	delete(s.tasks, t.lease())
	wanted := s.backlog
	s.mu.Unlock()
	if wanted {
		kick(s.kickWork)
	}
}

// execute makes the attempt and hands its outcome to the finish loop. An
// attempt whose lease is lost has no outcome: another one decides.
func (s *Scheduler) execute(ctx context.Context, t *task) {
	run := &t.run
	s.opt.Observer.Started(run, time.Since(run.NotBefore)-time.Duration(s.offset.Load()))
	if t.job.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, t.job.Timeout, ErrTimeout)
		defer cancel()
		ctx = limited
	}
	res := s.attempt(ctx, t)
	cause := stopCause(ctx)
	t.ending.Store(true)
	end := t.job.Conclude(run, res, cause, rand.Float64())
	if end.Outcome == jobstore.AttemptLost {
		s.logLost(t, end)
		s.forget(t)
		return
	}
	if t.out.written() > 0 {
		out := t.out.snapshot()
		end.Output = &out
	}
	s.logEnd(t, end)
	select {
	case s.ends <- ended{t, end}:
	case <-s.record.Done():
		s.forget(t)
	}
}

// attempt calls the executor; one that panics has failed.
func (s *Scheduler) attempt(ctx context.Context, t *task) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("executor panicked", zap.String("key", t.run.Key), zap.Any("panic", p), zap.Stack("stack"))
			res = Result{Err: fmt.Errorf("internal error: %v", p)}
		}
	}()
	run := &t.run
	return t.job.Executor.Execute(ctx, Try{
		Key: run.Key, Job: run.Job, Target: run.Target, ScheduledAt: run.FireTime,
		Attempt: run.Attempt, LogicalRun: run.LogicalRun,
		WindowFrom: run.WindowFrom, WindowTo: run.WindowTo, Coalesced: run.Covers - 1,
		Installation: s.opt.Installation,
		Abort:        s.abort,
		Output:       &t.out,
	})
}

// logLost keeps in the log what the store refuses, or is not told: how an
// attempt ended that another one has taken over.
func (s *Scheduler) logLost(t *task, end jobstore.End) {
	fields := []zap.Field{zap.String("key", t.run.Key), zap.Int("attempt", t.run.Attempt), zap.String("outcome", string(end.Outcome))}
	if end.ExitCode != nil {
		fields = append(fields, zap.Int("exit_code", *end.ExitCode))
	}
	if end.Message != "" {
		fields = append(fields, zap.String("error", end.Message))
	}
	s.log.Warn("an attempt ended that has lost its lease: another one decides", fields...)
}

func (s *Scheduler) logEnd(t *task, end jobstore.End) {
	fields := []zap.Field{zap.String("key", t.run.Key), zap.Int("attempt", t.run.Attempt)}
	switch {
	case end.State == jobstore.Succeeded:
		s.log.Debug("succeeded", fields...)
		return
	case end.Message != "":
		fields = append(fields, zap.String("error", end.Message))
	}
	if end.State == jobstore.Retrying {
		s.log.Warn("attempt ended, another follows", append(fields, zap.String("outcome", string(end.Outcome)), zap.Duration("in", end.RetryIn))...)
		return
	}
	s.log.Error("run ended as "+string(end.State), append(fields, zap.Bool("review", end.Review), zap.String("reason", end.Reason))...)
}
