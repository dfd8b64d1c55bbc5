package judgement

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
	// MaxWindows and maxQuietText bound what a Policy.Quiet may have.
	MaxWindows   = 16
	maxQuietText = 2048
	// leastCounting is how much of each week the windows of a policy must leave, so that no silence is
	// judged after weeks only.
	leastCounting = time.Hour
)

// quiet are windows in which silence does not count. The functions of this file are pure, but for the
// database of time zones.
type quiet []quietWindow

// quietWindow is a span of the day by the clocks of a time zone: an instant is in the window if the clocks
// show a time that is.
type quietWindow struct {
	days     uint8         // on which it begins: a bit for each [time.Weekday]
	from, to time.Duration // since midnight; to is not after from if it ends on the next day
	zone     *time.Location
}

// ParseQuiet returns windows of the day as [Policy.Quiet] has them. Each is written as
// "Mon-Fri 22:00-06:00 Europe/Berlin": the days on which it begins, a list of days and of ranges of them
// (default: every day), from when to when (24:00 is the end of the day), and a time zone (default: UTC).
// A window that ends before it begins ends on the next day. Errors: what is wrong with which window,
// windows that leave less than an hour of a week, and more than 16 of them.
func ParseQuiet(windows []string) (string, error) {
	q, err := parseQuiet(strings.Join(windows, ";"))
	return q.String(), err
}

// QuietWindows returns the windows of a [Policy.Quiet] one by one.
func QuietWindows(text string) []string {
	var windows []string
	for one := range strings.SplitSeq(text, ";") {
		if one = strings.TrimSpace(one); one != "" {
			windows = append(windows, one)
		}
	}
	return windows
}

// parseQuiet reads what [Policy.Quiet] holds.
func parseQuiet(text string) (quiet, error) {
	if len(text) > maxQuietText {
		return nil, fmt.Errorf("it has %d bytes, want up to %d", len(text), maxQuietText)
	}
	var q quiet
	for _, one := range QuietWindows(text) {
		w, err := parseWindow(one)
		if err != nil {
			return nil, fmt.Errorf("window %q: %w; write it as 22:00-06:00, Mon-Fri 22:00-06:00 or 22:00-06:00 Europe/Berlin", one, err)
		}
		q = append(q, w)
	}
	switch {
	case len(q) > MaxWindows:
		return nil, fmt.Errorf("it has %d windows, want up to %d", len(q), MaxWindows)
	case !q.leaves(leastCounting):
		return nil, fmt.Errorf("the windows leave less than %v of some week, so a silence would hardly ever count; leave more, or use a timeout of never", leastCounting)
	}
	return q, nil
}

func parseWindow(text string) (w quietWindow, err error) {
	fields := strings.Fields(text)
	w.days, w.zone = 1<<7-1, time.UTC
	if len(fields) > 0 && !strings.Contains(fields[0], ":") {
		if w.days, err = parseDays(fields[0]); err != nil {
			return w, err
		}
		fields = fields[1:]
	}
	if len(fields) == 0 || len(fields) > 2 {
		return w, errors.New("it has no span of the day, or too many words")
	}
	from, to, _ := strings.Cut(fields[0], "-")
	if w.from, err = parseTimeOfDay(from); err != nil {
		return w, err
	}
	if w.to, err = parseTimeOfDay(to); err != nil {
		return w, err
	}
	if w.from == w.to || w.from == day {
		return w, fmt.Errorf("%s is no span of the day; the whole day is 00:00-24:00", fields[0])
	}
	if len(fields) == 2 {
		w.zone, err = parseZone(fields[1])
	}
	return w, err
}

// parseZone returns a time zone by its name. That of the machine is not one: it may change.
func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || zone == time.Local {
		return nil, fmt.Errorf("there is no time zone %q", name)
	}
	return zone, nil
}

func parseTimeOfDay(text string) (time.Duration, error) {
	if text == "24:00" {
		return day, nil
	}
	at, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, fmt.Errorf("%q is not a time of the day from 00:00 to 24:00", text)
	}
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, nil
}

// parseDays reads a list of days and of ranges of them, which may go on into the next week.
func parseDays(text string) (days uint8, err error) {
	for one := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(one, "-")
		first, ok := parseDay(from)
		last, also := first, true
		if isRange {
			last, also = parseDay(to)
		}
		if !ok || !also {
			return 0, fmt.Errorf("%q is not a day from Mon to Sun, or a range of days", one)
		}
		for at := first; ; at = (at + 1) % 7 {
			if days |= 1 << at; at == last {
				break
			}
		}
	}
	return days, nil
}

func parseDay(text string) (time.Weekday, bool) {
	for at := time.Sunday; at <= time.Saturday; at++ {
		if strings.EqualFold(text, at.String()[:3]) {
			return at, true
		}
	}
	return 0, false
}

// String returns the windows as [Policy.Quiet] has them.
func (q quiet) String() string {
	windows := make([]string, 0, len(q))
	for i := range q {
		windows = append(windows, q[i].String())
	}
	return strings.Join(windows, "; ")
}

