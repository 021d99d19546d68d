package executor

import (
	"encoding/json"
	"strings"
)

// Text is a value of the config file: as written, and with its `${…}` expanded.
// What a `${…}` stands for is a secret (interfaces 2): only Written is ever
// shown, logged, stored or hashed, and Value goes nowhere but into the work.
type Text struct {
	Written string
	Value   string
}

// Plain is a text without secrets.
func Plain(s string) Text { return Text{Written: s, Value: s} }

// String is the text as written.
func (t Text) String() string { return t.Written }

// GoString is the text as written, so that %#v shows no secret either.
func (t Text) GoString() string { return "executor.Text(" + t.Written + ")" }

// MarshalJSON is the text as written.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.Written) }

// piece is a stretch of a text: literal, or the value of a `${…}`.
type piece struct {
	written string // "${NAME}" where secret
	value   string
	secret  bool
}

// pieces takes the text apart: its written form by the rules of the config
// file (`$${` stands for `${`), its value along the literal parts of that. A
// text whose two forms do not fit together is one secret as a whole.
func (t Text) pieces() []piece {
	list := cut(t.Written)
	rest := t.Value
	for i := range list {
		p := &list[i]
		if !p.secret {
			after, ok := strings.CutPrefix(rest, p.value)
			if !ok {
				return []piece{{written: t.Written, value: t.Value, secret: true}}
			}
			rest = after
			continue
		}
		end := len(rest)
		if i+1 < len(list) && !list[i+1].secret {
			next := list[i+1].value
			if i+2 == len(list) {
				end = strings.LastIndex(rest, next)
			} else {
				end = strings.Index(rest, next)
			}
		}
		if end < 0 {
			return []piece{{written: t.Written, value: t.Value, secret: true}}
		}
		p.value, rest = rest[:end], rest[end:]
	}
	if rest != "" {
		return []piece{{written: t.Written, value: t.Value, secret: true}}
	}
	return list
}

// cut parts literals from `${…}`, whose values are left open.
func cut(written string) []piece {
	var list []piece
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			list = append(list, piece{written: literal.String(), value: literal.String()})
			literal.Reset()
		}
	}
	for written != "" {
		start := strings.Index(written, "${")
		if start < 0 {
			break
		}
		if start > 0 && written[start-1] == '$' {
			literal.WriteString(written[:start-1] + "${")
			written = written[start+2:]
			continue
		}
		length := strings.IndexByte(written[start:], '}') + 1
		if length == 0 {
			break
		}
		literal.WriteString(written[:start])
		flush()
		list = append(list, piece{written: written[start : start+length], secret: true})
		written = written[start+length:]
	}
	literal.WriteString(written)
	flush()
	return list
}

// secretsOf lists the values in the texts that must not be shown.
func secretsOf(texts ...Text) []string {
	var list []string
	for _, t := range texts {
		for _, p := range t.pieces() {
			if p.secret {
				list = append(list, p.value)
			}
		}
	}
	return list
}
