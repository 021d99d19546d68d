package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/internal/web"
)

// daemon is what stands behind a handler.
type daemon struct {
	notReady, broken error
	reloads          int
}

func (d *daemon) handler(local bool) http.Handler {
	return web.NewHandler(web.Options{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "tidemark_build_info 1\n") }),
		Ready:   func(context.Context) error { return d.notReady },
		Reload:  func(context.Context) error { d.reloads++; return d.broken },
		Local:   local, Log: zap.NewNop(),
	})
}

func ask(h http.Handler, method, path, host string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var open = map[string]string{"/metrics": "tidemark_build_info 1\n", "/healthz": "ok\n", "/readyz": "ready\n"}

func TestMetricsAndHealthAreOpenToAll(t *testing.T) {
	h := (&daemon{}).handler(false)
	for _, host := range []string{"localhost", "127.0.0.1:9720", "tidemark.example:9720", "10.0.0.7:9720", "[2001:db8::1]:9720", ""} {
		for path, want := range open {
			w := ask(h, "GET", path, host, "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site")
			if w.Code != http.StatusOK || w.Body.String() != want {
				t.Errorf("GET %s of %q: %d %q", path, host, w.Code, w.Body)
			}
			if w := ask(h, "POST", path, host); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("POST %s: %d", path, w.Code)
			}
		}
	}
}

// A page elsewhere that has its name point here must not read them either.
func TestALoopbackAddressAnswersToLoopbackNamesAlone(t *testing.T) {
	h := (&daemon{}).handler(true)
	for path, want := range open {
		for _, host := range []string{"localhost", "localhost:9720", "127.0.0.1:9720", "[::1]:9720"} {
			if w := ask(h, "GET", path, host); w.Code != http.StatusOK || w.Body.String() != want {
				t.Errorf("GET %s of %q: %d %q", path, host, w.Code, w.Body)
			}
		}
		for _, host := range []string{"evil.example", "127.0.0.1.nip.io:9720", "10.0.0.7:9720", ""} {
			if w := ask(h, "GET", path, host); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "tidemark_") {
				t.Errorf("GET %s of %q: %d %q", path, host, w.Code, w.Body)
			}
		}
	}
}

func TestReadyzSaysWhyNotAndHealthzDoesNotCare(t *testing.T) {
	h := (&daemon{notReady: errors.New("store: check store: store unavailable")}).handler(false)
	if w := ask(h, "GET", "/readyz", "x"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "not ready: store: check store: store unavailable\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/healthz", "x"); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}

func TestReloadAnswersToLoopbackNamesAlone(t *testing.T) {
	for host, want := range map[string]int{
		"localhost": 200, "localhost:9720": 200, "LOCALHOST:9720": 200, "127.0.0.1": 200, "127.0.0.1:9720": 200,
		"[::1]": 200, "[::1]:9720": 200, "127.8.9.10:1": 200,
		"": 403, "evil.example": 403, "evil.example:9720": 403, "127.0.0.1.nip.io": 403, "127.0.0.1.nip.io:9720": 403,
		"localhost.evil.example": 403, "evil-localhost": 403, "localhost@evil.example": 403, "10.0.0.7:9720": 403,
		"0.0.0.0:9720": 403, "[::]:9720": 403, "[::ffff:10.0.0.7]:9720": 403, "[2001:db8::1]:9720": 403, ":9720": 403, "127.0.0.1, evil.example": 403,
	} {
		d := &daemon{}
		w := ask(d.handler(true), "POST", "/-/reload", host)
		if w.Code != want {
			t.Errorf("Host %q: %d %q", host, w.Code, w.Body)
		}
		if reloaded := d.reloads == 1; reloaded != (want == 200) {
			t.Errorf("Host %q: %d reloads", host, d.reloads)
		}
	}
}

func TestReloadIsNotThereOnOtherAddresses(t *testing.T) {
	for _, host := range []string{"localhost:9720", "127.0.0.1", "tidemark.example"} {
		d := &daemon{}
		if w := ask(d.handler(false), "POST", "/-/reload", host); w.Code != http.StatusNotFound || d.reloads != 0 {
			t.Errorf("%d, %d reloads", w.Code, d.reloads)
		}
	}
}

