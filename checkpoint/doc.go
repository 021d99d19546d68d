// Package checkpoint keeps how far work on a database has got, in that database
// itself (schema tidemark of PostgreSQL; tables tidemark_… of an SQLite file):
// what it says and what was done are committed together, so that both hold or
// neither does. The backends are the subpackages postgres and sqlite, and
// databasetest is the one suite that both pass.
//
// # Statements
//
// [Database].Once runs a statement under a key. The key's row is written first:
// who comes second with the same key, another node or a worker that was thought
// dead, waits at it, and then either finds it committed, with the first result,
// or takes its place. A COMMIT whose answer was lost is looked up by key on a
// new connection before anything is said.
//
// # Parameters
//
// A statement names its run as @from, @to (the window, half-open), @key, @job,
// @target, @scheduled_at and @attempt. They are bound, never pasted.
//
// In PostgreSQL times are timestamptz and the attempt an integer; texts take the
// type that the statement wants, so that a target may be compared with a number
// or a uuid. The session is in UTC unless the database's URL says `timezone=…`.
// In SQLite times are text as datetime() writes it, `2026-11-29 03:00:00` with a
// fraction only where there is one.
//
// # Transactions
//
// A statement may be several commands; they run in order, in one transaction,
// read committed. Commands that would end or divide it are refused when the
// file is loaded.
package checkpoint
