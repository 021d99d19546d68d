package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// The parameters of a statement.
const (
	ParamFrom        = "from" // window: included
	ParamTo          = "to"   // window: excluded
	ParamKey         = "key"
	ParamJob         = "job"
	ParamTarget      = "target"
	ParamScheduledAt = "scheduled_at"
	ParamAttempt     = "attempt"
)

// Params lists all parameters.
func Params() []string {
	return []string{ParamFrom, ParamTo, ParamKey, ParamJob, ParamTarget, ParamScheduledAt, ParamAttempt}
}

// Statement is SQL with named parameters (@from), checked and taken apart into
// its commands, which are run in order and in one transaction.
type Statement struct {
	Text     string
	Commands []Command
}

// Command is one command of a statement.
type Command struct {
	literals []string // what stands around the parameters: one more than those
	params   []string
}

// Text is the command as written.
func (c Command) Text() string { return c.Rewrite(func(name string) string { return "@" + name }) }

// Rewrite is the command with each parameter as place writes it.
func (c Command) Rewrite(place func(name string) string) string {
	var b strings.Builder
	for i, literal := range c.literals {
		b.WriteString(literal)
		if i < len(c.params) {
			b.WriteString(place(c.params[i]))
		}
	}
	return b.String()
}

// UsesWindow reports whether the statement depends on the run's window.
func (s Statement) UsesWindow() bool {
	for _, c := range s.Commands {
		if slices.Contains(c.params, ParamFrom) || slices.Contains(c.params, ParamTo) {
			return true
		}
	}
	return false
}

// StatementError is a fault of a statement, found without a database.
type StatementError struct {
	Line int // from 1
	Msg  string
	Hint string
}

// Error names the line where the statement has several.
func (e *StatementError) Error() string {
	if e.Line > 1 {
		return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
	}
	return e.Msg
}

// ParseStatement checks a statement for what no database needs to be asked
// about: that there is one, that its quotes end, that its parameters exist, and
// that it leaves the transaction alone, which decides with the run's key whether
// the work is done. It reads PostgreSQL's and SQLite's lexical forms alike. All
// errors are *StatementError, the first one is returned.
func ParseStatement(text string) (Statement, error) {
	s := scanner{text: text}
	for s.pos < len(text) {
		if err := s.token(); err != nil {
			return Statement{}, err
		}
	}
	if s.body > 0 {
		return Statement{}, s.fail(s.first, "a BEGIN has no END", "")
	}
	if err := s.endCommand(); err != nil {
		return Statement{}, err
	}
	if len(s.commands) == 0 {
		return Statement{}, &StatementError{Msg: "holds no command"}
	}
	return Statement{Text: text, Commands: s.commands}, nil
}

// scanner reads a statement token by token.
type scanner struct {
	text     string
	pos      int
	commands []Command

	// Of the command being read.
	command Command
	begun   bool
	start   int      // of the literal being read
	words   []string // its first two words, in upper case
	first   int      // position of the first
	client  bool     // a COPY by way of the client
	parens  int
	body    int // open BEGIN … END of a function or trigger
}

func (s *scanner) fail(at int, msg, hint string) error {
	return &StatementError{Line: 1 + strings.Count(s.text[:at], "\n"), Msg: msg, Hint: hint}
}

// token passes over one token.
func (s *scanner) token() error {
	rest := s.text[s.pos:]
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "--"):
		s.pos += lineLength(rest)
		return nil
	case strings.HasPrefix(rest, "/*"):
		return s.comment()
	case strings.IndexByte(" \t\r\n\f\v", c) >= 0:
		s.pos++
		return nil
	case c == ';' && s.parens <= 0 && s.body == 0:
		return s.endCommand()
	}
	s.begun = true
	switch c := rest[0]; {
	case c == '\'' || c == '"' || c == '`':
		return s.quoted(c, false)
	case (c == 'e' || c == 'E') && len(rest) > 1 && rest[1] == '\'':
		s.pos++
		return s.quoted('\'', true)
	case c == '$':
		return s.dollar()
	case isWordStart(c):
		s.word()
		return nil
	case c >= '0' && c <= '9':
		s.pos += wordLength(rest)
		return nil
	case c == '@':
		return s.parameter()
	case c == '(':
		s.parens++
	case c == ')':
		s.parens--
	}
	s.pos++
	return nil
}

// endCommand ends the command at the scanner's position: a semicolon, or the
// statement's end.
func (s *scanner) endCommand() error {
	if s.begun {
		if err := s.checkTransaction(); err != nil {
			return err
		}
		if s.client {
			return s.fail(s.first, "COPY has nobody to copy from or to", "name a file of the server's, or use INSERT")
		}
		s.command.literals = append(s.command.literals, s.text[s.start:s.pos])
		s.commands = append(s.commands, s.command)
	}
	s.pos++
	s.command, s.begun, s.start, s.words, s.parens, s.body, s.client = Command{}, false, s.pos, nil, 0, 0, false
	return nil
}

