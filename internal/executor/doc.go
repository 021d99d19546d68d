// Package executor does the work of jobs. exec runs a command, http sends a
// request, sql runs a statement in a job's own database: each is a config
// struct, which says what the file may hold and what is wrong with it, and a
// scheduler.Executor made from that.
//
// # Secrets
//
// What a `${…}` of the file stands for goes into the work and nowhere else.
// Messages are made from texts as written; and since a command may print its
// token, and a server return what it was sent, such values (from four bytes on)
// are replaced by *** in output too, also URL-encoded, JSON-quoted or in base64.
//
// # Templates
//
// {{.Key}}, {{.Job}}, {{.Target}}, {{.ScheduledAt}}, {{.Attempt}},
// {{.LogicalRun}}, {{.Coalesced}}, and where the job has windows
// {{.WindowFrom}} and {{.WindowTo}}, in all texts of exec and http. Times are
// written as in keys; {{.WindowFrom.Format "2006-01-02"}} and
// {{.WindowFrom.Unix}} write them otherwise. In a shell script a key, job or
// target that means something to a shell is refused at run time: the
// environment carries every value.
//
// # Processes
//
// A command has a process group of its own and dies with the daemon. Its
// environment marks it and all that it starts, which is how they are found when
// its time is up, whatever group or session they have moved to, and how Sweep
// finds what a dead daemon left. Only a process that has cleared its
// environment, left the group and lost its parent gets away.
package executor
