// Command tidemark is the scheduler daemon and all that people do with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/tidemarkd/tidemark/jobstore"
)

// version and commit are set when releases are built: -ldflags "-X main.version=…".
var version, commit string

func main() {
	ctx, abort, stop := watchSignals()
	code := execute(ctx, abort, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns its exit code.
func execute(ctx, abort context.Context, args []string, out, err io.Writer) int {
	c := newCLI(out, err)
	c.abort = abort
	root := c.rootCommand()
	root.SetArgs(args)
	failed := root.ExecuteContext(ctx)
	if failed == nil && c.out.failed != nil {
		failed = fmt.Errorf("write to standard output: %w", c.out.failed)
	}
	if failed == nil {
		return 0
	}
	if cause := (interrupted{}); errors.As(context.Cause(ctx), &cause) {
		return cause.exitCode() // whatever failed did so because of it
	}
	f := classify(failed)
	if errors.Is(failed, jobstore.ErrNoStore) {
		f.hint = c.noStoreHint()
	}
	// The flag may stand behind the one that could not be read.
	f.print(c.err, c.json || slices.Contains(args, "--json"))
	return f.exit
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted: " + i.signal.String() }

func (i interrupted) exitCode() int { return 128 + int(i.signal) }

// watchSignals makes a context that the first SIGINT or SIGTERM ends, and one
// that the second ends. A third has its usual effect: it ends the process.
func watchSignals() (ctx, abort context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	abort, cancelAbort := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for _, end := range []context.CancelCauseFunc{cancel, cancelAbort} {
			select {
			case s := <-signals:
				number, _ := s.(syscall.Signal)
				end(interrupted{number})
			case <-done:
				return
			}
		}
		signal.Stop(signals)
	}()
	return ctx, abort, func() { close(done); signal.Stop(signals) }
}
