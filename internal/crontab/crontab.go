// Package crontab reads crontab files, those of a user and those of the system, for schedules that do what cron does.
package crontab

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/holter-iot/holter/schedule"
)

// MaxSize is the size of the largest file that is read, in bytes.
const MaxSize = 1 << 20

// Options say how a file is read.
type Options struct {
	// User is for files with a column of users, such as /etc/crontab: only the lines of this user are read. Empty: there is no such
	// column.
	User string
	// Zone is the time zone of lines before which the file names none.
	Zone string
	// Prefix is what all names begin with.
	Prefix string
}

// File is what a crontab holds.
type File struct {
	Entries []Entry
	Errors  []error // an [Error] for each line that cannot be used, in their order
	Others  int     // lines of other users
	Mails   bool    // MAILTO asks for mails of the output
}

// Entry is a line that runs a command.
type Entry struct {
	Line    int    // its number
	Name    string // made of the command; no two entries of a file have the same
	When    string // as [schedule.Parse] has it
	Zone    string // the time zone of When
	Next    time.Time
	Command string
	Shell   string        // the program that interprets Command
	Env     []string      // NAME=value
	Dir     string        // where it runs; empty if the file does not say
	Delay   time.Duration // it may start late by a random time below this
}

// Error is what is wrong with a line.
type Error struct {
	Line, Column int // from 1 on; the column in bytes
	Err          error
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %v", e.Line, e.Column, e.Err) }

// Unwrap returns what is wrong, without the place.
func (e *Error) Unwrap() error { return e.Err }

// Read reads a crontab at an instant. Errors: those of r, and a file beyond [MaxSize]. What is wrong in the file is in its Errors.
func Read(r io.Reader, o Options, now time.Time) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("it has more than %d bytes: that is no crontab", MaxSize)
	}
	p := &parser{options: o, now: now, zone: o.Zone, shell: defaultShell}
	for i, text := range strings.Split(string(data), "\n") {
		l := &line{text: strings.TrimRight(text, "\r"), number: i + 1}
		if err := p.read(l); err != nil {
			p.file.Errors = append(p.file.Errors, err)
		}
	}
	return &p.file, nil
}

const defaultShell = "/bin/sh"

// parser is what the lines so far say of the next ones.
type parser struct {
	options Options
	now     time.Time
	file    File

	zone, shell, dir string
	env              []string
	delay            time.Duration
}

// line is a line that is read from left to right.
type line struct {
	text   string
	number int
	at     int // what is before has been read
}

const blanks = " \t"

func (l *line) skipBlanks() {
	l.at = len(l.text) - len(strings.TrimLeft(l.text[l.at:], blanks))
}

// word returns the next word, and where it begins; an empty one at the end.
func (l *line) word() (string, int) {
	l.skipBlanks()
	begin := l.at
	if n := strings.IndexAny(l.text[begin:], blanks); n >= 0 {
		l.at += n
	} else {
		l.at = len(l.text)
	}
	return l.text[begin:l.at], begin
}

// fail returns an error at an offset.
func (l *line) fail(at int, format string, args ...any) error {
	return &Error{Line: l.number, Column: at + 1, Err: fmt.Errorf(format, args...)}
}

// read reads a line.
func (p *parser) read(l *line) error {
	l.skipBlanks()
	if l.at == len(l.text) || l.text[l.at] == '#' {
		return nil
	}
	if name, value, at, ok := l.setting(); ok {
		return p.set(l, name, value, at)
	}
	return p.entry(l)
}

// setting reads a line that is NAME=value, and where the value begins.
func (l *line) setting() (name, value string, at int, ok bool) {
	name, value, ok = strings.Cut(l.text[l.at:], "=")
	name = strings.Trim(name, blanks)
	if !ok || name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9')
	}) {
		return "", "", 0, false
	}
	at = len(l.text) - len(strings.TrimLeft(value, blanks))
	value = strings.Trim(value, blanks)
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		value = value[1 : n-1]
	}
	return name, value, at, true
}

// set handles a setting, which is for the lines below it.
func (p *parser) set(l *line, name, value string, at int) error {
	switch name {
	case "CRON_TZ":
		if _, err := time.LoadLocation(value); err != nil || value == "" {
			return l.fail(at, "time zone %.40q is not known here: want a name of the IANA time zone database such as Europe/Berlin", value)
		}
		p.zone = value
		return nil
	case "MAILTO":
		p.file.Mails = p.file.Mails || value != ""
		return nil
	case "RANDOM_DELAY":
		minutes, err := strconv.Atoi(value)
		if err != nil || minutes < 0 || minutes > 24*60 {
			return l.fail(at, "RANDOM_DELAY is %.40q: want 0 to %d minutes", value, 24*60)
		}
		p.delay = time.Duration(minutes) * time.Minute
		return nil
	case "SHELL":
		p.shell = value
		if value == "" {
			p.shell = defaultShell
		}
	case "HOME":
		p.dir = value
	}
	p.env = slices.DeleteFunc(slices.Clone(p.env), func(set string) bool { return strings.HasPrefix(set, name+"=") })
	p.env = append(p.env, name+"="+value)
	return nil
}

