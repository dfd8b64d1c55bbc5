package score

import (
	"slices"
	"time"
)

// place is a source of heartbeats of a gateway.
type place struct {
	url  uint16 // the index of the gateway
	deaf []interval
	name string
}

// interval is a time in which a source was deaf; to is never while it is.
type interval struct{ from, to int64 }

// deafKept is how many intervals of a source are remembered.
const deafKept = 1024

// deafen notes that a source is deaf, or was.
func (p *place) deafen(v *Verdict) {
	at := v.Time.UnixNano()
	i := interval{from: at, to: never}
	switch {
	case v.Kind == SourceHeard:
		i = interval{from: at - int64(v.Deaf), to: at}
	case v.Deaf > 0:
		i.to = at + int64(v.Deaf)
	}
	// What is told again, or ended, replaces what was known.
	p.deaf = slices.DeleteFunc(p.deaf, func(o interval) bool {
		return abs(o.from-i.from) < int64(10*time.Millisecond) || o.to == never
	})
	place, _ := slices.BinarySearchFunc(p.deaf, i, func(a, b interval) int { return int(min(max(a.from-b.from, -1), 1)) })
	p.deaf = slices.Insert(p.deaf, place, i)
	if len(p.deaf) > deafKept {
		p.deaf = slices.Delete(p.deaf, 0, 1)
	}
}

// maxGraces bounds what all deaf times together put a deadline off besides their own length, in reconnect graces.
const maxGraces = 3

// extend puts a deadline off that was counted from an instant: by the time for which the source was deaf, and each time for as long as
// devices may have to make new connections, but never more than maxGraces times that in all. What a deaf time broke is not told, so the most
// that it may cost is allowed. A source that became deaf within the slack after the deadline may have stopped before it: it notices that late.
// What came after the verdict, at an instant or never, does not count.
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

func abs(d int64) int64 { return max(d, -d) }
