package executor

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const canary = "s3cr3t-canary"

// wantNoCanary looks for the canary in every form that the pitfall names.
func wantNoCanary(t *testing.T, what, text string) {
	t.Helper()
	for offset := range 3 {
		whole := base64.RawStdEncoding.EncodeToString(append(make([]byte, offset), canary...))
		if strings.Contains(text, whole[4:len(whole)-1]) {
			t.Errorf("%s holds the canary in base64: %s", what, text)
		}
	}
	if plain, err := url.QueryUnescape(text); strings.Contains(text, "canary") || err == nil && strings.Contains(plain, "canary") {
		t.Errorf("%s holds the canary: %s", what, text)
	}
}

// Pitfall "Secrets in logs and API": what an executor gives away is its errors
// and its output.
func TestSecretsOfACommandAppearNowhere(t *testing.T) {
	secret := func(before, after string) Text {
		return Text{Written: before + "${TOKEN}" + after, Value: before + canary + after}
	}
	for name, c := range map[string]ExecConfig{
		"argument":      {Command: []Text{Plain("echo"), secret("--token=", "")}},
		"arguments":     {Command: []Text{Plain("sh"), Plain("-c"), Plain(`echo "$0" "$1"; printf %s "$1" | base64; printf 'user:%s' "$1" | base64; exit 1`), Plain("x"), secret("", "")}},
		"script":        {Command: []Text{secret("echo ", " >&2; exit 3")}, Shell: true},
		"environment":   {Command: words("env"), Env: map[string]Text{"TOKEN": secret("a", "b")}},
		"standard in":   {Command: words("cat"), Stdin: secret("{{.Key}} ", "\n")},
		"program":       {Command: []Text{secret("/no/such/", "/bin")}},
		"program name":  {Command: []Text{secret("no-such-", "")}},
		"folder":        {Command: words("true"), Dir: secret("/no/such/", "/dir")},
		"byte by byte":  {Command: []Text{Plain("sh"), Plain("-c"), Plain(`printf s3cr; sleep 0.05; printf 3t-can; sleep 0.05; printf ary`), secret("", "")}},
		"not a text":    {Command: []Text{{Written: "echo", Value: canary}}},
		"with template": {Command: []Text{Plain("echo"), secret("{{.Target}}", "{{.Attempt}}")}},
	} {
		t.Run(name, func(t *testing.T) {
			res, out := run(t, t.Context(), c, Common{})
			wantNoCanary(t, "output", out)
			wantNoCanary(t, "result", fmt.Sprintf("%v %+v", res.Err, res))
		})
	}
}

func TestSecretsOfARequestAppearNowhere(t *testing.T) {
	echo, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		r.Write(w)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q %s %s", body, body, url.QueryEscape(r.Header.Get("X-Api-Key")), r.URL)
	})
	broken, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	away, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://user:"+canary+"@127.0.0.1:1/"+canary, http.StatusFound)
	})
	for name, base := range map[string]string{"echo": echo, "broken": broken, "away": away, "refused": "http://127.0.0.1:1", "unknown": "http://host.invalid"} {
		t.Run(name, func(t *testing.T) {
			host := strings.TrimPrefix(base, "http://")
			c := HTTPConfig{
				Method: "GET",
				URL: Text{
					Written: "http://user:${TOKEN}@" + host + "/a/${TOKEN}?token=${TOKEN}&key={{.Key}}",
					Value:   "http://user:" + canary + "@" + host + "/a/" + canary + "?token=" + canary + "&key={{.Key}}",
				},
				Headers: map[string]Text{"X-Api-Key": {Written: "${TOKEN} x", Value: canary + " x"}},
				Body:    Text{Written: "${TOKEN}", Value: canary},
			}
			res, out := request(t, t.Context(), c)
			wantNoCanary(t, "output", out)
			wantNoCanary(t, "result", fmt.Sprintf("%v %+v", res.Err, res))
			if name == "echo" && !strings.Contains(out, "***") {
				t.Errorf("nothing was masked: %s", out)
			}
		})
	}
	whole := HTTPConfig{URL: Text{Written: "${URL}", Value: "http://" + canary + ".invalid/" + canary}}
	res, _ := request(t, t.Context(), whole)
	wantNoCanary(t, "result", fmt.Sprint(res.Err))
	if got := outcome(res); !strings.HasPrefix(got, "- transient=false GET ${URL}: no such host") && !strings.HasPrefix(got, "- transient=true GET ${URL}: the host's address") {
		t.Error(got)
	}
	whole.URL.Value = "http://[" + canary + "/"
	if _, err := NewHTTP(whole, Common{}); err == nil {
		t.Error("a broken URL is taken")
	} else {
		wantNoCanary(t, "error", err.Error())
	}
}

func TestMaskingDoesNotDependOnHowOutputIsCut(t *testing.T) {
	m := newMask([]string{"hunter22", "hunt", "ünïcode/secret", "ab"})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"hunter22", "hunt", "hun", "h", "ünïcode/secret", "x", "\xff", "ab", "aHVudGVyMjI", url.QueryEscape("ünïcode/secret")}), 0, 12).Draw(t, "parts")
		text := strings.Join(parts, "")
		var out bytes.Buffer
		w := m.writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		w.flush()
		if got, want := out.String(), m.text(text); got != want {
			t.Fatalf("%q became %q in parts, %q as a whole", text, got, want)
		}
		if strings.Contains(out.String(), "hunt") || strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "aHVudGVy") {
			t.Fatalf("%q became %q", text, out.String())
		}
	})
}

func TestWithoutSecretsOutputPassesAsItIs(t *testing.T) {
	var out bytes.Buffer
	w := newMask([]string{"", "80", "yes"}).writer(&out)
	w.Write([]byte("port 80: yes"))
	w.flush()
	if out.String() != "port 80: yes" {
		t.Errorf("%q", out.String())
	}
}
