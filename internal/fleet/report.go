package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// FaultKind is what a gateway did wrong.
type FaultKind string

const (
	// FaultFalse is an offline event of a device that was well, or that came
	// before it was due.
	FaultFalse FaultKind = "false offline"
	// FaultMissed is an offline event that is not there.
	FaultMissed FaultKind = "missed offline"
	// FaultReason is an offline event with another reason than the true one.
	FaultReason FaultKind = "wrong reason"
	// FaultTwice is an event, or an offline, that is there twice.
	FaultTwice FaultKind = "duplicate"
	// FaultSeq is a number missing from a device's sequence.
	FaultSeq FaultKind = "gap"
	// FaultOrder is a sequence number or an epoch that goes back.
	FaultOrder FaultKind = "disorder"
	// FaultOnline is an online event that is not there.
	FaultOnline FaultKind = "missed online"
	// FaultData is an event whose content contradicts itself or the truth.
	FaultData FaultKind = "wrong data"
	// FaultDropped is a connection that the peer ended without cause.
	FaultDropped FaultKind = "dropped"
	// FaultStranger is an event of a device that is not in the fleet.
	FaultStranger FaultKind = "stranger"
	// FaultStalled is an offline event that the client itself caused, because
	// it was too late with a heartbeat. It is no fault of the gateway.
	FaultStalled FaultKind = "client stalled"
)

// Fault is one thing wrong with one device.
type Fault struct {
	Kind   FaultKind
	Device string
	Seq    uint64 // of the event; 0 if there is none
	Detail string
}

// Lags are delays in ascending order.
type Lags []time.Duration

// Percentile returns the smallest lag that at least p percent of the lags do
// not exceed (nearest rank): 0 gives the least, 100 the greatest. It returns 0
// if there are none.
func (l Lags) Percentile(p float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(l))))
	return l[min(max(rank, 1), len(l))-1]
}

// Report is the result of Score.
type Report struct {
	Devices, Events int
	// Due counts the offline events that the truth demands, Judged those that
	// came and were right; it can be greater, by verdicts that need not have
	// come.
	Due, Judged int
	// The lag of each right offline event, by its reason: its time less the
	// last heartbeat + timeout, the end of the connection + close grace, and
	// the goodbye.
	Silence, Closed, Bye Lags
	// Faults are ordered by kind, device and sequence number.
	Faults []Fault
}

// Clean reports whether the gateway did nothing wrong.
func (r *Report) Clean() bool {
	return len(r.Faults) == r.Count(FaultStalled)
}

// Count returns the number of faults of a kind.
func (r *Report) Count(kind FaultKind) int {
	n := 0
	for _, f := range r.Faults {
		if f.Kind == kind {
			n++
		}
	}
	return n
}

// String returns counts and lags, and the first ten faults of each kind.
func (r *Report) String() string {
	const shown = 10
	var b strings.Builder
	fmt.Fprintf(&b, "%d devices, %d events, %d offlines due, %d judged right, %d faults\n",
		r.Devices, r.Events, r.Due, r.Judged, len(r.Faults))
	for _, l := range []struct {
		name string
		lags Lags
	}{{ReasonSilence, r.Silence}, {ReasonClosed, r.Closed}, {ReasonBye, r.Bye}} {
		if len(l.lags) > 0 {
			fmt.Fprintf(&b, "lag of %s: n=%d p50=%v p99=%v max=%v\n", l.name, len(l.lags),
				l.lags.Percentile(50), l.lags.Percentile(99), l.lags.Percentile(100))
		}
	}
	kind, n := FaultKind(""), 0
	for _, f := range r.Faults {
		if f.Kind != kind {
			kind, n = f.Kind, 0
			fmt.Fprintf(&b, "%s: %d\n", kind, r.Count(kind))
		}
		if n++; n <= shown {
			fmt.Fprintf(&b, "  %s seq %d: %s\n", f.Device, f.Seq, f.Detail)
		}
	}
	return b.String()
}

func (r *Report) fault(kind FaultKind, device string, seq uint64, format string, args ...any) {
	r.Faults = append(r.Faults, Fault{kind, device, seq, fmt.Sprintf(format, args...)})
}

// judged notes a right offline event.
func (r *Report) judged(reason string, lag time.Duration) {
	r.Judged++
	switch reason {
	case ReasonSilence:
		r.Silence = append(r.Silence, lag)
	case ReasonClosed:
		r.Closed = append(r.Closed, lag)
	case ReasonBye:
		r.Bye = append(r.Bye, lag)
	}
}

// sort puts the report into the order that it promises.
func (r *Report) sort() {
	slices.Sort(r.Silence)
	slices.Sort(r.Closed)
	slices.Sort(r.Bye)
	slices.SortStableFunc(r.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Seq, b.Seq))
	})
}
