package schedule

import "time"

// correction is how far local time jumps at most for cron to take it for daylight saving time: three hours ahead are too much, three
// hours back are not (cron.c compares minutes).
const correction = 3 * 60 * 60

// matcher finds civil seconds.
type matcher interface {
	// next returns the first civil second in [from, limit) that matches.
	next(from, limit int64) (int64, bool)
}

// nextInstant returns the first instant after one whose civil second in loc matches, or the zero time. From until on, a Unix time,
// there is none.
//
// It goes from one change of loc's offset to the next: between two of them civil time is the instant plus the offset.
func nextInstant(m matcher, loc *time.Location, fixed bool, after time.Time, until int64) time.Time {
	if after.Year() > lastSearched {
		return time.Time{}
	}
	at := after.Unix() + 1
	for limit := min(at+searched, until); at < limit; {
		s := stretchOf(at, loc)
		from := at + s.offset
		if fixed && at == s.start && s.skips() {
			if _, ok := m.next(s.start+s.before, s.start+s.offset); ok {
				return time.Unix(s.start, 0).In(loc)
			}
		}
		if fixed && s.repeats() {
			from = max(from, s.start+s.before)
		}
		if found, ok := m.next(from, min(s.end, limit)+s.offset); ok {
			return time.Unix(found-s.offset, 0).In(loc)
		}
		at = s.end
	}
	return time.Time{}
}

// stretch is a time for which the offset stays the same. All in seconds.
type stretch struct {
	start, end int64 // from start to before end
	offset     int64 // civil time is the instant plus offset
	before     int64 // the offset before start
}

// stretchOf returns the stretch around an instant. It may end early, where the offset does not change.
func stretchOf(at int64, loc *time.Location) stretch {
	const never, hour = 1 << 60, 60 * 60
	t := time.Unix(at, 0).In(loc)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	s := stretch{start: -never, end: never, offset: int64(offset), before: int64(offset)}
	if !start.IsZero() && !start.After(t) {
		_, before := start.Add(-1).Zone()
		s.start, s.before = start.Unix(), int64(before)
	}
	switch {
	case end.IsZero():
	case end.After(t):
		s.end = end.Unix()
	default:
		// On 31 December of a leap year for which the zone has a rule only (beyond 2037), ZoneBounds ends a day early, which is in the
		// past by then (go.dev/issue/81583).
		s.end = at - at%hour + hour
	}
	return s
}

// skips reports whether civil time was skipped at the start, as at the beginning of daylight saving time.
func (s stretch) skips() bool { return s.offset > s.before && s.offset-s.before < correction }

// repeats reports whether civil time comes twice from the start on, as at the end of daylight saving time.
func (s stretch) repeats() bool { return s.offset < s.before && s.before-s.offset <= correction }
