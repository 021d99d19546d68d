// Package executor does the work of jobs: exec runs a command, http sends a
// request, sql runs a statement in a job's own database. Each kind is a config
// struct, which says what the file may hold, and a scheduler.Executor made
// from it.
package executor
