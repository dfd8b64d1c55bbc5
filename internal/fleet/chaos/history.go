package chaos

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// All instants of this package are counted from the origin of the history.

// BreakKind is why the server heard nothing.
type BreakKind string

const (
	// Start is the time before the first life.
	Start BreakKind = "start"
	// Stopped is a SIGSTOP, ended by SIGCONT.
	Stopped BreakKind = "stop"
	// Killed is a SIGKILL, ended by a new life.
	Killed BreakKind = "kill"
	// Ended is a SIGTERM, ended by a new life.
	Ended BreakKind = "term"
	// Died is an end that nobody asked for, ended by a new life.
	Died BreakKind = "died"
	// Claimed is a break that nobody caused, and that the server reports itself.
	Claimed BreakKind = "claimed"
)

const (
	never = time.Duration(math.MaxInt64 / 4)
	ever  = -never
)

// Break is a time in which the server was deaf. It was for certain from Began
// to Ending, and perhaps from Asked to Over.
type Break struct {
	Kind BreakKind `json:"kind"`
	// Asked is just before the signal, Began when the process was seen to stand
	// still or was gone.
	Asked time.Duration `json:"asked"`
	Began time.Duration `json:"began"`
	// Ending is just before the process was continued or started, Over when it
	// had been, or said that it was ready. Both are never while it lasts; Over
	// is, at the latest, when the next break was asked for.
	Ending time.Duration `json:"ending"`
	Over   time.Duration `json:"over"`
}

// Restart reports whether a new life followed.
func (b *Break) Restart() bool { return b.Kind != Stopped && b.Kind != Claimed }

// Trouble is a time in which the server could save nothing: its disk was full
// or its database gone. To is never while it lasts.
type Trouble struct {
	Kind FaultKind     `json:"kind"`
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// History is all that was done to the server.
type History struct {
	Origin   time.Time // wall clock only
	Breaks   []Break   // in order of time; the first is Start
	Troubles []Trouble // in order of time
}

// at turns Unix time in nanoseconds into an instant of the history.
func (h *History) at(nanos int64) time.Duration { return time.Duration(nanos - h.Origin.UnixNano()) }

// when turns a time into an instant of the history.
func (h *History) when(t time.Time) time.Duration { return h.at(t.UnixNano()) }

// listenedAtMost is the most that the listening clock can have advanced between
// two instants.
func (h *History) listenedAtMost(from, to time.Duration, r *Rules) time.Duration {
	listened := max(to-from, 0)
	for i := range h.Breaks {
		b := &h.Breaks[i]
		deaf := min(to, b.Ending) - max(from, b.Began)
		if b.Kind == Stopped {
			deaf -= r.MaxGap // counts as listening
		}
		if b.Kind != Claimed {
			listened -= max(deaf, 0)
		}
	}
	return max(listened, 0)
}

// life returns the index of the break that the life of an instant began with,
// and false if no process lived at that instant.
func (h *History) life(t time.Duration) (int, bool) {
	found := -1
	for i := range h.Breaks {
		b := &h.Breaks[i]
		if !b.Restart() {
			continue
		}
		if b.Began < t && t < b.Ending {
			return i, false
		}
		if b.Ending <= t {
			found = i
		}
	}
	return found, found >= 0
}

// outage is a time in which no progress toward a verdict is promised.
type outage struct {
	from, to time.Duration
	restart  bool
	forgets  bool // the life that ends could keep nothing at its end
}

// outages returns breaks and troubles in order of time.
func (h *History) outages() []outage {
	var list []outage
	for i := range h.Breaks {
		b := &h.Breaks[i]
		troubled := slices.ContainsFunc(h.Troubles, func(t Trouble) bool { return t.From < b.Asked && t.To >= b.Asked })
		list = append(list, outage{from: b.Asked, to: b.Over, restart: b.Restart(), forgets: b.Restart() && troubled})
	}
	for _, t := range h.Troubles {
		list = append(list, outage{from: t.From, to: t.To})
	}
	slices.SortStableFunc(list, func(a, b outage) int { return cmp.Compare(a.from, b.from) })
	return list
}

// deadline is the instant by which a device that was not heard after from must
// be judged, if it has to be silent for need: in each life the silence grows by
// its length, less what the last checkpoint does not know; once it is enough,
// the verdict is due as soon as the allowance is over, and Epsilon later at the
// latest. A life that ends before does not count. It is never if it cannot be
// told.
func (h *History) deadline(from, need time.Duration, r *Rules) time.Duration {
	return deadline(h.outages(), from, need, r)
}

func deadline(outages []outage, from, need time.Duration, r *Rules) time.Duration {
	silence, listening, hold := time.Duration(0), from, from
	for _, p := range outages {
		if p.to <= from {
			continue
		}
		if p.from > listening {
			due := max(listening+max(need-silence, 0), hold) + r.Epsilon
			if due <= p.from {
				return due
			}
			silence += p.from - listening
		}
		if p.restart {
			silence = max(silence-r.Checkpoint, 0)
		}
		if p.forgets { // heartbeats of it may be lost, so all silence up to then may be forgiven
			silence = 0
		}
		listening = max(listening, p.to)
		hold = max(hold, p.to+r.allowance())
	}
	if listening >= never {
		return never
	}
	return max(listening+max(need-silence, 0), hold) + r.Epsilon
}

// quiet reports whether nothing was done to the server between two instants.
func quiet(outages []outage, from, to time.Duration) bool {
	return !slices.ContainsFunc(outages, func(p outage) bool { return p.from < to && p.to > from })
}
