package drive

import (
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Causes of what went wrong, the keys of [Stats].Errors. Those up to CauseSocketFull are also the
// Cause of a Lost.
const (
	CauseRefused     = "refused"             // ECONNREFUSED
	CauseTimeout     = "timeout"             // no handshake in time, or ETIMEDOUT
	CauseUnreachable = "unreachable"         // ENETUNREACH, EHOSTUNREACH
	CausePorts       = "no free port"        // EADDRNOTAVAIL, EADDRINUSE
	CauseFiles       = "too many open files" // EMFILE, ENFILE
	CauseMemory      = "no memory"           // ENOMEM, ENOBUFS
	CauseReset       = "reset by peer"       // ECONNRESET, EPIPE
	CauseClosed      = "closed by peer"      // FIN
	CauseNoWelcome   = "no answer"           // connected, and not welcomed in time
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

// Stats is how it goes. Gauges and counters speak of the instant of the call, the counters from the
// beginning.
type Stats struct {
	At time.Time

	// Devices that are played; Seen of them were welcomed at least once, Welcomed are connected now
	// and beat; Connecting are on the way to that; Queued wait their turn; Pausing wait before they
	// try again; Away are absent because an act said so. Those that are none of it have not begun.
	Devices, Seen, Welcomed, Connecting, Queued, Pausing, Away int
	// Open is how many sockets are open, of whatever use.
	Open int

	Connects, Welcomes, Failed uint64 // connections begun, welcomed, and failed before the welcome
	Lost                       uint64 // connections that ended after the welcome although nobody meant it to
	Sent, Answered             uint64 // heartbeats
	BytesOut, BytesIn          uint64
	Steps                      uint64 // of fates that were done
	StepsLeft                  int    // after Begin
	// Errors by cause.
	Errors map[string]uint64

	// Since the last call, in microseconds; see the package's comment. Connect is from the
	// beginning of a connection to its welcome.
	RTT, RTTPlanned, Lateness, Connect *hdrhistogram.Histogram

	// Memory is the process's resident memory in bytes, CPU the time that it has computed.
	Memory uint64
	CPU    time.Duration
}

// counts are the counters of Stats.
type counts struct {
	connects, welcomes, failed, lost uint64
	sent, answered                   uint64
	bytesOut, bytesIn                uint64
	steps                            uint64
	errors                           map[string]uint64
}

// histograms are those of Stats.
type histograms struct {
	rtt, rttPlanned, lateness, connect *hdrhistogram.Histogram
}

func newHistograms() histograms {
	// A microsecond to two minutes with two digits: 29 KB.
	one := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, (2 * time.Minute).Microseconds(), 2) }
	return histograms{rtt: one(), rttPlanned: one(), lateness: one(), connect: one()}
}

// record adds a time in nanoseconds, cut to the range.
func record(h *hdrhistogram.Histogram, nanos int64) {
	_ = h.RecordValue(min(max(nanos/1000, 1), h.HighestTrackableValue()))
}

func (c *counts) fill(s *Stats) {
	s.Connects, s.Welcomes, s.Failed, s.Lost = c.connects, c.welcomes, c.failed, c.lost
	s.Sent, s.Answered, s.BytesOut, s.BytesIn, s.Steps = c.sent, c.answered, c.bytesOut, c.bytesIn, c.steps
	s.Errors = maps.Clone(c.errors)
}