func TestReloadIsAPost(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		d := &daemon{}
		w := ask(d.handler(true), method, "/-/reload", "localhost")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" || d.reloads != 0 {
			t.Errorf("%s: %d, Allow %q, %d reloads", method, w.Code, w.Header().Get("Allow"), d.reloads)
		}
	}
}

func TestReloadRefusesOtherOrigins(t *testing.T) {
	for _, c := range []struct {
		header []string
		want   int
	}{
		{nil, 200}, // no browser
		{[]string{"Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"Sec-Fetch-Site", "none"}, 200},
		{[]string{"Origin", "http://localhost:9720"}, 200},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site", "Origin", "http://localhost:9720"}, 403},
		{[]string{"Origin", "https://evil.example"}, 403},
		{[]string{"Origin", "http://localhost:8080"}, 403}, // another program of this machine
		{[]string{"Origin", "null"}, 403},
		{[]string{"Origin", "http://127.0.0.1:9720"}, 403},
	} {
		d := &daemon{}
		w := ask(d.handler(true), "POST", "/-/reload", "localhost:9720", c.header...)
		if w.Code != c.want || (d.reloads == 1) != (c.want == 200) {
			t.Errorf("%v: %d, %d reloads", c.header, w.Code, d.reloads)
		}
	}
}

func TestReloadTellsHowItWent(t *testing.T) {
	d := &daemon{}
	if w := ask(d.handler(true), "POST", "/-/reload", "localhost"); w.Code != http.StatusOK || w.Body.String() != "reloaded\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	d.broken = errors.New("tidemark.yaml:3:5: jobs.a.schedule: wrong <b>\ntidemark.yaml:4:5: jobs.a: more")
	w := ask(d.handler(true), "POST", "/-/reload", "localhost")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), d.broken.Error()) || !strings.Contains(w.Body.String(), "the old definitions go on") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if h := w.Header(); h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a browser could take it for HTML: %v", h)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	for _, path := range []string{"/", "/-/quit", "/-/reload/", "/debug/pprof/", "/api/v1/jobs", "/metrics/x"} {
		for _, local := range []bool{true, false} {
			if w := ask((&daemon{}).handler(local), "GET", path, "localhost"); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	}
}

// HTTP/1.0 needs no Host, and a server passes it on as empty.
func TestARequestWithoutAHostIsRefused(t *testing.T) {
	d := &daemon{}
	server := httptest.NewUnstartedServer(nil)
	server.Config = web.NewServer(d.handler(true))
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /-/reload HTTP/1.0\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || d.reloads != 0 {
		t.Errorf("%d, %d reloads", resp.StatusCode, d.reloads)
	}
}

func TestAServerHasEveryTimeOut(t *testing.T) {
	s := web.NewServer(http.NotFoundHandler())
	for name, value := range map[string]int64{
		"ReadHeaderTimeout": int64(s.ReadHeaderTimeout), "ReadTimeout": int64(s.ReadTimeout),
		"WriteTimeout": int64(s.WriteTimeout), "IdleTimeout": int64(s.IdleTimeout), "MaxHeaderBytes": int64(s.MaxHeaderBytes),
	} {
		if value <= 0 {
			t.Errorf("%s is not set", name)
		}
	}
	// A scrape may take as long as the store does, and must still be written.
	if s.WriteTimeout < s.ReadTimeout {
		t.Errorf("WriteTimeout %v counts from the request's head; ReadTimeout is %v", s.WriteTimeout, s.ReadTimeout)
	}
}

func TestWhatIsALoopbackAddress(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:9720": true, "localhost:9720": true, "Localhost:0": true, "[::1]:9720": true, "127.1.2.3:80": true, "[::ffff:127.0.0.1]:80": true,
		":9720": false, "0.0.0.0:9720": false, "[::]:9720": false, "10.0.0.7:9720": false, "tidemark.example:9720": false,
		"localhost.example:9720": false, "127.0.0.1": false, "localhost": false, "": false, "*:9720": false, "[2001:db8::1]:9720": false,
	} {
		if got := web.IsLocal(listen); got != want {
			t.Errorf("IsLocal(%q) is %v", listen, got)
		}
	}
}