var (
	errReboot = errors.New("@reboot has no time: a schedule runs nothing when a machine starts; that is for the service manager of its system")
	errNoLine = errors.New("there is no command after the times")
)

// entry reads a line that runs a command.
func (p *parser) entry(l *line) error {
	first, begin := l.word()
	if strings.EqualFold(first, "@reboot") {
		return l.fail(begin, "%w", errReboot)
	}
	words, at := []string{first}, []int{begin}
	for len(words) < fieldsOf(first) {
		word, begin := l.word()
		words, at = append(words, word), append(at, begin)
	}
	for i, word := range words { // to a schedule any white space ends a field
		if n := strings.IndexFunc(word, unicode.IsSpace); n >= 0 {
			return l.fail(at[i]+n, "%.1q stands among the times: want a blank or a tab between two of them", word[n:])
		}
	}
	e := Entry{
		Line: l.number, When: strings.TrimRight(strings.Join(words, " "), " "), Zone: p.zone, Shell: p.shell, Env: p.env, Dir: p.dir, Delay: p.delay,
	}
	if p.options.User != "" {
		if user, _ := l.word(); user != "" && user != p.options.User {
			p.file.Others++
			return nil
		}
	}
	l.skipBlanks()
	var err error
	if e.Command, err = l.command(); err != nil {
		return err
	}
	e.Name = p.nameOf(e.Command)
	if e.Next, err = p.next(&e); err != nil {
		if of, ok := errors.AsType[*schedule.FieldError](err); ok {
			begin = at[of.Field-1]
		}
		return l.fail(begin, "%s", strings.TrimPrefix(err.Error(), "schedule: "))
	}
	if e.Command == "" {
		return l.fail(len(l.text), "%w", errNoLine)
	}
	p.file.Entries = append(p.file.Entries, e)
	return nil
}

// fieldsOf returns the number of words that say when, by the first of them.
func fieldsOf(first string) int {
	switch {
	case first == "@every":
		return 2
	case strings.HasPrefix(first, "@"):
		return 1
	default:
		return 5
	}
}

// command reads the rest of the line. To cron, % ends the command, and what follows is its input.
func (l *line) command() (string, error) {
	rest := strings.TrimRight(l.text[l.at:], blanks)
	for i := range len(rest) {
		if rest[i] == '%' && (i == 0 || rest[i-1] != '\\') {
			return "", l.fail(l.at+i, "%% begins the input of the command, and schedules give none: write \\%% for the character, or printf '…' | before the command")
		}
	}
	return strings.ReplaceAll(rest, `\%`, "%"), nil
}

// next returns when an entry is run next.
func (p *parser) next(e *Entry) (time.Time, error) {
	loc, err := time.LoadLocation(e.Zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("time zone %.40q is not known here", e.Zone)
	}
	s, err := schedule.ParseNamed(e.Name, e.When, loc)
	if err != nil {
		return time.Time{}, err
	}
	return schedule.Starting(s, p.now).Next(p.now), nil
}

// maxName leaves room for a number after a name.
const maxName = 56

// nameOf makes a name of a command: that of its program, and a number if an entry above has it.
func (p *parser) nameOf(command string) string {
	name := p.options.Prefix + strings.Trim(strings.Map(func(c rune) rune {
		if c == '.' || c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			return c
		}
		return '-'
	}, path.Base(programOf(command))), "-.")
	if name == p.options.Prefix {
		name += "command"
	}
	name = name[:min(len(name), maxName)]
	taken := func(name string) bool {
		return slices.ContainsFunc(p.file.Entries, func(e Entry) bool { return e.Name == name })
	}
	for n, base := 2, name; taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// programOf returns the first word of a command that is a program: not cd, and no variable that is set for it.
func programOf(command string) string {
	words := strings.Fields(command)
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "cd" && i+2 < len(words):
			i += 2 // the folder, and && or ;
			if strings.HasSuffix(words[i-1], ";") {
				i--
			}
		case !strings.Contains(words[i], "="):
			return words[i]
		}
	}
	return ""
}
