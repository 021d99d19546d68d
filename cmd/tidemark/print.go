package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// printJSON writes a listing or an object.
func (c *cli) printJSON(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// safe is text that others wrote as it may stand in a line on a terminal: what
// controls it is written out, and so is what turns the direction of the text.
func safe(text string) string { return escape(text, "") }

// safeBlock is safe for text of several lines.
func safeBlock(text string) string { return escape(strings.ReplaceAll(text, "\r\n", "\n"), "\n\t") }

func escape(text, allowed string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case strings.ContainsRune(allowed, r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// colour is the code of one. All codes are of one length, so that columns in
// which some cells have none stay in line.
type colour string

const (
	plain  colour = "39"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
)

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
}

// table is what people read in columns, kubectl's way.
type table struct {
	c     *cli
	rows  [][]cell
	tints []bool // columns in which a cell has a colour
}

func (c *cli) table(header ...string) *table {
	t := &table{c: c, tints: make([]bool, len(header))}
	cells := make([]any, len(header))
	for i, h := range header {
		cells[i] = h
	}
	t.row(cells...)
	return t
}

// row adds a row of strings, numbers and cells.
func (t *table) row(values ...any) {
	row := make([]cell, len(values))
	for i, v := range values {
		one, ok := v.(cell)
		if !ok {
			one = cell{text: fmt.Sprint(v)}
		}
		one.text = safe(one.text)
		if one.text == "" {
			one.text = "-"
		}
		if one.colour == "" {
			one.colour = plain
		}
		t.tints[i] = t.tints[i] || one.colour != plain
		row[i] = one
	}
	t.rows = append(t.rows, row)
}

// print writes the table.
func (t *table) print() {
	w := tabwriter.NewWriter(t.c.out, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		for i, one := range row {
			text := one.text
			if t.c.out.colours && t.tints[i] {
				text = "\x1b[" + string(one.colour) + "m" + text + "\x1b[0m"
			}
			if i < len(row)-1 {
				text += "\t"
			}
			fmt.Fprint(w, text)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}

// tint colours text outside of tables.
func (c *cli) tint(text string, with colour) string {
	if !c.out.colours || with == plain || with == "" {
		return text
	}
	return "\x1b[" + string(with) + "m" + text + "\x1b[0m"
}
