package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// referenceCron is a cron expression as text and, drawn beside it, as plain
// predicates: nothing of the package's parser, calendar or walker is used.
type referenceCron struct {
	text    string
	matches [6]func(t time.Time) bool // second minute hour day month weekday
	star    [6]bool
}

func (r referenceCron) match(local time.Time) bool {
	for _, i := range []int{0, 1, 2, 4} {
		if !r.matches[i](local) {
			return false
		}
	}
	day, weekday := r.matches[3](local), r.matches[5](local)
	if r.star[3] || r.star[5] {
		return day && weekday
	}
	return day || weekday
}

// fires walks the clock of the zone step by step over (after, until].
func (r referenceCron) fires(loc *time.Location, spec ScheduleSpec, after, until time.Time, step int64) map[int64]bool {
	around := int64(4 * 3600)
	for h := -30; h < 30; h++ {
		_, one := after.Add(time.Duration(h) * time.Hour).In(loc).Zone()
		if _, other := until.Add(time.Duration(h) * time.Hour).In(loc).Zone(); max(one-other, other-one) > 3*3600 {
			around = 27 * 3600 // longer than any change of a clock
		}
	}
	fixed := !r.star[1] && !r.star[2]
	fires := map[int64]bool{}
	seen := map[int64]int64{} // reading → the instant that fired for it
	from := floorDivide(after.Unix()-around, step) * step
	reading := func(u int64) (time.Time, int64) {
		local := time.Unix(u, 0).In(loc)
		_, offset := local.Zone()
		return local, u + int64(offset)
	}
	_, before := reading(from - step)
	for u := from; u <= until.Unix()+around; u += step {
		local, w := reading(u)
		jump := w - before - step
		if fixed && jump > 0 && jump <= 3*3600 && spec.GapPolicy == "" {
			for g := before + step; g < w; g += step {
				if r.match(time.Unix(g, 0).UTC()) {
					fires[u] = true
				}
			}
		}
		before = w
		if !r.match(local) {
			continue
		}
		first, repeated := seen[w]
		if repeated && fixed {
			switch spec.OverlapPolicy {
			case "", "first":
				continue
			case "last":
				delete(fires, first)
			}
		}
		seen[w] = u
		fires[u] = true
	}
	return fires
}

// anyElement draws one element of a field with numbers from lo to hi, often
// one that matches near the given time.
func anyElement(t *rapid.T, near time.Time, lo, hi int, names string, get func(time.Time) int) (string, func(time.Time) bool) {
	n := rapid.OneOf(rapid.IntRange(lo, hi), rapid.IntRange(max(lo, get(near)-1), min(hi, get(near)+1)))
	name := func(v int) string {
		if names != "" && rapid.Bool().Draw(t, "named") {
			i := (v - lo) % (len(names) / 3)
			return names[3*i : 3*i+3]
		}
		return fmt.Sprint(v)
	}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0, 1:
		v := n.Draw(t, "value")
		return name(v), func(l time.Time) bool { return get(l) == v }
	case 2:
		a := n.Draw(t, "from")
		b := rapid.IntRange(a, hi).Draw(t, "to")
		return fmt.Sprintf("%d-%d", a, b), func(l time.Time) bool { return a <= get(l) && get(l) <= b }
	case 3:
		a := n.Draw(t, "from")
		b := rapid.IntRange(a, hi).Draw(t, "to")
		s := rapid.IntRange(1, hi+5).Draw(t, "step")
		return fmt.Sprintf("%d-%d/%d", a, b, s), func(l time.Time) bool {
			return a <= get(l) && get(l) <= b && (get(l)-a)%s == 0
		}
	default:
		a := n.Draw(t, "from")
		s := rapid.IntRange(1, hi+5).Draw(t, "step")
		return fmt.Sprintf("%d/%d", a, s), func(l time.Time) bool { return a <= get(l) && (get(l)-a)%s == 0 }
	}
}

