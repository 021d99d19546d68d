package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkd/tidemark/checkpoint"
)

// SQLSTATEs that are told apart (PostgreSQL, appendix A).
const (
	undefinedTable    = "42P01"
	invalidSchema     = "3F000"
	denied            = "42501"
	invalidDatabase   = "3D000"
	tooManyConns      = "53300"
	cannotConnectNow  = "57P03"
	indeterminateType = "42P18"
)

// transient reports whether a retry may help: classes 08 (connection), 40
// (serialization, deadlock), 53 (resources) and 57 (the server's operator, time
// limits), by semantics 5.
func transient(code string) bool {
	return len(code) == 5 && strings.Contains("08 40 53 57", code[:2])
}

func connectText(code string) string {
	switch {
	case strings.HasPrefix(code, "28"):
		return "the server refuses user or password"
	case code == invalidDatabase:
		return "the server has no such database"
	case code == tooManyConns:
		return "the server has no connection left"
	case code == cannotConnectNow:
		return "the server is starting up, shutting down or recovering"
	}
	return "the server refuses the connection"
}

// systemText is the operating system's word for what happened, where it has one.
func systemText(err error, otherwise string) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return otherwise
}

// statementFault translates an error of the user's own statement. What the
// server says of that is for the user to read.
func statementFault(ctx context.Context, err error) *checkpoint.Error {
	fault := &checkpoint.Error{Op: "run the statement", Text: "the connection was lost", Transient: true}
	var answer *pgconn.PgError
	switch {
	case errors.As(err, &answer):
		fault.Code, fault.Transient = "SQLSTATE "+answer.Code, transient(answer.Code) || fatal(answer)
		fault.Text = answer.Message
		if answer.Detail != "" {
			fault.Text += ": " + answer.Detail
		}
		hint := answer.Hint
		if answer.Code == indeterminateType {
			hint = "give the parameter a type, such as @key::text"
		}
		if hint != "" {
			fault.Text += " [" + hint + "]"
		}
	case !connectionLost(err) && ctx.Err() == nil:
		fault.Text, fault.Transient = err.Error(), false // the driver's own: a value that the type does not take
	}
	if ctx.Err() != nil {
		fault.Err = ctx.Err()
	}
	return fault
}

// fatal reports whether the server closed the connection with its answer.
func fatal(answer *pgconn.PgError) bool { return answer.SeverityUnlocalized != "ERROR" }

// connectionLost tells errors of the connection from those of the driver's own
// conversions.
func connectionLost(err error) bool {
	var network net.Error
	return pgconn.SafeToRetry(err) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// ownFault translates an error of one of Tidemark's own statements.
func ownFault(ctx context.Context, op string, err error) error {
	fault := statementFault(ctx, err)
	fault.Op = op
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		switch answer.Code {
		case undefinedTable, invalidSchema:
			fault.Text, fault.Err = checkpoint.ErrNoSchema.Error(), checkpoint.ErrNoSchema
		case denied:
			fault.Text += " [the job's user needs USAGE on schema tidemark, and SELECT, INSERT, UPDATE and DELETE on its tables]"
		}
	}
	return fault
}
