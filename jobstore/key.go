package jobstore

import (
	"net/url"
	"strings"
	"time"
)

// TimeFormat is how fire times stand in keys and in everything that people and
// programs read: RFC 3339 in UTC, a fraction only where there is one.
const TimeFormat = "2006-01-02T15:04:05.999999Z"

// FormatTime writes t in TimeFormat; the zero time is the empty string.
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(TimeFormat)
}

// Instant cuts t to what a store keeps: UTC, whole microseconds, no monotonic
// reading.
func Instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0).Truncate(time.Microsecond)
}

// Key is the idempotency key of the run of job and target at fireTime
// (semantics 5): `job/target/2026-11-29T03:00:00Z`, the target percent-encoded,
// so that no two (job, target, fire time) share a key. Job names hold no slash.
func Key(job, target string, fireTime time.Time) string {
	return job + "/" + url.PathEscape(target) + "/" + FormatTime(fireTime)
}

// ManualKey is the key of a run that a person or program asked for under its
// own key.
func ManualKey(job, target, own string) string {
	return job + "/" + url.PathEscape(target) + "/manual:" + url.PathEscape(own)
}

// JobOfKey is the job's name at the time that the key was made.
func JobOfKey(key string) string {
	job, _, _ := strings.Cut(key, "/")
	return job
}
