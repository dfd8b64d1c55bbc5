package learn

import (
	"math"
	"math/rand/v2"
	"time"
)

// detector is what judges one device.
type detector interface {
	// deadline returns how long the device may be silent now.
	deadline() time.Duration
	// heard learns a gap. The heartbeat that ended it came at now.
	heard(now, gap time.Duration)
}

// group makes the detectors of a group of devices, which may learn from each other.
type group interface {
	// detector returns that of another device. policy is what it uses while it has learned nothing.
	detector(policy time.Duration, r *rand.Rand) detector
	// weekly is called every seven days.
	weekly()
}

// contender is a way to find deadlines.
type contender struct {
	name, text string
	begin      func() group
}

// contenders are all of them.
func contenders() []contender {
	alone := func(judge func(policy time.Duration) detector) func() group {
		return func() group { return loners(judge) }
	}
	return []contender{
		ours(0.3), ours(1), ours(3),
		{"fixed", "what operators set, three times the interval that the device is known for", alone(func(policy time.Duration) detector { return fixed(policy) })},
		{"RFC 6298", "smoothed gap + 4 × its smoothed deviation, as TCP sets its retransmission timer", alone(func(policy time.Duration) detector { return &smoothed{policy: policy} })},
		{"φ-accrual", "φ = 8 on a normal distribution of the last 1,000 gaps; Akka's least deviation, a tenth of the mean", alone(func(policy time.Duration) detector {
			return &accrual{policy: policy, gaps: newWindow(1000)}
		})},
		{"φ-accrual + pause", "the same with Akka's acceptable pause, 3 × the mean", alone(func(policy time.Duration) detector {
			return &accrual{policy: policy, pause: 3, gaps: newWindow(1000)}
		})},
		{"NFD-E", "Chen, Toueg and Aguilera: the next arrival expected from the last 100 gaps, + 2 × their mean", alone(func(policy time.Duration) detector {
			return &expected{policy: policy, gaps: newWindow(100)}
		})},
	}
}

// loners make a group of devices that learn nothing from each other.
type loners func(policy time.Duration) detector

func (l loners) detector(policy time.Duration, _ *rand.Rand) detector { return l(policy) }
func (loners) weekly()                                                {}

// fixed is a timeout that learns nothing.
type fixed time.Duration

func (f fixed) deadline() time.Duration { return time.Duration(f) }
func (fixed) heard(_, _ time.Duration)  {}

// smoothed is the estimate of RFC 6298, section 2, of gaps instead of round trips. The granularity of its
// clock is one second.
type smoothed struct {
	policy          time.Duration
	mean, deviation float64 // in nanoseconds
}

func (s *smoothed) deadline() time.Duration {
	if s.mean == 0 {
		return s.policy
	}
	return time.Duration(s.mean + max(4*s.deviation, float64(time.Second)))
}

func (s *smoothed) heard(_, gap time.Duration) {
	g := float64(gap)
	if s.mean == 0 {
		s.mean, s.deviation = g, g/2
		return
	}
	s.deviation += (math.Abs(s.mean-g) - s.deviation) / 4
	s.mean += (g - s.mean) / 8
}

// few is how many gaps a window needs before it is used.
const few = 5

// window has the last gaps, in seconds, with their sum and the sum of their squares.
type window struct {
	gaps         []float64
	next         int
	sum, squares float64
}

func newWindow(size int) window { return window{gaps: make([]float64, 0, size)} }

func (w *window) add(gap time.Duration) {
	g := gap.Seconds()
	if len(w.gaps) < cap(w.gaps) {
		w.gaps = append(w.gaps, g)
	} else {
		old := w.gaps[w.next]
		w.sum, w.squares = w.sum-old, w.squares-old*old
		w.gaps[w.next] = g
		w.next = (w.next + 1) % len(w.gaps)
	}
	w.sum, w.squares = w.sum+g, w.squares+g*g
}

func (w *window) mean() float64 { return w.sum / float64(len(w.gaps)) }

func (w *window) deviation() float64 {
	mean := w.mean()
	return math.Sqrt(max(w.squares/float64(len(w.gaps))-mean*mean, 0))
}

// accrual is the φ accrual failure detector of Hayashibara, Défago, Yared and Katayama with Akka's additions,
// for one threshold: the deadline is the silence at which φ reaches it. All gaps are learned, as in the
// paper.
type accrual struct {
	policy time.Duration
	pause  float64 // of means, that is added to the mean
	gaps   window
}

const (
	// sigmas is by how many standard deviations a normal variable exceeds its mean with probability 10⁻⁸,
	// which is φ = 8.
	sigmas = 5.612001244174789
	// leastDeviation is Akka's 100 ms for heartbeats that come every second.
	leastDeviation = 0.1
)

func (a *accrual) deadline() time.Duration {
	if len(a.gaps.gaps) < few {
		return a.policy
	}
	mean := a.gaps.mean()
	return seconds(mean*(1+a.pause) + sigmas*max(a.gaps.deviation(), leastDeviation*mean))
}

func (a *accrual) heard(_, gap time.Duration) { a.gaps.add(gap) }

// expected is NFD-E. The heartbeats carry no interval and no numbers, so the interval is the mean of the
// gaps, and the next arrival is expected one interval after the last: with the mean of the last arrivals
// instead, as in the paper, each change of the interval would cause more false alarms.
type expected struct {
	policy time.Duration
	gaps   window
}

const alpha = 2 // intervals that are added to the expected arrival

func (e *expected) deadline() time.Duration {
	if len(e.gaps.gaps) < few {
		return e.policy
	}
	return seconds((1 + alpha) * e.gaps.mean())
}

func (e *expected) heard(_, gap time.Duration) { e.gaps.add(gap) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
