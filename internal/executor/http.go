package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkd/tidemark/scheduler"
)

const (
	headerKey = "Idempotency-Key"
	userAgent = "tidemark"

	maxRedirects = 5
	// keptBody of an answer is output; readBody of it is waited for, since a
	// server may take the loss of its reader for a cancel.
	keptBody = 64 << 10
	readBody = 16 << 20
	// setupTime bounds what comes before the request is sent: address, TCP and
	// TLS. After that the attempt's own timeout alone decides (pitfall "Retry
	// before the timeout").
	setupTime = 30 * time.Second
	// maxRetryAfter bounds what a server may ask for.
	maxRetryAfter = 24 * time.Hour
)

// HTTPConfig is a job's `http`.
type HTTPConfig struct {
	Method         string          `yaml:"method"` // default: POST with a body, else GET
	URL            Text            `yaml:"url"`
	Headers        map[string]Text `yaml:"headers"`
	Body           Text            `yaml:"body"`
	Expect         []int           `yaml:"expect"` // default: any 2xx
	AllowLinkLocal bool            `yaml:"allow_link_local"`
}

// HTTP sends a request: once per attempt, for what an attempt is must not
// depend on the transport. No proxy is asked, whatever the environment says.
type HTTP struct {
	method  string
	url     phrase
	headers map[string]phrase
	secret  map[string]bool // headers whose value holds a secret
	body    phrase
	expect  []int
	guard   guard
	mask    *mask
}

// Validate says what is wrong with c: FieldErrors, joined.
func (c HTTPConfig) Validate(common Common) error {
	_, err := NewHTTP(c, common)
	return err
}

// NewHTTP is the executor of c. It does no I/O; its errors are FieldErrors, joined.
func NewHTTP(c HTTPConfig, common Common) (*HTTP, error) {
	var f faults
	h := &HTTP{
		method: strings.ToUpper(c.Method), expect: c.Expect, guard: guard{allow: c.AllowLinkLocal},
		headers: make(map[string]phrase, len(c.Headers)), secret: map[string]bool{},
	}
	if h.method == "" {
		h.method = http.MethodGet
		if c.Body.Written != "" {
			h.method = http.MethodPost
		}
	}
	f.checkMethod(h.method)
	f.checkExpect(c.Expect)
	before := len(f.list)
	h.url = f.compile("http.url", c.URL, common.Windowed)
	urlReads := len(f.list) == before
	h.body = f.compile("http.body", c.Body, common.Windowed)
	texts := []Text{c.URL, c.Body}
	for _, name := range sortedKeys(c.Headers) {
		f.checkHeader(name)
		key := http.CanonicalHeaderKey(name)
		if _, twice := h.headers[key]; twice {
			f.add("http.headers."+name, "is there twice, in another spelling", "")
		}
		h.headers[key] = f.compile("http.headers."+name, c.Headers[name], common.Windowed)
		h.secret[key] = len(secretsOf(c.Headers[name])) > 0
		texts = append(texts, c.Headers[name])
	}
	h.mask = newMask(secretsOf(texts...))
	if urlReads {
		h.checkSample(&f, common.Windowed)
	}
	return h, f.err()
}

// Execute implements scheduler.Executor.
func (h *HTTP) Execute(ctx context.Context, try scheduler.Try) scheduler.Result {
	began := time.Now()
	if ctx.Err() != nil {
		return stopped(ctx, began, "the request was not sent")
	}
	req, shown, err := h.request(ctx, try)
	if err != nil {
		return fail(h.mask.text(err.Error()))
	}
	transport := h.transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: h.redirect}
	what := h.method + " " + shown
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return stopped(ctx, began, h.mask.text(what)+": no answer yet")
		}
		return h.sendFault(what, err)
	}
	defer resp.Body.Close()
	if err := h.read(resp.Body, try.Output); err != nil {
		return h.cutOff(ctx, began, what, resp.StatusCode, err)
	}
	return h.judge(what, resp)
}

// transport serves one attempt. Without connections that are used again
// net/http never sends a request a second time by itself, which it would do
// for any that has an Idempotency-Key.
func (h *HTTP) transport() *http.Transport {
	dialer := &net.Dialer{Timeout: setupTime, ControlContext: h.guard.control}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: setupTime,
		DisableKeepAlives:   true,
		DisableCompression:  true, // the answer is kept as it came
	}
}

