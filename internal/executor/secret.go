package executor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
)

const (
	// minSecret is the shortest value that is masked, in bytes. Shorter ones,
	// such as a port or a yes, stand in every text by chance.
	minSecret = 4
	// minEncoded is the same for the middle part of a base64 form.
	minEncoded = 8
	masked     = "***"
)

// mask takes secrets out of what is shown or stored: the values of `${…}` in
// plain, URL-encoded, JSON-quoted and base64 form (pitfall "secrets in logs and
// API"). A program that prints its token, or a server that returns the request,
// is not meant to put it into the run's history.
type mask struct {
	needles []string // longest first
	first   [256]bool
}

func newMask(secrets []string) *mask {
	m := &mask{}
	for _, s := range secrets {
		for _, form := range []string{s, strings.TrimSpace(s)} {
			if len(form) >= minSecret {
				m.needles = append(m.needles, form, url.QueryEscape(form), url.PathEscape(form), quoted(form))
				m.needles = append(m.needles, encoded(form)...)
			}
		}
	}
	slices.SortFunc(m.needles, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	m.needles = slices.Compact(m.needles)
	for _, n := range m.needles {
		m.first[n[0]] = true
	}
	return m
}

// quoted is s as it stands within a JSON string.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(b[1 : len(b)-1])
}

// encoded is the part of every base64 form that s alone decides, whatever
// stands before and behind it: "user:" + s has another form than s.
func encoded(s string) []string {
	var list []string
	for offset := range 3 {
		whole := base64.RawStdEncoding.EncodeToString(append(make([]byte, offset), s...))
		from := (offset*8 + 5) / 6
		to := (offset + len(s)) * 8 / 6
		if core := whole[from:to]; len(core) >= minEncoded {
			list = append(list, core, strings.NewReplacer("+", "-", "/", "_").Replace(core))
		}
	}
	return list
}

// text is s without secrets.
func (m *mask) text(s string) string {
	var out bytes.Buffer
	w := m.writer(&out)
	_, _ = w.Write([]byte(s))
	w.flush()
	return out.String()
}

// writer takes secrets out of what is written through it to out.
func (m *mask) writer(out io.Writer) *maskWriter { return &maskWriter{mask: m, out: out} }

// maskWriter holds back an end that may be the beginning of a secret, until
// more is written or flush is called. It is not safe for concurrent use.
type maskWriter struct {
	mask *mask
	out  io.Writer
	held []byte
}

// Write never fails.
func (w *maskWriter) Write(p []byte) (int, error) {
	if len(w.mask.needles) == 0 {
		_, _ = w.out.Write(p)
		return len(p), nil
	}
	data := p
	if len(w.held) > 0 {
		data = append(w.held, p...)
	}
	done := 0 // what has been written on
	for i := 0; i < len(data); {
		if !w.mask.first[data[i]] {
			i++
			continue
		}
		length, partial := w.mask.at(data[i:])
		switch {
		case partial:
			_, _ = w.out.Write(data[done:i])
			w.held = bytes.Clone(data[i:])
			return len(p), nil
		case length == 0:
			i++
		default:
			_, _ = w.out.Write(data[done:i])
			_, _ = io.WriteString(w.out, masked)
			i += length
			done = i
		}
	}
	_, _ = w.out.Write(data[done:])
	w.held = nil
	return len(p), nil
}

// at is the length of the secret that data begins with; partial means that
// more data could make it one, or a longer one.
func (m *mask) at(data []byte) (length int, partial bool) {
	for _, n := range m.needles {
		if len(n) <= len(data) {
			if string(data[:len(n)]) == n {
				return len(n), false
			}
		} else if strings.HasPrefix(n, string(data)) {
			return 0, true
		}
	}
	return 0, false
}

// flush writes what is held back.
func (w *maskWriter) flush() {
	held := w.held
	w.held = nil
	for len(held) > 0 {
		length := 0
		for _, n := range w.mask.needles {
			if bytes.HasPrefix(held, []byte(n)) {
				length = len(n)
				break
			}
		}
		if length > 0 {
			_, _ = io.WriteString(w.out, masked)
			held = held[length:]
			continue
		}
		_, _ = w.out.Write(held[:1])
		held = held[1:]
	}
}