func anyField(t *rapid.T, near time.Time, lo, hi int, names string, get func(time.Time) int, special func() (string, func(time.Time) bool)) (string, bool, func(time.Time) bool) {
	stars := []string{"", "*", "?", "*/"}
	if hi < 32 {
		stars = []string{"", "*", "*", "?", "*", "*/"} // else most dates never fire near the change
	}
	star := rapid.SampledFrom(stars).Draw(t, "star")
	if star == "*/" {
		s := rapid.IntRange(1, hi+5).Draw(t, "step")
		return fmt.Sprintf("*/%d", s), true, func(l time.Time) bool { return (get(l)-lo)%s == 0 }
	}
	if star != "" {
		return star, true, func(time.Time) bool { return true }
	}
	var texts []string
	var preds []func(time.Time) bool
	for range rapid.IntRange(1, 3).Draw(t, "elements") {
		var text string
		var pred func(time.Time) bool
		if special != nil && rapid.IntRange(0, 2).Draw(t, "special") == 0 {
			text, pred = special()
		} else {
			text, pred = anyElement(t, near, lo, hi, names, get)
		}
		texts, preds = append(texts, text), append(preds, pred)
	}
	return strings.Join(texts, ","), false, func(l time.Time) bool {
		return slices.ContainsFunc(preds, func(p func(time.Time) bool) bool { return p(l) })
	}
}

func monthLength(l time.Time) int {
	return time.Date(l.Year(), l.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// nearestWorkdayTo walks outwards from the day until it meets a working day of
// the same month.
func nearestWorkdayTo(l time.Time, day int) int {
	for _, d := range []int{0, -1, 1, -2, 2} {
		if at := time.Date(l.Year(), l.Month(), day+d, 0, 0, 0, 0, time.UTC); at.Month() == l.Month() &&
			at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
			return day + d
		}
	}
	panic("a month without working days")
}

func anyCron(t *rapid.T, near time.Time, seconds bool) referenceCron {
	r := referenceCron{}
	r.matches[0] = func(l time.Time) bool { return l.Second() == 0 }
	texts := make([]string, 6)
	if seconds {
		texts[0], r.star[0], r.matches[0] = anyField(t, near, 0, 59, "", time.Time.Second, nil)
	}
	texts[1], r.star[1], r.matches[1] = anyField(t, near, 0, 59, "", time.Time.Minute, nil)
	texts[2], r.star[2], r.matches[2] = anyField(t, near, 0, 23, "", time.Time.Hour, nil)
	texts[3], r.star[3], r.matches[3] = anyField(t, near, 1, 31, "", time.Time.Day, func() (string, func(time.Time) bool) {
		switch day := rapid.IntRange(1, 31).Draw(t, "W"); rapid.IntRange(0, 2).Draw(t, "rule") {
		case 0:
			return "L", func(l time.Time) bool { return l.Day() == monthLength(l) }
		case 1:
			return "lw", func(l time.Time) bool { return l.Day() == nearestWorkdayTo(l, monthLength(l)) }
		default:
			return fmt.Sprintf("%dW", day), func(l time.Time) bool {
				return day <= monthLength(l) && l.Day() == nearestWorkdayTo(l, day)
			}
		}
	})
	texts[4], r.star[4], r.matches[4] = anyField(t, near, 1, 12, "JANfebMarAPRmayjunjulaugSepoctnovdec",
		func(l time.Time) int { return int(l.Month()) }, nil)
	texts[5], r.star[5], r.matches[5] = anyWeekdayField(t, near)
	r.text = strings.Join(texts[1:], " ")
	if seconds {
		r.text = strings.Join(texts, " ")
	}
	return r
}

func anyWeekdayField(t *rapid.T, near time.Time) (string, bool, func(time.Time) bool) {
	weekday := func(l time.Time) int { return int(l.Weekday()) }
	return anyField(t, near, 0, 6, "sunMONtueWEDthufriSAT", weekday, func() (string, func(time.Time) bool) {
		day, n := rapid.IntRange(0, 7).Draw(t, "weekday"), rapid.IntRange(1, 5).Draw(t, "nth")
		switch rapid.IntRange(0, 3).Draw(t, "rule") {
		case 0:
			return fmt.Sprintf("%dL", day), func(l time.Time) bool {
				return weekday(l) == day%7 && l.Day()+7 > monthLength(l)
			}
		case 1:
			return fmt.Sprintf("%d#%d", day, n), func(l time.Time) bool {
				return weekday(l) == day%7 && (l.Day()+6)/7 == n
			}
		case 2:
			return fmt.Sprintf("%d-7", day), func(l time.Time) bool {
				return weekday(l) == 0 || weekday(l) >= day && day > 0 || day == 0
			}
		default:
			return fmt.Sprintf("%d-7/%d", day, n), func(l time.Time) bool {
				for d := day; d <= 7; d += n {
					if d%7 == weekday(l) {
						return true
					}
				}
				return false
			}
		}
	})
}
