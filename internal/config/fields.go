package config

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// field is a struct field that a key of the file fills.
type field struct {
	index []int
	typ   reflect.Type
	tag   reflect.StructTag
}

// fieldsOf returns the fields of a struct by the key in their yaml tag. A field
// without one is no key. The answer for a type never changes, and is asked for
// several times a job: it is remembered. Callers do not change it.
func fieldsOf(t reflect.Type) map[string]field {
	if known, ok := knownFields.Load(t); ok {
		return known.(map[string]field)
	}
	fields := map[string]field{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" || options == "inline" || !f.IsExported() {
			continue
		}
		fields[name] = field{f.Index, f.Type, f.Tag}
	}
	knownFields.Store(t, fields)
	return fields
}

var knownFields sync.Map // reflect.Type → map[string]field

// namesOf returns the keys of a struct, sorted.
func namesOf(t reflect.Type) []string {
	var names []string
	for name := range fieldsOf(t) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// didYouMean asks for the candidates that somebody who wrote word most likely
// meant; it is empty where there are none.
func didYouMean(word string, candidates []string) string {
	guesses := closest(word, candidates)
	if len(guesses) == 0 {
		return ""
	}
	return "did you mean `" + strings.Join(guesses, "` or `") + "`?"
}

// closest returns the candidate with the fewest letters to change, or else
// those few that hold the word.
func closest(word string, candidates []string) []string {
	word = strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	if len(word) > 60 {
		return nil
	}
	best, bestCost := "", math.MaxInt
	for _, c := range candidates {
		bound := len(word)/3 + 1
		if len(word) >= 4 && len(c) >= 4 && word[:4] == c[:4] {
			bound = max(bound, 4)
		}
		if cost := distance(word, strings.ToLower(c)); cost <= bound && cost < bestCost {
			best, bestCost = c, cost
		}
	}
	if best != "" {
		return []string{best}
	}
	var holders []string
	for _, c := range candidates {
		if len(word) >= 4 && (strings.Contains(c, word) || 2*len(c) > len(word) && strings.Contains(word, c)) {
			holders = append(holders, c)
		}
	}
	return holders[:min(len(holders), 3)]
}

// distance is the number of letters to insert, drop, change or swap with their
// neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
