package habit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ownShare is by how much a deadline exceeds the device's own longest gap of late.
const ownShare = 1.15

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
	// Known: so many gaps were counted that Peers is what they show, and not a guess above all of them.
	Known bool
}

// Deadline returns the silence after which the device is to be judged, so that it exceeds that as often
// as budget says: in a month of 30 days, more than 0. It is what the device's peers exceed so seldom,
// scaled to its own gaps, and at least 15 % more than its own longest gap of late. It returns false
// while fewer than [Least] gaps were learned.
//
// There are two ways to scale, and the smaller result counts. Q(p) is the multiple of their intervals
// that a share p of the peers' gaps exceeds. A device's longest of n gaps is about what a share 1/n of
// its gaps exceeds, so its peers say how much longer the gap is that a share p exceeds:
//
//	p = budget × interval / month
//	deadline = max(min(interval × Q(p), longest × Q(p) / Q(1/n)), 1.15 × longest)
func (h Habit) Deadline(s *Shape, budget float64) (time.Duration, bool) {
	b, ok := h.Explain(s, budget)
	return b.Deadline(), ok
}

// Deadline returns the deadline that follows from the basis.
func (b *Basis) Deadline() time.Duration {
	return max(b.Peers, time.Duration(ownShare*float64(b.Longest)))
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
	known, _ := s.quantile(class, min(1/h.remembered(), mostOften))
	scaled := ratio * float64(b.Interval)
	if known > 0 {
		scaled = min(scaled, max(ratio/known, 1)*float64(b.Longest))
	}
	b.Peers, b.PeerGaps = time.Duration(scaled), gaps
	b.Alike = class != all && s.total(class) >= Sure
	b.Known = p*float64(gaps) >= 1
	return b, true
}

// Sentence says for people what the deadline rests on.
func (b *Basis) Sentence(budget float64) string {
	count := strconv.Itoa(b.Gaps)
	if b.Gaps > Sure {
		count = "about " + count
	}
	peers := "devices of its group"
	if b.Alike {
		peers = "devices like it"
	}
	text := fmt.Sprintf("beats every %s; the longest of %s gaps was %s", Show(b.Interval), count, Show(b.Longest))
	switch own := time.Duration(ownShare * float64(b.Longest)); {
	case own >= b.Peers:
		return text + fmt.Sprintf(", and 15 %% more is %s", Show(own))
	case b.Known:
		return text + fmt.Sprintf("; %s exceed %s %s", peers, Show(b.Peers), often(budget))
	default:
		return text + fmt.Sprintf("; %s have too few intervals (%d) to know what is exceeded %s; all were shorter than %s", peers, b.PeerGaps, often(budget), Show(b.Peers))
	}
}

// often says how often a budget is.
func often(budget float64) string {
	if budget == 1 {
		return "once a month"
	}
	return strconv.FormatFloat(budget, 'g', 4, 64) + " times a month"
}

// Show returns a duration as people read it: to three digits or so, without parts that are zero.
func Show(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	default:
		d = d.Round(10 * time.Millisecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// mostOften bounds the share of gaps that may be false alarms.
const mostOften = 0.5

// remembered returns about of how many gaps the longest of late is the longest: those of two weeks.
func (h Habit) remembered() float64 {
	const memory = 14 * 24 * time.Hour
	return max(min(countOf(h.count), float64(memory)/float64(h.Interval())), 1)
}
