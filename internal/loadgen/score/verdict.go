package score

import (
	"context"
	"time"
)

// Kind is what a verdict says of a device, of a source or of the stream of verdicts.
type Kind uint8

// Of a device.
const (
	Other     Kind = iota // takes part in the numbering, and says nothing that is judged
	Online                // is heard, or heard again
	Offline               // the verdict
	Late                  // is silent for a while
	Sleeping              // said that it would be silent
	Replaced              // has another session while an older one was open
	Forgotten             // was removed; its numbers go on if it comes back
)

// Of a source of heartbeats, and of the stream.
const (
	SourceDeaf  Kind = iota + 16 // stopped listening
	SourceHeard                  // listens again
	Following                    // the stream is there, after Offset; sent by followers, after each connect
	Missed                       // events are no longer kept, the oldest is Offset
	Broken                       // the stream ended, for Reason; it is tried again
	Skipped                      // the log has no events from Offset on, Seq of them, without a reason
	Rewound                      // the log went back to Offset, which was read before
	Clock                        // the gateway's clock was measured, or is taken to be ahead by Skew
	Behind                       // the listening clock of a source is behind by Lag, or in time
)

// The reasons of an offline verdict that a [Score] knows. No reason at all is right for every
// absence.
const (
	ReasonSilence  = "silence"
	ReasonClosed   = "closed"
	ReasonBye      = "bye"
	ReasonProtocol = "protocol" // the device was cut off for what it said
	ReasonAdmin    = "admin"    // an operator ended the session
	ReasonWill     = "will"     // the broker published the device's last will, for silence or because its connection ended
)

// Verdict is a message of a gateway. What the gateway did not say is zero.
type Verdict struct {
	URL    string // where it was read
	Source string // of heartbeats, by the gateway's name for it
	Device string // its id
	Kind   Kind
	Reason string
	// Seq counts the events of the device, from 1, and Epoch its sessions. Offset is the place in
	// the gateway's log.
	Seq, Epoch, Offset uint64
	// ID identifies the event to consumers.
	ID string
	// Time is when it was decided, by the clock of this machine, and Seen when it was read here.
	// Came is when it came at the earliest: until then there was nothing to be read. Default: Seen.
	Time, Seen, Came time.Time
	// Error is how far Time and Deadline may be from what they are by the clock of this machine.
	Error time.Duration
	// Skew is how far the gateway's clock is ahead, of Clock.
	Skew time.Duration
	// Full reports, of Following, whether events of devices have all that Holter's have: numbers,
	// sessions, reasons and deadlines.
	Full bool
	// Deadline is when the verdict was due by the gateway's reckoning; HeardSilence how long it had
	// listened to the device's silence.
	Deadline              time.Time
	LastSeen              time.Time // when the gateway heard the device last, by its own clock, as Time
	HeardSilence, Timeout time.Duration
	Deaf                  time.Duration // of SourceHeard, and of SourceDeaf if it is over already
	Lag                   time.Duration // of Behind
	// Retained reports whether it is an old state, without the instant at which it began.
	Retained bool
}

// Follower reads verdicts.
type Follower interface {
	// Follow passes on the events from now on, unless the follower is made for older ones, and
	// blocks until ctx is done, which is no error. It tells Following as soon as nothing more can be
	// missed, and goes on after a broken connection from where it was. The error says why the
	// verdicts cannot be read at all. tell may be called concurrently; while it blocks, no more is
	// read.
	Follow(ctx context.Context, tell func(Verdict)) error
}
