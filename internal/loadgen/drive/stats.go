package drive

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// Causes of what went wrong, the keys of [Stats].Errors. Those up to CauseSocketFull are also the
// [plan.Truth].Cause of a connection that was lost.
const (
	CauseRefused     = "refused"             // ECONNREFUSED
	CauseTimeout     = "timeout"             // no handshake in time, or ETIMEDOUT
	CauseUnreachable = "unreachable"         // ENETUNREACH, EHOSTUNREACH
	CausePorts       = "no free port"        // EADDRNOTAVAIL, EADDRINUSE
	CauseFiles       = "too many open files" // EMFILE, ENFILE
	CauseMemory      = "no memory"           // ENOMEM, ENOBUFS
	CauseReset       = "reset by peer"       // ECONNRESET, EPIPE
	CauseClosed      = "closed by peer"      // FIN
	CauseNoWelcome   = plan.NoAnswer         // connected, and not welcomed in time
	CauseGarbage     = "garbage"             // what came is not of the protocol
	CauseRejected    = "rejected"            // the gateway refused the greeting; with ": " and its code, if it gave one that is known
	CauseSocketFull  = "socket full"         // the gateway reads nothing, so a heartbeat could not be sent

	CauseUnanswered   = "heartbeat not answered"             // in time; once until all are answered
	CauseWrong        = "wrong answer"                       // to another heartbeat than the oldest one that waits
	CauseUnexpected   = "unexpected answer"                  // to nothing
	CauseNotConnected = "act without a connection"           // a device was to stall or be duplicated, and could not
	CauseNotReplaced  = "replaced, but not closed"           // the first connection of a duplicated device was still there after 10 s
	CauseDuplicate    = "duplicate did not get in"           // with the reason counted beside it
	CauseNotClosed    = "said goodbye, not closed"           // the gateway kept its side open for 5 s
	CauseGoodbye      = "goodbye could not be sent"          // the socket was full, or gone
	CauseComplaint    = "complaint about an open connection" // line: ERR; with ": " and its code
)

// Stats is the state of a fleet at an instant.
type Stats struct {
	Gauges
	Counters

	At time.Time
	// Histograms are those since the last call.
	Histograms Histograms

	// Memory is the process's resident memory in bytes, CPU the time that it has computed.
	Memory uint64
	CPU    time.Duration
}

// Gauges are numbers of devices and sockets at an instant.
type Gauges struct {
	// Devices that are played; Seen of them were welcomed at least once, Welcomed are connected now
	// and beat; Connecting are on the way to that; Queued wait their turn; Pausing wait before they
	// try again; Away are absent because an act said so. Those that are none of it have not begun.
	Devices, Seen, Welcomed, Connecting, Queued, Pausing, Away int
	Open                                                       int // sockets, of whatever use
	StepsLeft                                                  int // of fates, after Begin
}

// Add adds the gauges of other devices.
func (g *Gauges) Add(o *Gauges) { addNumbers(reflect.ValueOf(g).Elem(), reflect.ValueOf(o).Elem()) }

// addNumbers adds the numbers of a struct to those of another one.
func addNumbers(to, from reflect.Value) {
	for i := range to.NumField() {
		switch field := to.Field(i); {
		case field.CanInt():
			field.SetInt(field.Int() + from.Field(i).Int())
		case field.CanUint():
			field.SetUint(field.Uint() + from.Field(i).Uint())
		}
	}
}

// Counters count from the beginning.
type Counters struct {
	Connects, Welcomes, Failed uint64 // connections begun, welcomed, and failed before the welcome
	Lost                       uint64 // connections that ended after the welcome unintentionally
	Sent, Answered             uint64 // heartbeats
	BytesOut, BytesIn          uint64
	Steps                      uint64            // of fates that were done
	Errors                     map[string]uint64 // by cause
}

// Add adds the counters of other devices. Errors must not be nil.
func (c *Counters) Add(o *Counters) {
	addNumbers(reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem())
	for cause, n := range o.Errors {
		c.Errors[cause] += n
	}
}

// Histograms are in microseconds; see the package's comment. One that is nil is empty.
type Histograms [4]*hdrhistogram.Histogram

// Indices of Histograms.
const (
	RTT = iota
	RTTPlanned
	Lateness
	Connect // from the beginning of a connection to its welcome
)

// NewHistograms returns empty histograms, for times from a microsecond to two minutes with two
// digits: 29 KB each.
func NewHistograms() Histograms {
	var all Histograms
	for i := range all {
		all[i] = hdrhistogram.New(1, (2 * time.Minute).Microseconds(), 2)
	}
	return all
}

// GobEncode implements [gob.GobEncoder].
func (all Histograms) GobEncode() ([]byte, error) {
	var texts [len(all)][]byte
	for i, h := range all {
		if h == nil || h.TotalCount() == 0 {
			continue
		}
		var err error
		if texts[i], err = h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
			return nil, fmt.Errorf("drive: encode a histogram: %w", err)
		}
	}
	return json.Marshal(texts)
}

// GobDecode implements [gob.GobDecoder]. Histograms that were empty are nil.
func (all *Histograms) GobDecode(b []byte) error {
	var texts [len(all)][]byte
	if err := json.Unmarshal(b, &texts); err != nil {
		return fmt.Errorf("drive: decode histograms: %w", err)
	}
	for i, text := range texts {
		if len(text) > 0 {
			var err error
			if all[i], err = hdrhistogram.Decode(text); err != nil {
				return fmt.Errorf("drive: decode a histogram: %w", err)
			}
		}
	}
	return nil
}

// Merge adds the values of other histograms. The receiver's must not be nil.
func (all *Histograms) Merge(others *Histograms) {
	for i, h := range others {
		if h != nil {
			all[i].Merge(h)
		}
	}
}

// record adds a time in nanoseconds, cut to the range.
func record(h *hdrhistogram.Histogram, nanos int64) {
	_ = h.RecordValue(min(max(nanos/1000, 1), h.HighestTrackableValue()))
}
