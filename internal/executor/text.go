package executor

import (
	"encoding/json"
	"errors"
	"strings"
)

// Text is a value of the config file: as written, and with its `${…}` expanded.
// What a `${…}` stands for is a secret (interfaces 2): only Written is ever
// shown, logged, stored or hashed, and Value goes nowhere but into the work.
type Text struct {
	Written string
	Value   string
	// Secrets are the values of the `${…}` in Written, in their order. Where it
	// is nil they are worked out from Written and Value.
	Secrets []string
}

// Plain is a text without secrets.
func Plain(s string) Text { return Text{Written: s, Value: s} }

// String is the text as written.
func (t Text) String() string { return t.Written }

// GoString is the text as written, so that %#v shows no secret either.
func (t Text) GoString() string { return "executor.Text(" + t.Written + ")" }

// MarshalJSON is the text as written.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.Written) }

// FieldError is one fault of a job's work, for the config file's reader.
type FieldError struct {
	Field string // path within the job: "exec.command[1]", "http.headers.Accept"
	Msg   string // what is wrong; holds no secret
	Hint  string // what to do about it; may be empty
}

// Error is the fault in one line.
func (e *FieldError) Error() string {
	var b strings.Builder
	b.WriteString(e.Field + ": " + e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// FieldErrors lists the faults that err joins.
func FieldErrors(err error) []*FieldError {
	var field *FieldError
	if errors.As(err, &field) && error(field) == err {
		return []*FieldError{field}
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var all []*FieldError
	for _, one := range joined.Unwrap() {
		all = append(all, FieldErrors(one)...)
	}
	return all
}
