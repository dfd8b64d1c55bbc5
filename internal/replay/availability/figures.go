package availability

import (
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Kind is what an instant of a window counts as. Each counts as exactly one.
type Kind uint8

const (
	// Online: the device was heard in time.
	Online Kind = iota
	// Late: it was heard, and is expected again for longer than its policy's LateAfter.
	Late
	// Sleeping: it had announced its silence.
	Sleeping
	// Offline: it was offline for any reason but a goodbye.
	Offline
	// Bye: it was offline and had said goodbye, which is no failure.
	Bye
	// Deaf: its source was deaf. It counts neither for the device nor against it.
	Deaf
	// Maintenance: it was in maintenance, whatever its state. It counts neither for nor against it.
	Maintenance
	// Unknown: its events from then are no longer kept, or there was no such device.
	Unknown

	// Kinds is how many kinds there are.
	Kinds = int(Unknown) + 1
)

// kindOf returns what heard time of a state counts as.
func kindOf(state liveness.State, reason liveness.Reason) Kind {
	switch state {
	case liveness.Online:
		return Online
	case liveness.Late:
		return Late
	case liveness.Sleeping:
		return Sleeping
	case liveness.Offline:
		if reason == liveness.Bye {
			return Bye
		}
		return Offline
	case liveness.NeverSeen, liveness.Unknown, liveness.Suspect, liveness.Pending: // of no event
	}
	return Unknown
}

// Figures are those of one device.
type Figures struct {
	// Times says how long of the window counts as what. The sum is the length of the window.
	Times [Kinds]time.Duration
	// Outages is how often the device was offline without having said goodbye, for any time that counts
	// as Offline. One that had begun before the window, or is not over, is among them.
	Outages int
	// Longest is the time of the longest of them that counts as Offline.
	Longest time.Duration
}

// Total is the sum of the figures of some devices. The zero Total is that of none.
type Total struct {
	Devices int
	// Times is in milliseconds: a duration cannot hold a year of 300 devices.
	Times   [Kinds]float64
	Outages int
	Longest time.Duration // the longest of all outages
}

// Add adds the figures of a device.
func (t *Total) Add(f *Figures) {
	t.Devices++
	for k, d := range f.Times {
		t.Times[k] += float64(d) / float64(time.Millisecond)
	}
	t.Outages += f.Outages
	t.Longest = max(t.Longest, f.Longest)
}

// up returns the time for which the devices were up, in milliseconds.
func (t *Total) up() float64 { return t.Times[Online] + t.Times[Late] + t.Times[Sleeping] }

// Share returns which share of the heard time the devices were up: online, late, or asleep as
// announced. It returns false if nothing was heard.
func (t *Total) Share() (share float64, ok bool) {
	heard := t.up() + t.Times[Offline] + t.Times[Bye]
	if heard <= 0 {
		return 0, false
	}
	return t.up() / heard, true
}

// BetweenFailures returns the mean time between failures: the time up for each outage, in
// milliseconds. It returns false without an outage.
func (t *Total) BetweenFailures() (ms float64, ok bool) { return each(t.up(), t.Outages) }

// ToRecover returns the mean time to recover: the time that counts as Offline for each outage, in
// milliseconds. It returns false without an outage.
func (t *Total) ToRecover() (ms float64, ok bool) { return each(t.Times[Offline], t.Outages) }

func each(sum float64, n int) (float64, bool) {
	if n == 0 {
		return 0, false
	}
	return sum / float64(n), true
}
