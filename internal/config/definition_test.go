package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/scheduler"
)

const plainJob = `
jobs:
  nightly:
    schedule: "0 3 * * *"
    misfire_grace_time: 10m
    coalesce: latest
    retry: {max_attempts: 3}
    labels: {a: x, b: y}
    exec: {command: [echo, hello], env: {A: "1", B: "2"}}
`

func TestTheSameDefinitionInOtherWordsHasTheSameHash(t *testing.T) {
	want := loadText(t, plainJob)
	for name, text := range map[string]string{
		"keys in another order, comments, quotes, block style": `
# a comment
jobs:
  nightly:
    exec:
      env: {B: "2", A: '1'}
      command:
        - echo   # the program
        - "hello"
    labels: {b: y, a: x}
    retry: {max_attempts: 3}
    coalesce: 'latest'
    misfire_grace_time: "10m"
    schedule: ["0 3 * * *"]
`,
		"defaults that say what the job said": `
defaults:
  misfire_grace_time: 10m
  coalesce: latest
  retry: {max_attempts: 3}
jobs:
  nightly:
    schedule: "0 3 * * *"
    labels: {a: x, b: y}
    exec: {command: [echo, hello], env: {A: "1", B: "2"}}
`,
		"built-in defaults written out": strings.Replace(plainJob, "retry: {max_attempts: 3}", `
    retry: {max_attempts: 3, initial: 10s, max: 10m, multiplier: 2}
    overlap: queue
    max_instances: 1
    kill_grace: 10s
    timezone: UTC
    dst_overlap: first
    on_resume: skip
    on_schedule_change: supersede
    paused: false
    window: false
    seconds: false
    jitter: 0s`, 1),
		"defaults that mean nothing to the job": "defaults: {catchup: {max: 5}, timezone: UTC}" + plainJob,
		"a merged mapping":                      strings.Replace(plainJob, "labels: {a: x, b: y}", "labels: {<<: {a: x, b: z}, b: y}", 1),
	} {
		got := loadText(t, text)
		if got.Jobs[0].Hash != want.Jobs[0].Hash {
			t.Errorf("%s:\n%s\n%s", name, want.Jobs[0].JSON, got.Jobs[0].JSON)
		}
		if got.Hash != want.Hash {
			t.Errorf("%s: the hash of the files differs", name)
		}
	}
}

func TestWhatAChangeTouches(t *testing.T) {
	base := loadText(t, plainJob).Jobs[0]
	for _, c := range []struct {
		name, old, new      string
		schedule, workDiffs bool
	}{
		{"label", "a: x", "a: other", false, false},
		{"description", "labels:", "description: what for\n    labels:", false, false},
		{"grace", "10m", "20m", false, false},
		{"schedule", "0 3", "0 4", true, false},
		{"zone", "coalesce:", "timezone: Asia/Seoul\n    coalesce:", true, false},
		{"exclusion", "coalesce:", "exclude: 2026-12-25\n    coalesce:", true, false},
		{"command", "hello", "bye", false, true},
		{"env", `A: "1"`, `A: "3"`, false, true},
		{"user", "exec: {", "exec: {user: app, ", false, true},
		{"dir", "exec: {", "exec: {dir: /srv, ", false, true},
		{"timeout", "coalesce:", "timeout: 5m\n    coalesce:", false, false},
	} {
		got := loadText(t, strings.Replace(plainJob, c.old, c.new, 1)).Jobs[0]
		if got.Hash == base.Hash {
			t.Errorf("%s: the hash is the same", c.name)
		}
		if differs := string(got.Definition.Schedule) != string(base.Definition.Schedule); differs != c.schedule {
			t.Errorf("%s: schedule differs: %v", c.name, differs)
		}
		if differs := got.Fingerprint != base.Fingerprint; differs != c.workDiffs {
			t.Errorf("%s: fingerprint differs: %v", c.name, differs)
		}
	}
}

