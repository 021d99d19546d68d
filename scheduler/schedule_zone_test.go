package scheduler

import (
	"archive/zip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLoadZoneTakesNamesOfTheDatabaseOnly(t *testing.T) {
	for _, name := range []string{"UTC", "EST", "EST5EDT", "Europe/Paris", "America/Argentina/Buenos_Aires", "Etc/GMT-5", "GMT+0", "W-SU"} {
		if loc, err := LoadZone(name); err != nil || loc.String() != name {
			t.Errorf("%s: %v, %v", name, loc, err)
		}
	}
	for name, text := range map[string]string{
		"":                   "timezone: no zone named (write an IANA name such as Europe/Paris, or UTC)",
		"Local":              `timezone: unknown zone "Local" (the host's own zone is not the same on every node: name it)`,
		"+05:30":             `timezone: unknown zone "+05:30" (an offset is not a zone: write an IANA name such as Asia/Kolkata, or Etc/GMT-5 for five hours east)`,
		"GMT+9":              `timezone: unknown zone "GMT+9" (an offset is not a zone: write an IANA name such as Asia/Kolkata, or Etc/GMT-5 for five hours east)`,
		"IST":                `timezone: unknown zone "IST" (an abbreviation is not a zone, more than one may share it: write an IANA name such as Asia/Kolkata)`,
		"europe/paris":       `timezone: unknown zone "europe/paris" (did you mean Europe/Paris?)`,
		"utc":                `timezone: unknown zone "utc" (did you mean UTC?)`,
		"new york":           `timezone: unknown zone "new york" (did you mean America/New_York?)`,
		"../../etc/passwd":   `timezone: unknown zone "../../etc/passwd" (write an IANA name such as Europe/Paris, or UTC)`,
		"/etc/localtime":     `timezone: unknown zone "/etc/localtime" (write an IANA name such as Europe/Paris, or UTC)`,
		"posix/Europe/Paris": `timezone: unknown zone "posix/Europe/Paris" (write an IANA name such as Europe/Paris, or UTC)`,
		"UTC\nUTC":           `timezone: unknown zone "UTC\nUTC" (write an IANA name such as Europe/Paris, or UTC)`,
		"Europe/":            `timezone: unknown zone "Europe/" (write an IANA name such as Europe/Paris, or UTC)`,
	} {
		if _, err := LoadZone(name); err == nil || err.Error() != text {
			t.Errorf("%q:\n got %v\nwant %s", name, err, text)
		}
	}
}

func TestZoneNamesAreThoseOfTheDatabase(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("this test needs the go command: %v", err)
	}
	archive, err := zip.OpenReader(strings.TrimSpace(string(root)) + "/lib/time/zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var want []string
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") {
			want = append(want, file.Name)
		}
	}
	slices.Sort(want)
	if got := strings.Fields(zoneNames); !slices.Equal(got, want) {
		t.Errorf("zoneNames has %d names, the database %d: write the list anew", len(got), len(want))
	}
}

// stretchAt looks at a stretch's neighbours only; here is why it may. And the
// spans found are those that a walk finds which asks for offsets alone.
func TestZoneChangesLieFarApart(t *testing.T) {
	end := time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for name := range strings.FieldsSeq(zoneNames) {
		loc, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		zone := zoneClock{loc}
		for u := int64(minSecond); u < end; {
			from, to, offset := zone.spanAt(u)
			switch {
			case from != u:
				t.Errorf("%s: the span at %d begins at %d", name, u, from)
			case to < endSecond && to-from < 72*3600 && from != minSecond:
				t.Errorf("%s: two changes within %d s at %d", name, to-from, from)
			case to < endSecond && (zone.offsetAt(to-1) != offset || zone.offsetAt(to) == offset):
				t.Errorf("%s: no change at %d", name, to)
			}
			for _, inside := range []int64{from, (from + to) / 2, to - 1} {
				if f, e, o := zone.spanAt(inside); f != from || e != to || o != offset {
					t.Fatalf("%s: span at %d is [%d, %d) %d, want [%d, %d) %d", name, inside, f, e, o, from, to, offset)
				}
			}
			if step := (to - from) / 50; from != minSecond {
				for at := from; at < to && at < end; at += max(step, 1) {
					if zone.offsetAt(at) != offset {
						t.Fatalf("%s: offset changes within [%d, %d)", name, from, to)
					}
				}
			}
			u = to
		}
	}
}
