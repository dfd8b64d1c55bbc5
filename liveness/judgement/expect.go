package judgement

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/schedule"
)

const (
	// expectGrace is the Timeout of a rule that has an Expect and no Timeout.
	expectGrace = time.Hour
	// maxEarly is by how much a heartbeat may come before an instant and still count for it: clocks differ.
	maxEarly = time.Minute
	// maxApart is how far apart two instants may be, about. Together with any Timeout that somebody waits for
	// they stay below maxSpan.
	maxApart = 185 * day
)

// expectation is a schedule at which a device is expected. It must not be changed.
type expectation struct {
	text     string // as [Policy.Expect] has it
	schedule schedule.Schedule
	apart    time.Duration // two of its instants
}

// ParseExpect returns a schedule as [Policy.Expect] has it: a crontab expression, which package schedule
// describes, and a time zone. The zone may be empty; then it is the one that follows the expression, as in
// "0 3 * * * Europe/Berlin", UTC if none does. Expressions have five fields, or six with the second first, or
// are @hourly, @daily, @weekly or @monthly. Errors: what is wrong with the expression or the zone, two zones,
// a schedule that never comes, or whose instants are more than half a year apart.
func ParseExpect(expression, zone string) (string, error) {
	return new(Calendars).ParseExpect(expression, zone)
}

// ParseExpect is the func ParseExpect, but for what was parsed before.
func (c *Calendars) ParseExpect(expression, zone string) (string, error) {
	expression, inner := cutZone(expression)
	if expression == "" {
		return "", errNoExpression
	}
	if zone != "" && inner != "" {
		return "", fmt.Errorf("the time zone is given twice, as %q and %q; give one", inner, zone)
	}
	text := joinExpect(expression, cmp.Or(zone, inner, "UTC"))
	if _, last := cutZone(text); zone != "" && last != zone {
		return "", fmt.Errorf("there is no time zone %q", zone)
	}
	_, err := c.expectation(text)
	return text, err
}

var errNoExpression = errors.New("it is empty; write it as 0 3 * * * or 0 3 * * * Europe/Berlin")

func joinExpect(expression, zone string) string {
	return strings.Join(append(strings.Fields(expression), strings.TrimSpace(zone)), " ")
}

// maxExpect is how many bytes a Policy.Expect has at most.
const maxExpect = 256

// parseExpect reads what [Policy.Expect] holds.
func parseExpect(text string) (*expectation, error) {
	if len(text) > maxExpect {
		return nil, fmt.Errorf("it has %d bytes, want up to %d", len(text), maxExpect)
	}
	expression, name := cutZone(text)
	name = cmp.Or(name, "UTC")
	zone, err := parseZone(name)
	if err != nil {
		return nil, err
	}
	switch words := strings.Fields(expression); {
	case len(words) == 0:
		return nil, errNoExpression
	case strings.Contains(words[0], "="):
		return nil, fmt.Errorf("%q does not belong there; write the time zone behind the expression, as in 0 3 * * * Europe/Berlin", words[0])
	case words[0] == "@every":
		return nil, errors.New("@every names no times of the day; for a period a timeout alone is enough")
	case len(words) == 7:
		return nil, errors.New("it has a year, the seventh field, after which nothing would be expected; leave it out")
	}
	s, err := schedule.ParseIn(expression, zone)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "schedule: "))
	}
	e := &expectation{text: joinExpect(expression, name), schedule: s}
	return e, e.measure()
}

// cutZone cuts the time zone off that follows an expression; it is empty if none does. A zone begins with a
// letter, and not like a day of the week. A single word is none.
func cutZone(text string) (expression, zone string) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return strings.Join(words, ""), ""
	}
	last := words[len(words)-1]
	_, isDay := parseDay(last[:min(3, len(last))])
	if c := last[0] | 0x20; c < 'a' || c > 'z' || isDay {
		return text, ""
	}
	return strings.Join(words[:len(words)-1], " "), last
}

// measure sets apart, and fails if two instants of the schedule are too far apart. What it answers does not
// depend on the present: what is accepted once can be restored.
func (e *expectation) measure() error {
	at := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	first := e.schedule.Next(at)
	e.apart = e.schedule.Next(first).Sub(first)
	for range 9 * 366 / 7 { // with leap years
		if e.schedule.Next(at).Sub(at) > maxApart {
			return errors.New("more than half a year passes between two of its times; so long a silence says nothing of a device")
		}
		at = at.Add(week)
	}
	return nil
}

// due returns the instant from which the silence of a device counts that was heard last at another. That is
// the next of the schedule, but for a heartbeat that comes a little early, which counts for the instant that
// it is nearest to: the next silence counts from the one after.
func (e *expectation) due(heard time.Time, grace time.Duration) time.Time {
	next := e.schedule.Next(heard)
	early := next.Sub(heard)
	if early < min(maxEarly, grace/2) && e.schedule.Next(heard.Add(-early)).After(heard) {
		return e.schedule.Next(next)
	}
	return next
}

// Expecting returns a rule with what follows from its Expect: a Timeout, and the Interval that is meant.
func (c *Calendars) Expecting(p Policy) Policy {
	e, err := c.expectation(p.Expect)
	if err != nil || e == nil { // no rule has a schedule that is wrong
		return p
	}
	return p.Or(Policy{Timeout: expectGrace, Interval: e.apart})
}