func TestTheSameWorkOfAnotherKindHasAnotherFingerprint(t *testing.T) {
	var c jobCheck
	c.jobKeys = &jobKeys{scope: newScope("a", nil, nil, newReport())}
	c.written["exec"], c.written["http"] = map[string]any{}, map[string]any{}
	if c.definition(scheduler.ScheduleSpec{}, "exec").Fingerprint == c.definition(scheduler.ScheduleSpec{}, "http").Fingerprint {
		t.Error("they are the same")
	}
}

func TestADefinitionIsKeptAsWrittenInCanonicalJSON(t *testing.T) {
	got := string(job(t, load(t, "testdata/good/variables.yaml"), "nightly").JSON)
	want := `{"catchup":{"max":"${ATTEMPTS}"},"coalesce":"all","dst_overlap":"first",` +
		`"exec":{"command":["echo","${TOKEN}","a${TOKEN}b${TOKEN}","$${TOKEN}","$TOKEN"],"dir":"/srv/${TOKEN}","env":{"T":"${TOKEN}"},"stdin":"${TOKEN}"},` +
		`"jitter":"0s","kill_grace":"10s","max_instances":1,"misfire_grace_time":"${TIMEOUT}","name":"nightly","on_resume":"skip",` +
		`"on_schedule_change":"supersede","overlap":"queue_all","paused":false,` +
		`"retry":{"exit_codes":["${ATTEMPTS}"],"initial":"10s","max":"10m","max_attempts":"${ATTEMPTS}","multiplier":"${FACTOR}"},` +
		`"schedule":["@daily"],"seconds":false,"timeout":"${TIMEOUT}","timezone":"UTC","window":false}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The store's copy of a schedule is parsed again, alone, when the file has a
// new one: it must then fire as it did.
func TestAStoredScheduleFiresAlikeAlone(t *testing.T) {
	cfg := loadText(t, `
timezone: Europe/Berlin
defaults: {misfire_grace_time: 10m, coalesce: latest, exclude: 2026-07-04}
jobs:
  own: {schedule: "TZ=Asia/Seoul 0 3 * * *", exec: {command: ["true"]}}
  mixed: {schedule: ["CRON_TZ=Asia/Seoul 0 3 * * *", "30 4 * * *", "@daily", "@every 7h", "@at 2026-07-05T10:00:00Z"], exec: {command: ["true"]}}
  default: {schedule: "0 3 * * *", exec: {command: ["true"]}}
  job: {schedule: "0 3 * * *", timezone: America/New_York, start_at: 2026-07-02T00:00:00Z, exec: {command: ["true"]}}
`)
	from := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, j := range cfg.Jobs {
		var spec scheduler.ScheduleSpec
		if err := json.Unmarshal(j.Definition.Schedule, &spec); err != nil {
			t.Fatal(err)
		}
		alone, err := scheduler.ParseSchedule(spec)
		if err != nil {
			t.Errorf("%s: %v", j.Name, err)
			continue
		}
		want, got := j.Schedule.FirstN(from, from.AddDate(0, 0, 10), 50), alone.FirstN(from, from.AddDate(0, 0, 10), 50)
		if len(want) < 5 || len(want) != len(got) {
			t.Errorf("%s: %d and %d fire times", j.Name, len(want), len(got))
			continue
		}
		for i := range want {
			if !want[i].Equal(got[i]) {
				t.Errorf("%s fires at %v, alone at %v", j.Name, want[i], got[i])
			}
		}
	}
}

// A change of the file's zone is none for a job whose expressions all name
// their own.
func TestTheFilesZoneDoesNotTouchSchedulesWithTheirOwn(t *testing.T) {
	text := `
timezone: Europe/Berlin
jobs:
  a: {schedule: "TZ=Asia/Seoul 0 3 * * *", misfire_grace_time: 10m, coalesce: latest, exec: {command: ["true"]}}
`
	berlin := loadText(t, text).Jobs[0].Definition.Schedule
	utc := loadText(t, strings.Replace(text, "Europe/Berlin", "UTC", 1)).Jobs[0].Definition.Schedule
	if string(berlin) != string(utc) {
		t.Errorf("%s\n%s", berlin, utc)
	}
}
