package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkd/tidemark/scheduler"
)

// serve starts a server on loopback and counts its requests.
func serve(t *testing.T, handler http.HandlerFunc) (url string, count *atomic.Int64) {
	t.Helper()
	count = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, count
}

func newHTTP(t *testing.T, c HTTPConfig) *HTTP {
	t.Helper()
	h, err := NewHTTP(c, Common{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func request(t *testing.T, ctx context.Context, c HTTPConfig) (scheduler.Result, string) {
	t.Helper()
	try, out := newTry(t)
	res := newHTTP(t, c).Execute(ctx, try)
	return res, out.String()
}

func TestARequestIsWhatTheFileSays(t *testing.T) {
	var got *http.Request
	var body string
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		io.WriteString(w, "warmed\n")
	})
	res, out := request(t, t.Context(), HTTPConfig{
		Method: "put", URL: Text{Written: url + "/warm/{{.Target}}?at={{.ScheduledAt}}&k=${K}", Value: url + "/warm/{{.Target}}?at={{.ScheduledAt}}&k=v{{.Key}}"},
		Headers: map[string]Text{"authorization": {Written: "Bearer ${TOKEN}", Value: "Bearer t0k3n"}, "X-Attempt": Plain("{{.Attempt}}"), "Host": Plain("other.test")},
		Body:    Plain(`{"run":"{{.Key}}"}`),
	})
	if outcome(res) != "200 transient=false <nil>" || out != "warmed\n" {
		t.Fatalf("%s, output %q", outcome(res), out)
	}
	want := map[string]string{
		"method": "PUT", "path": "/warm/seoul", "at": "2026-11-29T03:00:00Z", "secret": "v{{.Key}}", "host": "other.test",
		"authorization": "Bearer t0k3n", "attempt": "1", "agent": "tidemark",
		"key":  "TestARequestIsWhatTheFileSays/seoul/2026-11-29T03:00:00Z",
		"body": `{"run":"TestARequestIsWhatTheFileSays/seoul/2026-11-29T03:00:00Z"}`,
	}
	have := map[string]string{
		"method": got.Method, "path": got.URL.Path, "at": got.URL.Query().Get("at"), "secret": got.URL.Query().Get("k"), "host": got.Host,
		"authorization": got.Header.Get("Authorization"), "attempt": got.Header.Get("X-Attempt"), "agent": got.Header.Get("User-Agent"),
		"key": got.Header.Get("Idempotency-Key"), "body": body,
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestStatusesAreClassified(t *testing.T) {
	url, count := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(code)
	})
	for _, tc := range []struct {
		code   int
		expect []int
		want   string
		after  time.Duration
	}{
		{code: 200, want: "200 transient=false <nil>"},
		{code: 299, want: "299 transient=false <nil>"},
		{code: 204, expect: []int{200}, want: "204 transient=false POST URL/204: 204 No Content"},
		{code: 409, expect: []int{200, 409}, want: "409 transient=false <nil>"},
		{code: 302, want: "302 transient=false POST URL/302: 302 Found (redirects are followed for GET and HEAD only)"},
		{code: 400, want: "400 transient=false POST URL/400: 400 Bad Request"},
		{code: 404, want: "404 transient=false POST URL/404: 404 Not Found"},
		{code: 408, want: "408 transient=true POST URL/408: 408 Request Timeout, to be tried again after 1m30s", after: 90 * time.Second},
		{code: 425, want: "425 transient=true POST URL/425: 425 Too Early, to be tried again after 1m30s", after: 90 * time.Second},
		{code: 429, want: "429 transient=true POST URL/429: 429 Too Many Requests, to be tried again after 1m30s", after: 90 * time.Second},
		{code: 500, want: "500 transient=true POST URL/500: 500 Internal Server Error, to be tried again after 1m30s", after: 90 * time.Second},
		{code: 503, want: "503 transient=true POST URL/503: 503 Service Unavailable, to be tried again after 1m30s", after: 90 * time.Second},
		{code: 599, want: "599 transient=true POST URL/599: 599, to be tried again after 1m30s", after: 90 * time.Second},
	} {
		before := count.Load()
		res, _ := request(t, t.Context(), HTTPConfig{Method: "POST", URL: Plain(fmt.Sprintf("%s/%d", url, tc.code)), Expect: tc.expect})
		if got := strings.ReplaceAll(outcome(res), url, "URL"); got != tc.want || res.RetryAfter != tc.after {
			t.Errorf("\n got %s, %s\nwant %s, %s", got, res.RetryAfter, tc.want, tc.after)
		}
		if n := count.Load() - before; n != 1 {
			t.Errorf("status %d: %d requests", tc.code, n)
		}
	}
}

func TestRetryAfterIsSecondsOrADateAndBounded(t *testing.T) {
	now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, " 5 ": 5 * time.Second, "-5": 0, "soon": 0, "1.5": 0,
		"99999999999": 24 * time.Hour, "99999999999999999999": 0,
		"Sun, 29 Nov 2026 03:01:00 GMT": time.Minute, "Sun, 29 Nov 2026 02:00:00 GMT": 0, "Mon, 29 Nov 2027 03:00:00 GMT": 24 * time.Hour,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// Pitfall "Retry before the timeout", and what net/http does by itself: a
// request whose connection is lost is sent again where it has an Idempotency-Key.
func TestOneAttemptIsOneRequest(t *testing.T) {
	var requests atomic.Int64
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%2 == 1 {
			return // a good answer first, so that there is a connection to be used again
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	})
	for _, method := range []string{"GET", "POST"} {
		h := newHTTP(t, HTTPConfig{Method: method, URL: Plain(url)})
		try, _ := newTry(t)
		before := requests.Load()
		if res := h.Execute(t.Context(), try); res.Err != nil {
			t.Fatal(res.Err)
		}
		res := h.Execute(t.Context(), try)
		if res.Err == nil || !res.Transient || requests.Load() != before+2 {
			t.Errorf("%s: %s after %d requests", method, outcome(res), requests.Load()-before)
		}
	}
}

func TestOnlyTheAttemptsOwnTimeoutEndsARequest(t *testing.T) {
	release := make(chan struct{})
	url, count := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	res, _ := request(t, within(t, 300*time.Millisecond), HTTPConfig{Method: "POST", URL: Plain(url)})
	if got := outcome(res); !strings.HasPrefix(got, "- transient=true timed out after ") || !strings.HasSuffix(got, ": POST "+url+": no answer yet") || count.Load() != 1 {
		t.Errorf("%s after %d requests", got, count.Load())
	}
	transport := newHTTP(t, HTTPConfig{URL: Plain(url)}).transport()
	if transport.ResponseHeaderTimeout != 0 || !transport.DisableKeepAlives || transport.Proxy != nil {
		t.Error("the transport has a time-out, a proxy or connections of its own")
	}
}

func TestAnAnswerThatIsCutOffIsNoSuccess(t *testing.T) {
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
	})
	res, out := request(t, t.Context(), HTTPConfig{URL: Plain(url)})
	if got := outcome(res); got != "200 transient=true GET "+url+": 200 OK, but the answer was cut off: the connection was closed without an answer" || out != "half" {
		t.Errorf("%s, output %q", got, out)
	}
	stuck, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	res, _ = request(t, within(t, 300*time.Millisecond), HTTPConfig{URL: Plain(stuck)})
	if got := outcome(res); !strings.HasPrefix(got, "200 transient=true timed out after ") {
		t.Error(got)
	}
}

