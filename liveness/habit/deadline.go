package habit

import "time"

// ownShare is by how much a deadline exceeds the device's own longest gap of late.
const ownShare = 1.25

// Basis is what a deadline was learned from.
type Basis struct {
	Interval time.Duration // the device's usual gap
	Longest  time.Duration // its longest gap of late
	Gaps     int           // how many were learned; about, beyond Sure
	// Peers is what devices like it exceed as often as the budget allows, and PeerGaps of how many gaps
	// that is known. Alike: they are of its class; else they are all devices of its group.
	Peers    time.Duration
	PeerGaps uint64
	Alike    bool
}

// Deadline returns the silence after which the device is to be judged, so that it exceeds that as often
// as budget says: in a month of 30 days, more than 0. It is what the device's peers exceed so seldom,
// scaled to its own interval, and at least a quarter more than its own longest gap of late. It returns
// false while fewer than [Least] gaps were learned.
//
//	deadline = interval × max(quantile(1 − budget × interval / month), 1.25 × longest / interval)
func (h Habit) Deadline(s *Shape, budget float64) (time.Duration, bool) {
	b, ok := h.Explain(s, budget)
	return max(b.Peers, time.Duration(ownShare*float64(b.Longest))), ok
}

// Explain returns what [Habit.Deadline] rests on.
func (h Habit) Explain(s *Shape, budget float64) (Basis, bool) {
	b := Basis{Interval: h.Interval(), Longest: h.Longest(), Gaps: h.Gaps()}
	if h.count < Least {
		return b, false
	}
	class := h.class()
	p := min(budget*float64(b.Interval)/float64(month), mostOften)
	ratio, gaps := s.quantile(class, p)
	b.Peers, b.PeerGaps = time.Duration(ratio*float64(b.Interval)), gaps
	b.Alike = class != all && s.total(class) >= Sure
	return b, true
}

// mostOften bounds the share of gaps that may be false alarms.
const mostOften = 0.5
