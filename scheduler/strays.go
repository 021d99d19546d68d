package scheduler

import (
	"maps"
	"slices"
	"sync"
)

// strays are the jobs that this node leaves alone, for the store has another
// definition of them than its file: another node loaded a newer one (semantics
// 6, "Two nodes with different files").
type strays struct {
	mu   sync.Mutex
	jobs map[int64]string
}

// set replaces the strays, by job id, and returns their names.
func (s *strays) set(jobs map[int64]string) []string {
	s.mu.Lock()
	s.jobs = jobs
	s.mu.Unlock()
	return s.names()
}

// add reports whether the job was not known as a stray yet.
func (s *strays) add(id int64, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.jobs[id]
	s.jobs[id] = name
	return !known
}

func (s *strays) ids() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.jobs))
}

func (s *strays) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Values(s.jobs))
}