func (w *quietWindow) String() string {
	span := fmt.Sprintf("%s-%s %s", timeOfDay(w.from), timeOfDay(w.to), w.zone)
	if w.days == 1<<7-1 {
		return span
	}
	return daysText(w.days) + " " + span
}

func timeOfDay(at time.Duration) string {
	return fmt.Sprintf("%02d:%02d", at/time.Hour, at%time.Hour/time.Minute)
}

// daysText returns days as a list from Monday on, three or more in a row as a range.
func daysText(days uint8) string {
	var list []string
	for at := 1; at <= 7; at++ {
		last := at
		for last <= 7 && days&(1<<(last%7)) != 0 {
			last++
		}
		name := func(at int) string { return time.Weekday(at % 7).String()[:3] }
		switch last - at {
		case 0:
		case 1, 2:
			list = append(list, name(at))
		default:
			list = append(list, name(at)+"-"+name(last-1))
			at = last
		}
	}
	return strings.Join(list, ",")
}

// length returns how much of a week the window has.
func (w *quietWindow) length() time.Duration {
	span := w.to - w.from
	if span <= 0 {
		span += day
	}
	return span * time.Duration(bits.OnesCount8(w.days))
}

// leaves reports whether the windows leave so much of each week.
func (q quiet) leaves(least time.Duration) bool {
	total := time.Duration(0)
	for i := range q {
		total += q[i].length()
	}
	if total < week-2*day {
		return true
	}
	at := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	for range 53 { // clocks are changed in some of them
		if _, counts := q.walk(at, week, least); counts < least {
			return false
		}
		at = at.Add(week)
	}
	return true
}

// at reports whether an instant is in the window, and for how long that stays so at least.
func (w *quietWindow) at(now time.Time) (inside bool, stays time.Duration) {
	now = now.In(w.zone)
	hour, minute, second := now.Clock()
	clock := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second + time.Duration(now.Nanosecond())
	today := w.days&(1<<now.Weekday()) != 0
	yesterday := w.days&(1<<((now.Weekday()+6)%7)) != 0
	switch {
	case w.from < w.to:
		inside = today && w.from <= clock && clock < w.to
	default:
		inside = today && w.from <= clock || yesterday && clock < w.to
	}
	stays = day - clock
	for _, change := range []time.Duration{w.from, w.to} {
		if change > clock {
			stays = min(stays, change-clock)
		}
	}
	if _, end := now.ZoneBounds(); !end.IsZero() {
		stays = min(stays, end.Sub(now))
	}
	return inside, stays
}

// at reports whether an instant is in one of the windows, and for how long that stays so at least.
func (q quiet) at(now time.Time) (inside bool, stays time.Duration) {
	stays = week
	for i := range q {
		in, same := q[i].at(now)
		switch {
		case in && inside:
			stays = max(stays, same)
		case in:
			inside, stays = true, same
		case !inside:
			stays = min(stays, same)
		}
	}
	return inside, stays
}

// walk goes on from an instant until so much time has passed that counts, but not further than most. It
// returns how far it came, and how much of that counts. After two weeks it takes whole weeks at a time, which are
// alike as long as no clock is changed, so that a span of a year costs little more than one of some weeks.
func (q quiet) walk(from time.Time, most, want time.Duration) (span, counts time.Duration) {
	span, counts = q.step(from, min(most, 2*week), want)
	for span < most && counts < want {
		at := from.Add(span)
		steady := min(q.steady(at), most-span)
		if steady > 2*week {
			_, each := q.step(at, week, week)
			weeks := int64(min(steady/week, (want-counts-1)/each)) // not to the very end, before which there may be a window
			span, counts = span+time.Duration(weeks*int64(week)), counts+time.Duration(weeks*int64(each))
			steady -= time.Duration(weeks * int64(week))
		}
		far, more := q.step(from.Add(span), steady, want-counts)
		span, counts = span+far, counts+more
	}
	return span, counts
}

// steady returns for how long from an instant on no clock of the windows' zones is changed.
func (q quiet) steady(at time.Time) time.Duration {
	steady := MaxSpan
	for i := range q {
		if _, end := at.In(q[i].zone).ZoneBounds(); !end.IsZero() {
			steady = min(steady, end.Sub(at))
		}
	}
	return steady
}

// step is walk from one change to the next.
func (q quiet) step(from time.Time, most, want time.Duration) (span, counts time.Duration) {
	for span < most && counts < want {
		inside, stays := q.at(from.Add(span))
		stays = min(stays, most-span)
		if !inside {
			stays = min(stays, want-counts)
			counts += stays
		}
		span += stays
	}
	return span, counts
}

// stretch returns the least span from an instant on in which a duration lies outside of the windows; maxSpan
// if that is longer.
func (q quiet) stretch(from time.Time, d time.Duration) time.Duration {
	span, _ := q.walk(from, MaxSpan, d)
	return span
}
