package score

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// place is a source of heartbeats of a gateway.
type place struct {
	gateway *gateway
	used    bool // devices of the plan are heard there
	deaf    []interval
	name    string
	// listening is what is known of its clock.
	listening listening
	// dropped are deaf times that are remembered no more: how many, and how long.
	dropped    int
	droppedFor time.Duration
}

// interval is a time in which a source was deaf; to is never while it is.
type interval struct{ from, to int64 }

// deafKept is how many intervals of a source are remembered.
const deafKept = 1024

// deafen notes that a source is or was deaf. Times that overlap or are reported twice are one.
func (p *place) deafen(v *Verdict) {
	at, length := v.Time.UnixNano(), int64(max(v.Deaf, 0))
	i := interval{from: at, to: never}
	switch {
	case v.Kind == SourceHeard:
		i = interval{from: at - length, to: at}
	case length > 0:
		i.to = at + length
		if !v.Seen.IsZero() {
			i.to = max(min(i.to, v.Seen.UnixNano()), at) // what is over is not yet to come
		}
	}
	if n := len(p.deaf); n > 0 && p.deaf[n-1].to == never {
		i.from = min(i.from, p.deaf[n-1].from)
		p.deaf = p.deaf[:n-1]
	}
	first, _ := slices.BinarySearchFunc(p.deaf, i.from, func(d interval, from int64) int {
		if d.to < from {
			return -1
		}
		return 1
	})
	last := first
	for ; last < len(p.deaf) && p.deaf[last].from <= i.to; last++ {
		i.from, i.to = min(i.from, p.deaf[last].from), max(i.to, p.deaf[last].to)
	}
	p.deaf = slices.Replace(p.deaf, first, last, i)
	if len(p.deaf) > deafKept {
		p.dropped++
		p.droppedFor += time.Duration(p.deaf[0].to - p.deaf[0].from)
		p.deaf = slices.Delete(p.deaf, 0, 1)
	}
}

// maxGraces bounds what all deaf times together put a deadline off besides their own length, in
// reconnect graces.
const maxGraces = 3

// extend puts a deadline off that was counted from an instant: by the time for which the source was
// deaf, and each time for as long as devices may have to make new connections, but never more than
// maxGraces times that in all. Which connections a deaf time broke is unknown, so the most that it
// may cost is allowed. A source that became deaf within the slack after the deadline may have
// stopped before it, since it notices that late. Deaf times after the verdict do not count.
func (p *place) extend(due, from, verdict int64, t *terms) int64 {
	if due == never {
		return due
	}
	most := due + maxGraces*t.reconnect
	for _, d := range p.deaf {
		if d.to <= from || d.from >= due+t.slack || d.from >= verdict {
			continue
		}
		if d.to == never {
			return never
		}
		length := d.to - max(d.from, from)
		most += length
		if d.from < due {
			due += length
		}
		due = min(max(due, d.to+t.reconnect), most)
	}
	return due
}

// hearsLocked reports whether no source of a gateway ever reported that it was deaf. One that is lost
// puts off the verdicts at the others, too: the device may have come to it.
func (s *Score) hearsLocked(g *gateway) bool {
	return !slices.ContainsFunc(s.places, func(p *place) bool { return p.gateway == g && len(p.deaf)+p.dropped > 0 })
}

// awake is how long a source listened between two instants.
func (p *place) awake(from, to int64) int64 {
	length := max(to-from, 0)
	for _, d := range p.deaf {
		length -= max(min(d.to, to)-max(d.from, from), 0)
	}
	return length
}

// Answered notes that the gateway answered the fleet at least once between two instants: a source
// that was deaf meanwhile cannot have done so. Instants must not decrease.
func (s *Score) Answered(from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) == answersKept {
		s.answers = slices.Delete(s.answers, 0, answersKept/2)
	}
	s.answers = append(s.answers, interval{nanos(from), nanos(to)})
}

// answersKept is how many times of answers are remembered: a day of them, if one comes each second.
const answersKept = 1 << 17

// edge is left out at both ends of a deaf time: answers may have been in flight.
const edge = int64(2 * time.Second)

// deafAnsweredLocked counts the deaf times of sources in which the gateway answered. If devices are
// heard at several places, it is unknown which of them answered, so only times in which all are
// deaf count.
func (s *Score) deafAnsweredLocked(until int64) {
	var only *place
	var deaf []interval // all of them
	for _, p := range s.places {
		switch {
		case !p.used:
		case only == nil:
			only, deaf = p, p.deaf
		default:
			deaf = overlap(deaf, p.deaf)
		}
	}
	for _, d := range deaf {
		from, to := d.from+edge, min(d.to, until)-edge
		for _, a := range s.answers {
			if a.from >= from && a.to <= to {
				s.report.add(DeafAnswered, func() report.Example {
					return report.Example{
						Device: "source " + only.name, Done: "the gateway answered heartbeats at " + clock(a.to),
						Said: "deaf from " + clock(d.from) + " to " + clock(min(d.to, until)), At: instant(a.to),
					}
				})
				break
			}
		}
	}
}

// Stopped notes that the gateway was stopped or restarted, so its sources may be deaf between two
// instants. After the first call, deaf times elsewhere are counted.
func (s *Score) Stopped(from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops = append(s.stops, interval{nanos(from), nanos(to)})
}

// deafUnaskedLocked counts the deaf times in which the gateway was not stopped.
func (s *Score) deafUnaskedLocked(until int64) {
	for _, p := range s.places {
		if !p.used || len(s.stops) == 0 {
			continue
		}
		for _, d := range p.deaf {
			d.to = min(d.to, until)
			within := func(stop interval) bool { return d.from >= stop.from && d.to <= stop.to }
			if d.to <= s.began || slices.ContainsFunc(s.stops, within) {
				continue
			}
			s.report.add(DeafUnasked, func() report.Example {
				return report.Example{
					Device: "source " + p.name, Done: "the gateway was not stopped then",
					Said: "deaf from " + clock(d.from) + " to " + clock(d.to), At: instant(d.to),
				}
			})
		}
	}
}

// overlap returns the times that are in both of two lists, each in order.
func overlap(a, b []interval) (both []interval) {
	for len(a) > 0 && len(b) > 0 {
		if i := (interval{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}); i.from < i.to {
			both = append(both, i)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}

// sumDeafLocked adds up the deaf times since the streams were there, of sources at which devices of
// the plan are heard.
func (s *Score) sumDeafLocked(r *Report) {
	for _, p := range s.places {
		if !p.used {
			continue
		}
		r.Deaf.Count += p.dropped
		r.Deaf.Total += report.Millis(p.droppedFor)
		for _, d := range p.deaf {
			if d.to == never {
				d.to = max(s.complete, d.from)
				r.Deaf.Still = append(r.Deaf.Still, p.name)
			}
			length := report.Millis(d.to - max(d.from, s.began))
			if length < 0 {
				continue // it was over when the stream began
			}
			r.Deaf.Count++
			r.Deaf.Total += length
			r.Deaf.Longest = max(r.Deaf.Longest, length)
		}
	}
}
