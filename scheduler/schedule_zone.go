package scheduler

import (
	"strings"
	"time"
	_ "time/tzdata" // a bare container knows every zone
	"unicode"
)

// LoadZone returns the zone with the given IANA name, written exactly as in
// the zone database that this program carries: which names are accepted does not
// depend on the host. (Its rules may: a newer zone database on the host is used
// before the one carried.) Everything else (no name, Local, a path,
// an offset, an abbreviation such as IST, wrong letter case) is refused with a
// *ScheduleError for the field timezone.
func LoadZone(name string) (*time.Location, error) {
	refuse := func(msg, hint string) (*time.Location, error) {
		return nil, &ScheduleError{Field: "timezone", Msg: msg, Hint: hint}
	}
	if name == "" {
		return refuse("no zone named", "write an IANA name such as Europe/Paris, or UTC")
	}
	if !knownZone(name) {
		return refuse("unknown zone "+quoted(name), zoneHint(name))
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return refuse("zone "+quoted(name)+" cannot be read", "the host's zone database may be damaged")
	}
	return loc, nil
}

// knownZone reports whether the zone database has exactly this name.
func knownZone(name string) bool {
	if name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
		return false
	}
	space := func(i int) bool { return i < 0 || i >= len(zoneNames) || unicode.IsSpace(rune(zoneNames[i])) }
	for from := 0; ; {
		i := strings.Index(zoneNames[from:], name)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(name)
		if space(start-1) && space(end) {
			return true
		}
		from = end
	}
}

// zoneHint says what to write in place of a name that is no zone.
func zoneHint(name string) string {
	guess := similarZone(name)
	switch rest := strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(name), "UTC"), "GMT"); {
	case strings.EqualFold(name, "local"):
		return "the host's own zone is not the same on every node: name it"
	case rest != "" && strings.Trim(rest, "+-0123456789:") == "":
		return "an offset is not a zone: write an IANA name such as Asia/Kolkata, or Etc/GMT-5 for five hours east"
	case guess != "":
		return "did you mean " + guess + "?"
	case len(name) <= 5 && strings.ToUpper(name) == name:
		return "an abbreviation is not a zone, more than one may share it: write an IANA name such as Asia/Kolkata"
	}
	return "write an IANA name such as Europe/Paris, or UTC"
}

// similarZone finds a zone that differs in letter case or spaces only, or is
// called so without its region.
func similarZone(name string) string {
	wanted := strings.ReplaceAll(strings.ToLower(name), " ", "_")
	guess := ""
	for zone := range strings.FieldsSeq(zoneNames) {
		lower := strings.ToLower(zone)
		if lower == wanted {
			return zone
		}
		if guess == "" && strings.HasSuffix(lower, "/"+wanted) {
			guess = zone
		}
	}
	return guess
}
