package executor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/tidemarkd/tidemark/scheduler"
)

func (f *faults) checkMethod(method string) {
	if !isToken(method) {
		f.add("http.method", fmt.Sprintf("%q is no method", method), "write GET, POST, PUT, PATCH or DELETE")
	}
	if method == http.MethodConnect {
		f.add("http.method", "CONNECT asks for a tunnel, not for work", "")
	}
}

func (f *faults) checkExpect(expect []int) {
	for i, code := range expect {
		if code < 200 || code > 599 {
			f.add(fmt.Sprintf("http.expect[%d]", i), fmt.Sprintf("%d is no final status", code), "write one from 200 to 599")
		}
	}
}

func (f *faults) checkHeader(name string) {
	field := "http.headers." + name
	switch key := http.CanonicalHeaderKey(name); {
	case !isToken(name):
		f.add(field, fmt.Sprintf("%q cannot be the name of a header", name), "")
	case key == headerKey:
		f.add(field, "is set by Tidemark, to the run's key", "leave it out; {{.Key}} puts the key elsewhere too")
	case key == "Content-Length" || key == "Transfer-Encoding" || key == "Connection":
		f.add(field, "follows from the request itself", "leave it out")
	}
}

// isToken reports whether s may name a method or a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !plain && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// checkSample looks at the URL as the first run may have it. Where its host is
// a template, what it becomes is looked at again before each request.
func (h *HTTP) checkSample(f *faults, windowed bool) {
	address, _, err := h.url.render(sample(windowed))
	if err != nil {
		return // reported when it was compiled
	}
	if address == "" {
		f.add("http.url", "is missing", "")
		return
	}
	u, err := parseURL(address)
	if err != nil {
		f.add("http.url", err.Error(), "write it whole, such as https://example.test/hook")
		return
	}
	if err := h.guard.host(u.Hostname()); err != nil {
		f.add("http.url", err.Error(), "`allow_link_local: true` permits it")
	}
}

// sendFault is the result of a request that got no answer. Connections refused
// or lost and time-outs are transient (semantics 5).
func (h *HTTP) sendFault(what string, err error) scheduler.Result {
	var wrapped *url.Error // its text has the URL, secrets and all
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := h.mask.text(what + ": " + networkText(err))
	var refused *refusal
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &refused), isTLSFault(err), errors.As(err, &dns) && dns.IsNotFound:
		return fail(text)
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isConnectionLoss(err):
		return failTransient(text)
	}
	return fail(text)
}

func isConnectionLoss(err error) bool {
	for _, loss := range []error{syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, syscall.ECONNABORTED, net.ErrClosed} {
		if errors.Is(err, loss) {
			return true
		}
	}
	return false
}

func isTLSFault(err error) bool {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &record) || errors.As(err, &alert)
}

// networkText says what happened, without the addresses and names that errors
// of package net carry.
func networkText(err error) string {
	var refused *refusal
	var dns *net.DNSError
	var errno syscall.Errno
	var network net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused.text
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &dns):
		return "the host's address cannot be looked up now"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "timed out"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer"
	case isTLSFault(err):
		return "TLS: " + err.Error()
	case errors.As(err, &op):
		return "the connection failed"
	}
	return err.Error()
}
