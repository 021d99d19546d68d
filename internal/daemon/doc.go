// Package daemon wires Tidemark together: it is the only place where backends,
// executors, loops, metrics and HTTP meet. It decides nothing itself.
package daemon