// checkTransaction refuses to end or divide the transaction: the run's key and
// the work are committed together, or not at all (checkpoint.md, rule 1).
func (s *scanner) checkTransaction() error {
	first, second := "", ""
	if len(s.words) > 0 {
		first = s.words[0]
	}
	if len(s.words) > 1 {
		second = s.words[1]
	}
	switch first {
	case "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE":
	case "PREPARE":
		if second != "TRANSACTION" {
			return nil
		}
	default:
		return nil
	}
	return s.fail(s.first, first+" has no place in a statement", "it runs in one transaction as a whole, with the run's key: leave it out")
}

// comment passes over a comment in slashes, which nests (in SQLite it does
// not, and none that nests is one there).
func (s *scanner) comment() error {
	at, depth := s.pos, 0
	for s.pos < len(s.text) {
		switch rest := s.text[s.pos:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.pos += 2
		default:
			s.pos++
		}
		if depth == 0 {
			return nil
		}
	}
	return s.fail(at, "a comment /* does not end", "")
}

// quoted passes over a string or a quoted name.
func (s *scanner) quoted(quote byte, escapes bool) error {
	at := s.pos
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '\\' && escapes:
			s.pos++
		case c == quote && strings.HasPrefix(s.text[s.pos+1:], string(quote)):
			s.pos++
		case c == quote:
			s.pos++
			return nil
		}
	}
	s.pos = len(s.text)
	return s.fail(at, fmt.Sprintf("a quote %c does not end", quote), "")
}

// dollar passes over $tag$ … $tag$, and refuses $1.
func (s *scanner) dollar() error {
	rest := s.text[s.pos:]
	if len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9' {
		return s.fail(s.pos, "parameters have names, not numbers", "write @"+strings.Join(Params(), ", @"))
	}
	tag := 1
	for tag < len(rest) && isWord(rest[tag]) && rest[tag] != '$' {
		tag++
	}
	if tag == len(rest) || rest[tag] != '$' {
		s.pos++
		return nil
	}
	delimiter := rest[:tag+1]
	end := strings.Index(rest[tag+1:], delimiter)
	if end < 0 {
		return s.fail(s.pos, "a quote "+delimiter+" does not end", "")
	}
	s.pos += tag + 1 + end + len(delimiter)
	return nil
}

// word passes over a key word or name, and keeps account of the bodies of
// functions and triggers, whose semicolons end no command.
func (s *scanner) word() {
	at := s.pos
	s.pos += wordLength(s.text[at:])
	word := strings.ToUpper(s.text[at:s.pos])
	if len(s.words) == 0 {
		s.first = at
	}
	if len(s.words) < 2 {
		s.words = append(s.words, word)
	}
	switch {
	case s.words[0] == "COPY" && (word == "STDIN" || word == "STDOUT"):
		s.client = true
	case s.words[0] != "CREATE":
	case word == "BEGIN" || word == "CASE" && s.body > 0:
		s.body++
	case word == "END" && s.body > 0:
		s.body--
	}
}

// parameter passes over @name. PostgreSQL has operators with an at sign (@>,
// <@, @@ and @ itself): they are no parameters.
func (s *scanner) parameter() error {
	at := s.pos
	length := wordLength(s.text[at+1:])
	before := byte(0)
	if at > 0 {
		before = s.text[at-1]
	}
	if length == 0 || !isWordStart(s.text[at+1]) || before == '@' {
		s.pos++
		return nil
	}
	name := s.text[at+1 : at+1+length]
	known := slices.Contains(Params(), name)
	switch {
	case before == '<' && known:
		return s.fail(at, "<@"+name+" may mean two things", "write < @"+name+" for less than, <@ "+name+" for the operator")
	case before == '<':
		s.pos++
		return nil
	case !known:
		return s.fail(at, "unknown parameter @"+name, "known are @"+strings.Join(Params(), ", @")+"; an operator @ takes a space behind it")
	}
	s.command.literals = append(s.command.literals, s.text[s.start:at])
	s.command.params = append(s.command.params, name)
	s.pos = at + 1 + length
	s.start = s.pos
	return nil
}

func lineLength(text string) int {
	if end := strings.IndexByte(text, '\n'); end >= 0 {
		return end
	}
	return len(text)
}

func wordLength(text string) int {
	n := 0
	for n < len(text) && isWord(text[n]) {
		n++
	}
	return n
}

func isWordStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func isWord(c byte) bool { return isWordStart(c) || c >= '0' && c <= '9' || c == '$' }