func TestConnectionsRefusedAndHostsUnknown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	res, _ := request(t, t.Context(), HTTPConfig{Method: "POST", URL: Plain("http://user:pass@" + address + "/x")})
	if got := outcome(res); got != "- transient=true POST http://"+address+"/x: connection refused" {
		t.Error(got)
	}
	plain, _ := serve(t, func(http.ResponseWriter, *http.Request) {})
	res, _ = request(t, t.Context(), HTTPConfig{URL: Plain(strings.Replace(plain, "http:", "https:", 1))})
	if res.Err == nil || res.Transient || !strings.Contains(res.Err.Error(), "HTTP response to HTTPS client") {
		t.Error(outcome(res))
	}
	self := httptest.NewUnstartedServer(http.NotFoundHandler())
	self.Config.ErrorLog = log.New(io.Discard, "", 0)
	self.StartTLS()
	defer self.Close()
	res, _ = request(t, t.Context(), HTTPConfig{URL: Plain(self.URL)})
	if res.Err == nil || res.Transient || !strings.Contains(res.Err.Error(), "certificate") {
		t.Error(outcome(res))
	}
}

func TestRedirectsAreFollowedForGETAlone(t *testing.T) {
	var last atomic.Pointer[http.Request]
	url, count := serve(t, func(w http.ResponseWriter, r *http.Request) {
		last.Store(r)
		var left int
		fmt.Sscanf(r.URL.Path, "/%d", &left)
		if left > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", left-1), http.StatusFound)
		}
	})
	for _, tc := range []struct {
		method   string
		n        int
		expect   []int
		requests int64
		want     string
	}{
		{"GET", 5, nil, 6, "200 transient=false <nil>"},
		{"HEAD", 1, nil, 2, "200 transient=false <nil>"},
		{"GET", 6, nil, 6, "- transient=false GET URL/6: more than 5 redirects"},
		{"GET", 1, []int{302}, 1, "302 transient=false <nil>"},
		{"POST", 1, nil, 1, "302 transient=false POST URL/1: 302 Found (redirects are followed for GET and HEAD only)"},
		{"PUT", 1, []int{302}, 1, "302 transient=false <nil>"},
	} {
		before := count.Load()
		res, _ := request(t, t.Context(), HTTPConfig{Method: tc.method, URL: Plain(fmt.Sprintf("%s/%d", url, tc.n)), Expect: tc.expect})
		if got := strings.ReplaceAll(outcome(res), url, "URL"); got != tc.want || count.Load()-before != tc.requests {
			t.Errorf("%s /%d: %s after %d requests", tc.method, tc.n, got, count.Load()-before)
		}
	}
}

