package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/jobstore"
)

func (c *cli) logsCommand() *cobra.Command {
	var follow bool
	var attempt int
	cmd := &cobra.Command{
		Use:   "logs KEY",
		Short: "Print the output of a run",
		Long: `Prints the output of a run's latest attempt as it was written. On a terminal,
control characters are written out. Of a long output the first and the last part
are kept; standard error says how much is missing between them.`,
		Example: `  tidemark logs nightly-report/seoul/2026-11-29T03:00:00Z
  tidemark logs -f nightly-report/seoul/2026-11-29T03:00:00Z`,
		Args: wants("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if attempt < 0 || attempt > 0 && follow {
				return usage(cmd, "--attempt is %d", attempt).hinted("a number from 1 on, without -f")
			}
			return c.withStore(cmd, func(store jobstore.Store) error {
				l := logs{c: c, store: store, key: args[0], attempt: attempt}
				if follow {
					return l.follow(cmd.Context())
				}
				return l.once(cmd.Context())
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing until the run has ended")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "output of this `attempt` (default the latest that wrote)")
	return cmd
}

// logs prints the output of a run, each byte once.
type logs struct {
	c       *cli
	store   jobstore.Store
	key     string
	attempt int
	printed int64  // of the attempt's bytes
	held    []byte // the beginning of a character whose end is still to come
}

func (l *logs) once(ctx context.Context) error {
	run, _, err := l.store.Run(ctx, l.key)
	if err != nil {
		return noRun(err, l.key)
	}
	if l.attempt > run.Attempt {
		f := failed("not_found", "run %s has no attempt %d", l.key, l.attempt)
		f.at = l.key
		return f
	}
	out, err := l.store.Output(ctx, run.ID, l.attempt)
	if err != nil {
		return err
	}
	l.print(out)
	l.flush()
	if out.Size == 0 {
		l.c.note("no output of run %s (%s)", safe(l.key), run.State)
	}
	return nil
}

// follow prints what is written until the run has ended.
func (l *logs) follow(ctx context.Context) error {
	poll := time.NewTicker(followEvery)
	defer poll.Stop()
	for {
		run, _, err := l.store.Run(ctx, l.key)
		if err != nil {
			return noRun(err, l.key)
		}
		if err := l.step(ctx, &run); err != nil {
			return err
		}
		if !run.State.Open() {
			l.c.note("run %s: %s", safe(l.key), safe(stateText(&run)))
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Canceled
		case <-poll.C:
		}
	}
}

// step prints what the run's latest attempt wrote since the last step.
func (l *logs) step(ctx context.Context, run *jobstore.Run) error {
	if run.Attempt == 0 {
		return nil
	}
	if run.Attempt != l.attempt {
		if l.attempt != 0 {
			l.flush()
			l.c.note("attempt %d", run.Attempt)
		}
		l.attempt, l.printed = run.Attempt, 0
	}
	out, err := l.store.Output(ctx, run.ID, run.Attempt)
	if err != nil {
		return err
	}
	l.print(out)
	if !run.State.Open() {
		l.flush()
	}
	return nil
}

// print writes the part of the output that has not been printed yet.
func (l *logs) print(out jobstore.Output) {
	head := int64(len(out.Head))
	if l.printed < head {
		l.write(out.Head[l.printed:])
		l.printed = head
	}
	tail := out.Size - int64(len(out.Tail))
	if gap := tail - l.printed; gap > 0 && len(out.Tail) > 0 {
		l.flush()
		l.c.note("%d bytes were not kept here", gap)
		l.printed = tail
	}
	if l.printed < out.Size && l.printed >= tail {
		l.write(out.Tail[l.printed-tail:])
		l.printed = out.Size
	}
}

// write passes bytes on as they are; a terminal gets none that control it.
func (l *logs) write(p []byte) {
	if !l.c.out.terminal {
		_, _ = l.c.out.Write(p)
		return
	}
	p = append(l.held, p...)
	whole := len(p) - unfinished(p)
	l.held = append([]byte(nil), p[whole:]...)
	l.c.printf("%s", safeBlock(string(p[:whole])))
}

func (l *logs) flush() {
	if len(l.held) > 0 {
		l.c.printf("%s", safeBlock(string(l.held)))
		l.held = nil
	}
}

// unfinished is how many bytes at the end may be the beginning of a character,
// or of a line's end.
func unfinished(p []byte) int {
	if n := len(p); n > 0 && p[n-1] == '\r' {
		return 1
	}
	for n := 1; n <= min(3, len(p)); n++ {
		switch b := p[len(p)-n]; {
		case b < 0x80:
			return 0
		case b >= 0xf0 && n < 4, b >= 0xe0 && n < 3, b >= 0xc0 && n < 2:
			return n
		case b >= 0xc0:
			return 0
		}
	}
	return 0
}

// noRun says which run there is none of.
func noRun(err error, key string) error {
	if !errors.Is(err, jobstore.ErrNotFound) {
		return err
	}
	f := failed("not_found", "no run %q", key)
	f.hint, f.at = "`tidemark runs` lists the keys", key
	return f
}