// request is the request of one attempt, and its URL as messages may show it.
func (h *HTTP) request(ctx context.Context, try scheduler.Try) (*http.Request, string, error) {
	address, shown, err := h.url.render(try)
	if err != nil {
		return nil, "", fmt.Errorf("http.url: %w", err)
	}
	shown = withoutLogin(shown)
	target, err := parseURL(address)
	if err != nil {
		return nil, "", fmt.Errorf("http.url %s: %w", shown, err)
	}
	if err := h.guard.host(target.Hostname()); err != nil {
		return nil, "", fmt.Errorf("http.url %s: %w", shown, err)
	}
	body, _, err := h.body.render(try)
	if err != nil {
		return nil, "", fmt.Errorf("http.body: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, h.method, address, strings.NewReader(body))
	if err != nil {
		return nil, "", errors.New("http.url " + shown + ": not a request that can be sent")
	}
	if body == "" {
		req.Body, req.ContentLength, req.GetBody = http.NoBody, 0, nil
	}
	req.Header.Set("User-Agent", userAgent)
	for name, p := range h.headers {
		value, _, err := p.render(try)
		if err != nil {
			return nil, "", fmt.Errorf("http.headers.%s: %w", name, err)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, "", fmt.Errorf("http.headers.%s: a header cannot hold a line break or another control character", name)
		}
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
			req.Header.Del(name)
		}
	}
	if login := target.User; login != nil && req.Header.Get("Authorization") == "" {
		password, _ := login.Password()
		req.SetBasicAuth(login.Username(), password)
	}
	req.Header.Set(headerKey, try.Key)
	return req, shown, nil
}

// redirect decides about a redirect: followed for GET and HEAD, five at most,
// unless the job expects the status itself. Another server is told no secret of
// this one's.
func (h *HTTP) redirect(req *http.Request, via []*http.Request) error {
	if !h.follows() || slices.Contains(h.expect, req.Response.StatusCode) {
		return http.ErrUseLastResponse
	}
	if len(via) > maxRedirects {
		return &refusal{"more than 5 redirects"}
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return &refusal{"redirected to something that is not http"}
	}
	if err := h.guard.host(req.URL.Hostname()); err != nil {
		return err
	}
	req.Header.Del("Referer") // would carry the query
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
		for name, secret := range h.secret {
			if secret {
				req.Header.Del(name)
			}
		}
	}
	return nil
}

func (h *HTTP) follows() bool { return h.method == http.MethodGet || h.method == http.MethodHead }

// read passes the beginning of the body on and waits for the rest, as far as
// that is bounded.
func (h *HTTP) read(body io.Reader, output io.Writer) error {
	out := h.mask.writer(output)
	defer out.flush()
	if _, err := io.Copy(out, io.LimitReader(body, keptBody)); err != nil {
		return err
	}
	rest, err := io.Copy(io.Discard, io.LimitReader(body, readBody-keptBody))
	if rest > 0 {
		fmt.Fprintf(out, "\n[%d more bytes of the answer, or more, are not kept]\n", rest)
	}
	return err
}

// judge says what a status means (semantics 5).
func (h *HTTP) judge(what string, resp *http.Response) scheduler.Result {
	code := resp.StatusCode
	good := code >= 200 && code <= 299
	if len(h.expect) > 0 {
		good = slices.Contains(h.expect, code)
	}
	if good {
		return scheduler.Result{ExitCode: &code}
	}
	text := fmt.Sprintf("%s: %s", what, statusText(code))
	if code >= 300 && code <= 399 && !h.follows() {
		text += " (redirects are followed for GET and HEAD only)"
	}
	if code != http.StatusRequestTimeout && code != http.StatusTooEarly && code != http.StatusTooManyRequests && code < 500 {
		res := fail(h.mask.text(text))
		res.ExitCode = &code
		return res
	}
	after := retryAfter(resp.Header, time.Now())
	if after > 0 {
		text += fmt.Sprintf(", to be tried again after %s", after)
	}
	res := failTransient(h.mask.text(text))
	res.ExitCode, res.RetryAfter = &code, after
	return res
}

func statusText(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// retryAfter reads a Retry-After header: seconds, or a date (RFC 9110, 10.2.3).
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now).Round(time.Second), 0), maxRetryAfter)
}

// cutOff is the result of an answer that began and did not end.
func (h *HTTP) cutOff(ctx context.Context, began time.Time, what string, code int, err error) scheduler.Result {
	ending := fmt.Sprintf("%s: %s, but the answer was cut off", what, statusText(code))
	res := failTransient(h.mask.text(ending + ": " + networkText(err)))
	if ctx.Err() != nil {
		res = stopped(ctx, began, h.mask.text(ending))
	}
	res.ExitCode = &code
	return res
}

// withoutLogin is a URL without user and password.
func withoutLogin(shown string) string {
	scheme, rest, ok := strings.Cut(shown, "://")
	if !ok {
		return shown
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		return scheme + "://" + rest[at+1:]
	}
	return shown
}

// parseURL parses what may be a secret: the parser's own error quotes it.
func parseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("is not a well-formed URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("is not an http:// or https:// URL")
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	}
	return u, nil
}