func TestARedirectToAnotherServerTakesNoSecretAlong(t *testing.T) {
	var seen http.Header
	other, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { seen = r.Header })
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
	canary := func(prefix string) Text {
		return Text{Written: prefix + "${TOKEN}", Value: prefix + "s3cr3t-canary"}
	}
	res, _ := request(t, t.Context(), HTTPConfig{
		URL:     canary(url + "/?token="),
		Headers: map[string]Text{"X-Api-Key": canary(""), "Authorization": canary("Bearer "), "X-Plain": Plain("kept")},
	})
	if res.Err != nil || seen.Get("X-Plain") != "kept" || seen.Get("Idempotency-Key") == "" {
		t.Fatal(outcome(res), seen)
	}
	if text := fmt.Sprint(seen); strings.Contains(text, "s3cr3t-canary") {
		t.Errorf("the other server sees %s", text)
	}
}

func TestALongAnswerIsKeptInPart(t *testing.T) {
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", keptBody+1000))
	})
	res, out := request(t, t.Context(), HTTPConfig{URL: Plain(url)})
	if res.Err != nil || len(out) < keptBody || !strings.HasSuffix(out, "x\n[1000 more bytes of the answer, or more, are not kept]\n") {
		t.Errorf("%s, %d bytes of output", outcome(res), len(out))
	}
}

