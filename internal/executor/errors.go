package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemarkd/tidemark/scheduler"
)

// FieldError is one fault of a job's work, for the config file's reader.
type FieldError struct {
	Field string // path within the job: "exec.command[1]", "http.headers.Accept"
	Msg   string // what is wrong; holds no secret
	Hint  string // what to do about it; may be empty
}

// Error is the fault in one line.
func (e *FieldError) Error() string {
	if e.Hint == "" {
		return e.Field + ": " + e.Msg
	}
	return e.Field + ": " + e.Msg + " (" + e.Hint + ")"
}

// FieldErrors lists the faults that err joins.
func FieldErrors(err error) []*FieldError {
	switch e := err.(type) { //nolint:errorlint // it is taken apart level by level
	case *FieldError:
		return []*FieldError{e}
	case interface{ Unwrap() []error }:
		var all []*FieldError
		for _, one := range e.Unwrap() {
			all = append(all, FieldErrors(one)...)
		}
		return all
	}
	return nil
}

// faults collects FieldErrors.
type faults struct{ list []error }

func (f *faults) add(field, msg, hint string) {
	f.list = append(f.list, &FieldError{Field: field, Msg: msg, Hint: hint})
}

func (f *faults) err() error { return errors.Join(f.list...) }

// maxMessage bounds the text that is kept with a run, in bytes.
const maxMessage = 2 << 10

// failure is why an attempt failed, as its run keeps it.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// fail is a result that no retry changes, for a person to look at.
func fail(text string) scheduler.Result {
	return scheduler.Result{Err: &failure{text: message(text)}}
}

// failTransient is a result that is worth a retry (semantics 5).
func failTransient(text string) scheduler.Result {
	return scheduler.Result{Err: &failure{text: message(text)}, Transient: true}
}

// stopped is the result of an attempt that was ended from outside: it names
// the cause, and what became of the work. Time-outs are transient (semantics
// 5); after the other causes nobody asks.
func stopped(ctx context.Context, began time.Time, ending string) scheduler.Result {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = scheduler.ErrTimeout
	}
	text := cause.Error()
	if errors.Is(cause, scheduler.ErrTimeout) {
		text = fmt.Sprintf("timed out after %s", roughly(time.Since(began)))
	}
	return scheduler.Result{Err: &failure{text: message(text + ": " + ending), cause: cause}, Transient: true}
}

// roughly cuts d to what a person reads of it.
func roughly(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(10 * time.Millisecond)
}

// message makes text storable everywhere: valid UTF-8, no NUL, bounded.
func message(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
