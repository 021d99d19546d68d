package config

import (
	"strings"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "500ms": 500 * time.Millisecond,
		"1d": 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour, "1w2d3h4m5s": 9*24*time.Hour + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"0.5d": 12 * time.Hour, "1µs": time.Microsecond,
	} {
		if got, msg, _ := parseDuration(scalar{text: text, tag: "!!str"}); got != want || msg != "" {
			t.Errorf("%s = %v, %s; want %v", text, got, msg, want)
		}
	}
	for text, want := range map[string]string{
		"60": "has no unit", "0": "has no unit", "1.5": "has no unit", "-5m": "is negative", "-1": "is negative", "": "not a duration", "d": "not a duration",
		"1h1d": "not a duration", "1d1w": "not a duration", "+5m": "not a duration", "1d-5h": "not a duration", "5 m": "not a duration", "1y": "not a duration",
		"010": "not a duration", "99999999999999999999w": "too long", "101w99999d": "too long", "9223372036s99999999999h": "not a duration", "1e3s": "not a duration",
	} {
		if got, msg, _ := parseDuration(scalar{text: text, tag: "!!str"}); !strings.Contains(msg, want) {
			t.Errorf("%q = %v, %q; want %q", text, got, msg, want)
		}
	}
}

func TestWhatIsMeantByAMisspelling(t *testing.T) {
	job, top := namesOf(jobType), namesOf(documentType)
	for word, want := range map[string]string{
		"coalesc": "coalesce", "collapse": "", "misfire_grace": "misfire_grace_time", "grace": "kill_grace misfire_grace_time", "shedule": "schedule",
		"time_zone": "timezone", "time-out": "timeout", "retries": "retry", "overlaps": "overlap", "lables": "labels", "exce": "exec",
		"catch_up": "catchup", "max-instances": "max_instances", "zzz": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := strings.Join(closest(word, job), " "); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
	for word, want := range map[string]string{"job": "jobs", "default": "defaults", "listener": "listen", "max_concurrent": "max_concurrent_runs", "grace": "shutdown_grace"} {
		if got := strings.Join(closest(word, top), " "); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}

func TestExpansionHappensOnce(t *testing.T) {
	x := newExpander(func(name string) (string, bool) {
		value, ok := map[string]string{"A": "${B}", "B": "b", "EMPTY": "", "DOLLAR": "$"}[name]
		return value, ok
	})
	for text, want := range map[string]string{
		"":  "",
		"a": "a", "$": "$", "$$": "$$", "$A": "$A", "${A}": "${B}", "x${B}y${B}z": "xbybz", "$${A}": "${A}", "$$${A}": "$${A}",
		"${EMPTY}": "", "${DOLLAR}{B}": "${B}", "$${A}${B}": "${A}b", "}{": "}{", "$${": "${",
	} {
		if got, faults := x.expand(text); got != want || faults != nil {
			t.Errorf("%s = %s, %v; want %s", text, got, faults, want)
		}
	}
	for text, want := range map[string]int{"${NONE}": 1, "${A${B}": 1, "${": 1, "a ${} ${1X} ${a b}": 3, "${file:}": 1, "${file:x}": 1, "${ A }": 1} {
		if _, faults := x.expand(text); len(faults) != want {
			t.Errorf("%s: %v; want %d faults", text, faults, want)
		}
	}
}

func TestAWrongTypeInAnIncludedListPointsAtTheItem(t *testing.T) {
	got := loadError(t, "jobs:\n  a:\n    schedule:\n      - \"@daily\"\n      - {at: noon}\n    misfire_grace_time: 1h\n    coalesce: latest\n    exec: {command: [\"true\"]}\n")
	if want := "tidemark.yaml:5:9: a.schedule[1]: wants a single value, has a mapping"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheColumnInsideAValueIsGivenWhereTheTextShowsIt(t *testing.T) {
	for value, want := range map[string]string{
		`"0 25 * * *"`:             "3:18",
		`0 25 * * *`:               "3:17",
		`'0 25 * * *'`:             "3:18",
		`"0 \x32\x35 * * *"`:       "3:18",
		`"\x30 25 * * *"`:          "3:15", // the text is not the value
		"|-\n      0 25 * * *":     "3:15",
		`!!str "0 25 * * *"`:       "3:15",
		`[ "@daily", 0 25 * * * ]`: "3:29",
	} {
		got := loadError(t, "jobs:\n  a:\n    schedule: "+value+"\n    misfire_grace_time: 1h\n    coalesce: latest\n    exec: {command: [\"true\"]}\n")
		if !strings.HasPrefix(got, "tidemark.yaml:"+want+": ") {
			t.Errorf("%s: %s; want %s", value, got, want)
		}
	}
}
