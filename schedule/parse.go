package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// MaxExpression is the greatest length of an expression, in bytes.
const MaxExpression = 1024

// Parse reads a crontab expression; see the package's comment. Without a time zone of its own it is meant in time.Local.
//
// A schedule of @every counts from the beginning of 1970 (UTC), until [Starting] says otherwise. The error names the field, its
// value, and what is allowed; it is [ErrNever] for an expression such as that of 30 February.
func Parse(text string) (Schedule, error) { return ParseIn(text, time.Local) }

// ParseIn is [Parse] for expressions that are meant in a location unless they name a time zone.
func ParseIn(text string, loc *time.Location) (Schedule, error) {
	s, _, err := parse(text, loc, time.LoadLocation)
	return s, err
}

// parse also reports whether the text names a time zone, which it looks up with zone.
func parse(text string, loc *time.Location, zone func(string) (*time.Location, error)) (s Schedule, zoned bool, err error) {
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
		s, err = parseFields(words, loc)
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
	return parseFields(strings.Fields(fields), loc)
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

func parseFields(words []string, loc *time.Location) (Schedule, error) {
	all := crontabFields()
	fields := all
	switch len(words) {
	case len(all):
	case len(all) - 1:
		fields = all[1:]
	default:
		return nil, fmt.Errorf("schedule: the expression has %d fields: want 5 (minute, hour, day of month, month, day of week) or 6 (second first)",
			len(words))
	}
	for i, f := range fields {
		if err := f.check(words[i]); err != nil {
			return nil, fmt.Errorf("schedule: field %d (%s) is %s: %w", i+1, f.name, show(words[i]), err)
		}
	}
	if len(words) < len(all) {
		words = append([]string{"0"}, words...)
	}
	sets, err := fieldSets(words)
	if err != nil {
		return nil, err
	}
	if !sets.hasDay() {
		return nil, fmt.Errorf("%w: fields %d and %d (%s, %s) are %s and %s, and no such month has such a day", ErrNever,
			len(fields)-2, len(fields)-1, all[3].name, all[4].name, show(words[3]), show(words[4]))
	}
	return &crontab{sets: sets, loc: loc}, nil
}

// fieldSets turns six fields, the second first, into sets.
func fieldSets(words []string) (sets, error) {
	p, err := cron.TryNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)
	if err != nil {
		return sets{}, fmt.Errorf("schedule: make the parser: %w", err)
	}
	parsed, err := p.Parse(strings.Join(words, " "))
	if err != nil {
		return sets{}, fmt.Errorf("schedule: parse the fields: %w", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return sets{}, fmt.Errorf("schedule: parse the fields: got a %T", parsed)
	}
	star := func(i int) bool { return strings.HasPrefix(words[i], "*") || strings.HasPrefix(words[i], "?") }
	return sets{
		second: spec.Second &^ flagBits, minute: spec.Minute &^ flagBits, hour: uint32(spec.Hour), day: uint32(spec.Dom),
		month: uint16(spec.Month), weekday: uint8(spec.Dow) & (1<<7 - 1),
		either: !star(3) && !star(5),
		fixed:  !star(0) && !star(1) && !star(2),
	}, nil
}

// flagBits are no values: the parser notes in them that a field was a star.
const flagBits = ^(uint64(1)<<60 - 1)
