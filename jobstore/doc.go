// Package jobstore says what Tidemark keeps about jobs and runs, and which
// changes to it are legal. It holds types, the state machine, the rules that
// every backend shares, and the interfaces that a backend implements; the
// backends are its subpackages postgres and sqlite, and storetest is the one
// suite that both pass.
//
// # What is kept
//
// A job row holds the definition as written in the file, the job's place on
// the time line (last planned, next fire) and the ledger's count of due
// instants. A target row holds the watermark of one (job, target) and its last
// outcome. A run row is one (job, target, fire time): it exists at most once,
// under its key. Instants that made no run are kept as ranges: first, last,
// count, outcome, reason.
//
// # States of a run
//
//	           ┌──────────► missed | skipped | coalesced | canceled
//	pending ───┤
//	           └─► running ─► succeeded
//	                ▲   │
//	                │   ├───► retrying ──► running
//	                │   ├───► failed      (final; review: a person must look)
//	                └───┘     canceled
//	            takeover: a run whose lease has ended is claimed again
//
// # When a run may be claimed
//
// ClaimAt is the one column that says when a run is up for grabs: for a
// pending run its start (fire time plus jitter), for a retrying one its next
// try, for a running one the end of its lease. It is null while the run waits
// for its turn behind another of its (job, target), and after it has ended.
// One partial index on it serves claims, retries and takeovers.
//
// # Who locks what
//
// Admission (new runs: Fire, Trigger) happens under the lock of the job's row.
// Freeing a slot (Finish, Cancel, a claim that ends in missed or skipped)
// happens under the lock of the target's row, and lets the next waiting run
// go in the same transaction. An admission that would make a run wait takes
// the target's lock too before it decides, so that a slot freed at that moment
// is not overlooked. Rows are locked in the order of their keys.
//
// # Time
//
// The store's clock decides what is due, what has expired and which lease has
// ended; every method reads it itself and returns it where a caller needs it.
// Times are UTC, kept to the microsecond. The zero time.Time stands for null.
package jobstore