// Pitfall "Metadata address as target".
func TestLinkLocalAndMetadataAddressesAreRefusedInAnySpelling(t *testing.T) {
	for _, host := range []string{
		"169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe", "0XA9FEA9FE", "025177524776", "0251.0376.0251.0376",
		"169.254.43518", "169.16689662", "0xa9.0xfe.0xa9.0xfe", "0xa9.254.43518", "169.254.169.254.", "169.0376.0xa9fe",
		"１６９.２５４.１６９.２５４", "169。254。169。254",
		"[fe80::1]", "[fe80::1%25eth0]", "[febf::1]", "[fd00:ec2::254]", "[FD00:0EC2:0::254]", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[0:0:0:0:0:ffff:a9fe:a9fe]",
		"[::169.254.169.254]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]", "[2002:a9fe:a9fe::1]",
		"[2001:0:a9fe:a9fe::1]", "[2001:0:5ef5:79fb:0:0:5601:5601]", "[fe80::5efe:169.254.169.254]", "[2001:db8::5efe:a9fe:a9fe]", "[2001:db8::200:5efe:a9fe:a9fe]",
		"100.100.100.200", "168.63.129.16", "metadata.google.internal", "METADATA.google.internal.", "metadata",
	} {
		_, err := NewHTTP(HTTPConfig{URL: Plain("http://" + host + "/latest/")}, Common{})
		want := "http.url: link-local and metadata addresses are refused (`allow_link_local: true` permits it)"
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", host, err)
		}
		if _, err := NewHTTP(HTTPConfig{URL: Plain("http://" + host + "/latest/"), AllowLinkLocal: true}, Common{}); err != nil {
			t.Errorf("%s allowed: %v", host, err)
		}
	}
	for _, host := range []string{
		"127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1:8080", "[::1]", "[fd12:3456::1]", "example.test", "169.253.255.255", "169.255.0.1",
		"[64:ff9b::10.0.0.1]", "2130706433", "0x7f.1", "1.2.3.4.5", "08.1.1.1", "[2002:a00:1::1]", "a.169.254.169.254", "0x", "host-169.test",
	} {
		if _, err := NewHTTP(HTTPConfig{URL: Plain("http://" + host + "/")}, Common{}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestLinkLocalAddressesAreRefusedWhenConnectingToo(t *testing.T) {
	// A host from a template is unknown when the file is loaded.
	for _, target := range []string{"169.254.169.254", "2852039166", "[fe80::1]", "metadata"} {
		try, _ := newTry(t)
		try.Target = target
		res := newHTTP(t, HTTPConfig{URL: Plain("http://{{.Target}}/")}).Execute(t.Context(), try)
		if got := outcome(res); got != "- transient=false http.url http://"+target+"/: link-local and metadata addresses are refused" {
			t.Error(got)
		}
	}
	// A redirect.
	for _, target := range []string{"http://169.254.169.254/", "http://0xa9fea9fe/", "http://[::ffff:169.254.169.254]/"} {
		url, count := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
		res, _ := request(t, t.Context(), HTTPConfig{URL: Plain(url)})
		if got := outcome(res); got != "- transient=false GET "+url+": link-local and metadata addresses are refused" || count.Load() != 1 {
			t.Error(got)
		}
	}
	// A name that resolves to one: what the dialer connects to decides.
	transport := newHTTP(t, HTTPConfig{URL: Plain("http://example.test/")}).transport()
	for _, address := range []string{"169.254.169.254:80", "[fe80::1%lo]:80", "[::ffff:169.254.1.1]:80"} {
		_, err := transport.DialContext(t.Context(), "tcp", address)
		var refused *refusal
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestFaultsOfARequestAreFoundWhenTheFileIsLoaded(t *testing.T) {
	for _, tc := range []struct {
		c    HTTPConfig
		want string
	}{
		{HTTPConfig{}, "http.url: is missing"},
		{HTTPConfig{URL: Plain("example.test/x")}, "http.url: is not an http:// or https:// URL (write it whole, such as https://example.test/hook)"},
		{HTTPConfig{URL: Plain("ftp://example.test/x")}, "http.url: is not an http:// or https:// URL (write it whole, such as https://example.test/hook)"},
		{HTTPConfig{URL: Plain("http:///x")}, "http.url: is names no host (write it whole, such as https://example.test/hook)"},
		{HTTPConfig{URL: Text{Written: "${U}", Value: "http://s3cr3t-canary\x7f/"}}, "http.url: is not a well-formed URL (write it whole, such as https://example.test/hook)"},
		{HTTPConfig{URL: Plain("http://h/"), Method: "GE T"}, "http.method: \"GE T\" is no method (write GET, POST, PUT, PATCH or DELETE)"},
		{HTTPConfig{URL: Plain("http://h/"), Expect: []int{200, 99}}, "http.expect[1]: 99 is no final status (write one from 200 to 599)"},
		{HTTPConfig{URL: Plain("http://h/"), Headers: map[string]Text{"A b": Plain("")}}, "http.headers.A b: \"A b\" cannot be the name of a header"},
		{HTTPConfig{URL: Plain("http://h/"), Headers: map[string]Text{"idempotency-key": Plain("x")}}, "http.headers.idempotency-key: is set by Tidemark, to the run's key (leave it out; {{.Key}} puts the key elsewhere too)"},
		{HTTPConfig{URL: Plain("http://h/{{.Foo}}")}, "http.url: a template knows no field .Foo (it may name .Key, .Job, .Target, .ScheduledAt, .Attempt, .LogicalRun, .Coalesced)"},
	} {
		_, err := NewHTTP(tc.c, Common{})
		if err == nil || err.Error() != strings.Replace(tc.want, "is names", "names", 1) {
			t.Errorf("\n got %v\nwant %s", err, tc.want)
		}
	}
}

func TestAHeaderTakesNoLineBreak(t *testing.T) {
	url, count := serve(t, func(http.ResponseWriter, *http.Request) {})
	try, _ := newTry(t)
	try.Target = "x\r\nX-Injected: 1"
	res := newHTTP(t, HTTPConfig{URL: Plain(url), Headers: map[string]Text{"X-Target": Plain("{{.Target}}")}}).Execute(t.Context(), try)
	if got := outcome(res); got != "- transient=false http.headers.X-Target: a header cannot hold a line break or another control character" || count.Load() != 0 {
		t.Error(got)
	}
}
