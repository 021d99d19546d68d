package main

import (
	"encoding/json"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"now":                          "2026-11-29T12:00:00.123456Z",
		"-2h":                          "2026-11-29T10:00:00.123456Z",
		"+1d12h":                       "2026-12-01T00:00:00.123456Z",
		"-1w":                          "2026-11-22T12:00:00.123456Z",
		"2026-11-29T03:00:00Z":         "2026-11-29T03:00:00Z",
		"2026-11-29T12:00:00+09:00":    "2026-11-29T03:00:00Z",
		"2026-11-29T03:00:00.5Z":       "2026-11-29T03:00:00.5Z",
		"2026-11-29T03:00:00.0000009Z": "2026-11-29T03:00:00Z",
		"2026-11-29 03:00":             "2026-11-29T03:00:00Z",
		"2026-11-29 03:00:07":          "2026-11-29T03:00:07Z",
		"2026-11-29T03:00":             "2026-11-29T03:00:00Z",
		"2026-11-29T03:00Z":            "2026-11-29T03:00:00Z",
		"2026-11-29 12:00+09:00":       "2026-11-29T03:00:00Z",
		" 2026-11-29 ":                 "2026-11-29T00:00:00Z",
	} {
		got, err := parseTime(text, noon)
		if err != nil {
			t.Errorf("parseTime(%q): %v", text, err)
			continue
		}
		if text, _ := json.Marshal(timeJSON(got)); string(text) != `"`+want+`"` {
			t.Errorf("parseTime(%q) = %s, want %q", text, text, want)
		}
	}
	for text, want := range map[string]string{
		"":                     `"" is not a time (` + timeHint + `)`,
		"tomorrow":             `"tomorrow" is not a time (` + timeHint + `)`,
		"-":                    `"-" is not a time (` + timeHint + `)`,
		"--2h":                 `"--2h" is not a time (` + timeHint + `)`,
		"2h":                   `"2h" is not a time (write -2h for that long ago, +2h for in that time)`,
		"-99999999999w":        `"-99999999999w" is not a time (` + timeHint + `)`,
		"2026-02-30":           `"2026-02-30" is not a time (` + timeHint + `)`,
		"2026-11-29T25:00:00Z": `"2026-11-29T25:00:00Z" is not a time (` + timeHint + `)`,
	} {
		if got, err := parseTime(text, noon); err == nil || err.Error() != want {
			t.Errorf("parseTime(%q) = %s, %v, want error %s", text, got, err, want)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"now", "-2h", "+1d", "2026-11-29", "2026-11-29T03:00:00Z", "+", "-9w9d9h", "w"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTime(text, noon)
		if err == nil && got.Nanosecond()%1000 != 0 {
			t.Errorf("parseTime(%q) = %s: finer than a store keeps", text, got)
		}
	})
}

func TestDurationsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 3 * time.Minute: "3m", 36 * time.Hour: "36h", 7 * 24 * time.Hour: "7d",
		90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s",
	} {
		if got := spanText(d); got != want {
			t.Errorf("spanText(%s) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 12345 * time.Microsecond: "10ms", 1234 * time.Millisecond: "1.23s", 61400 * time.Millisecond: "1m1s",
		-5 * time.Minute: "5m", 9*time.Hour + 59*time.Minute: "9h59m", 47 * time.Hour: "47h", 50 * time.Hour: "2d",
	} {
		if got := roughly(d); got != want {
			t.Errorf("roughly(%s) = %s, want %s", d, got, want)
		}
	}
}
