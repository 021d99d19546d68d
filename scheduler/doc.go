// Package scheduler decides when and whether jobs run, and makes the runs.
//
// A Schedule turns expressions into instants; MakePlan decides, purely, what
// becomes of those that are due; Reconcile decides, purely, how the store must
// change to match a file. A Scheduler is one node's loops around them: the fire
// loop records plans, the work loop claims and tends runs, the finish loop
// records outcomes, the rescue loop says that the node lives and forgets old
// history. All nodes are equal; the store is what they share.
//
// What runs do is behind Executor, what is counted behind Observer: the two
// seams of the package.
package scheduler
