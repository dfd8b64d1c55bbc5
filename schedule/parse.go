package schedule

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// MaxExpression is the greatest length of an expression, in bytes.
const MaxExpression = 1024

// Parse reads a crontab expression; see the package's comment. Without a time zone of its own it is meant in time.Local.
//
// A schedule of @every counts from the beginning of 1970 (UTC), until [Starting] says otherwise. The error names the field, its
// value, and what is allowed, and wraps a [FieldError] then; it is [ErrNever] for an expression such as that of 30 February.
func Parse(text string) (Schedule, error) { return ParseIn(text, time.Local) }

// ParseIn is [Parse] for expressions that are meant in a location unless they name a time zone.
func ParseIn(text string, loc *time.Location) (Schedule, error) { return ParseNamed("", text, loc) }

// ParseNamed is [ParseIn] for the schedule with a name, which H stands for: the same name always makes the same of it. Without a
// name, an expression with H is an error, ErrNoName.
func ParseNamed(name, text string, loc *time.Location) (Schedule, error) {
	s, _, err := parse(name, text, loc, time.LoadLocation)
	return s, err
}

// FieldError is wrapped by the errors of [Parse] that are about one field.
type FieldError struct {
	Field int    // its number, from 1 on; a time zone is not counted
	Name  string // such as hour
	Text  string // what it is
	Err   error
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("schedule: field %d (%s) is %s: %v", e.Field, e.Name, show(e.Text), strings.TrimPrefix(e.Err.Error(), "schedule: "))
}

// Unwrap returns what is wrong with the field.
func (e *FieldError) Unwrap() error { return e.Err }

// parse also reports whether the text names a time zone, which it looks up with zone.
func parse(name, text string, loc *time.Location, zone func(string) (*time.Location, error)) (s Schedule, zoned bool, err error) {
	if len(text) > MaxExpression {
		return nil, false, fmt.Errorf("schedule: the expression has %d bytes: want %d at most", len(text), MaxExpression)
	}
	words := strings.Fields(text)
	if len(words) > 0 {
		if name, ok := zoneName(words[0]); ok {
			if loc, err = loadZone(name, zone); err != nil {
				return nil, true, err
			}
			words, zoned = words[1:], true
		}
	}
	if loc == nil {
		return nil, zoned, errors.New("schedule: the location is nil: want time.UTC or another")
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		s, err = parseDescriptor(words, loc)
	} else {
		s, err = parseFields(name, words, loc)
	}
	return s, zoned, err
}

func zoneName(word string) (string, bool) {
	if name, ok := strings.CutPrefix(word, "CRON_TZ="); ok {
		return name, true
	}
	return strings.CutPrefix(word, "TZ=")
}

func loadZone(name string, zone func(string) (*time.Location, error)) (*time.Location, error) {
	const example = "want a name of the IANA time zone database such as Europe/Berlin"
	if name == "" {
		return nil, fmt.Errorf("schedule: the time zone has no name: %s", example)
	}
	loc, err := zone(name)
	if err != nil {
		return nil, fmt.Errorf("schedule: time zone %s is not known here: %s", show(name), example)
	}
	return loc, nil
}

func parseDescriptor(words []string, loc *time.Location) (Schedule, error) {
	const every = "@every"
	if words[0] == every {
		return parseEvery(words[1:], loc)
	}
	fields := map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}[words[0]]
	if fields == "" {
		return nil, fmt.Errorf("schedule: %s is not known: want @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every and a period",
			show(words[0]))
	}
	if len(words) > 1 {
		return nil, fmt.Errorf("schedule: %s is followed by %s: want nothing", words[0], show(words[1]))
	}
	return parseFields("", strings.Fields(fields), loc)
}

func parseEvery(words []string, loc *time.Location) (Schedule, error) {
	if len(words) != 1 {
		return nil, fmt.Errorf("schedule: @every is followed by %d words: want one period such as 90s or 1h30m", len(words))
	}
	d, err := time.ParseDuration(words[0])
	if err != nil {
		return nil, fmt.Errorf("schedule: the period of @every is %s: want a number and a unit, such as 90s, 1h30m or 250ms", show(words[0]))
	}
	return Period(time.Unix(0, 0).In(loc), d)
}

func parseFields(name string, words []string, loc *time.Location) (Schedule, error) {
	given := len(words)
	first := 0 // the field that the words begin with
	switch given {
	case 5:
		first, words = 1, slices.Concat([]string{"0"}, words, []string{"*"})
	case 6:
		words = slices.Concat(words, []string{"*"})
	case 7:
	default:
		return nil, fmt.Errorf("schedule: the expression has %d fields: want 5 (minute, hour, day of month, month, day of week), 6 (second first) or 7 (year last)",
			given)
	}
	fields := crontabFields()
	all := make([]held, len(fields))
	for i := range fields {
		var err error
		if all[i], err = fields[i].parse(words[i], name); err != nil {
			return nil, &FieldError{Field: i + 1 - first, Name: fields[i].name, Text: words[i], Err: err}
		}
	}
	s := setsOf(all, words)
	switch {
	case s.hasDay():
		return &crontab{sets: s, loc: loc}, nil
	case s.rare == nil:
		return nil, fmt.Errorf("%w: fields %d and %d (%s, %s) are %s and %s, and no such month has such a day", ErrNever,
			4-first, 5-first, fields[3].name, fields[4].name, show(words[3]), show(words[4]))
	default:
		return nil, fmt.Errorf("%w: no day matches fields %d to %d: %s", ErrNever, 4-first, given, strings.Join(words[3:max(6, given)], " "))
	}
}

// setsOf turns seven fields, the second first and the year last, into sets.
func setsOf(all []held, words []string) sets {
	star := func(i int) bool { return strings.HasPrefix(words[i], "*") || strings.HasPrefix(words[i], "?") }
	s := sets{
		second: all[0].values[0], minute: all[1].values[0], hour: uint32(all[2].values[0]), day: uint32(all[3].values[0]),
		month: uint16(all[4].values[0]), weekday: uint8(all[5].values[0]),
		either: !star(3) && !star(5),
		fixed:  !star(0) && !star(1) && !star(2),
	}
	rare := rareSets{days: all[3].days, years: all[6].values}
	rare.days.lastWeekday, rare.days.nthWeekday = all[5].days.lastWeekday, all[5].days.nthWeekday
	if words[6] != "*" {
		rare.final = lastYear
		for !rare.years.has(rare.final - firstYear) {
			rare.final--
		}
	}
	if rare.final != 0 || rare.days != (relativeDays{}) {
		s.rare = &rare
	}
	return s
}

// nameHash returns a number for a name and a field. It is the same on each machine and in each version.
func nameHash(name, field string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name + "\x00" + field)) // never fails
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd // the last step of MurmurHash3, since names often differ in the last byte only
	return x ^ x>>33
}
