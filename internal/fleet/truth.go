package fleet

import (
	"fmt"
	"slices"
	"time"
)

// Action is something that happens to a device, or is done by it. All but
// Dropped can be ordered with [Fleet.Do].
type Action int

const (
	// Silent stops the heartbeats and keeps the connection open.
	Silent Action = iota + 1
	// Close ends the connection with FIN. The device goes on reading until the
	// gateway ends its side too, so unread input never turns FIN into RST.
	Close
	// Reset ends the connection with RST.
	Reset
	// Bye sends BYE and, in the same breath, FIN.
	Bye
	// Reconnect dials anew; a connection that is still open is ended first,
	// with a Reset of its own. Heartbeats go on from the gateway's OK.
	Reconnect
	// Duplicate dials a second connection with the same id. At the gateway's
	// OK the heartbeats move to it; the first one stays open and quiet.
	Duplicate
	// Last sends a heartbeat at once, and is Silent from then on: the history has
	// a Silent.
	Last
	// Dropped is no order: it notes that the gateway, or whatever stands
	// between, ended the connection of a device that had done nothing to
	// deserve it. If devices dial again by themselves, a Reconnect follows it.
	Dropped
)

// String returns the action in lower case.
func (a Action) String() string {
	names := [...]string{"", "silent", "close", "reset", "bye", "reconnect", "duplicate", "last", "dropped"}
	if a < Silent || int(a) >= len(names) {
		return fmt.Sprintf("action(%d)", int(a))
	}
	return names[a]
}

// ConnState is how far a device's newest connection has come.
type ConnState int

const (
	ConnNone     ConnState = iota // never dialled, or waiting for its turn
	ConnDialing                   // TCP handshake under way
	ConnGreeting                  // HELLO sent, not answered
	ConnOpen                      // OK received
	ConnClosed                    // ended by the device
	ConnLost                      // ended by the peer
	ConnRefused                   // dial failed, or the gateway answered ERR
)

// String returns the state in lower case.
func (s ConnState) String() string {
	names := [...]string{"none", "dialing", "greeting", "open", "closed", "lost", "refused"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("conn(%d)", int(s))
	}
	return names[s]
}

// Step is one entry of a device's history.
type Step struct {
	Action Action
	// Planned is the instant that was asked for; At is the instant just before
	// the system call that did it, or at which a dial was queued.
	Planned, At time.Time
	// LastHeartbeat is the instant of the last heartbeat sent before At.
	LastHeartbeat time.Time
	// Hello and Answered are set, for Reconnect and Duplicate, once the gateway
	// said OK: when HELLO was sent and when the OK was read.
	Hello, Answered time.Time
	// Err says why the action could not be done, or why its dial or HELLO
	// failed; of a device that dials again by itself, the latest of them, until
	// one succeeds.
	Err string
}

// Sign is a sign of life, in Unix time in nanoseconds.
type Sign struct {
	// At is the instant just before the system call that handed it over.
	At int64
	// Granted is when the gateway's OK to a HELLO was read; 0 for a heartbeat.
	Granted int64
	// Answered is when the gateway's answer to it was read, to a HELLO or to a
	// heartbeat; 0 if none was.
	Answered int64
}

// Gap is a time between two heartbeats that followed one another.
type Gap struct{ From, To time.Time }

// Length returns To − From.
func (g Gap) Length() time.Duration { return g.To.Sub(g.From) }

// Ending is how a connection ended.
type Ending struct {
	At    time.Time // zero while it is open
	Cause string    // "EOF", or the text of the socket's error
	// LastLine is the last line read on it, without its line end and cut to 128
	// bytes.
	LastLine string
}

// Device is the truth about one device.
type Device struct {
	Index int
	ID    string
	State ConnState
	// Epoch and TTL are what the gateway granted in its latest OK, and
	// ConnectedAt is when that was read; all zero before the first one.
	Epoch       uint64
	TTL         time.Duration
	ConnectedAt time.Time
	// LastHeartbeat is the instant just before the last PING, or HELLO that was
	// granted, was handed to the kernel.
	LastHeartbeat time.Time
	// Heartbeats counts PINGs handed to the kernel, Answers the PONGs read.
	Heartbeats, Answers uint64
	// LongestGap is the longest silence of the device while it was supposed to
	// send: if it reaches the timeout, the client was too late, and an offline
	// event for it is no fault of the gateway.
	LongestGap Gap
	// Steps is all that was done, in the order in which it happened.
	Steps []Step
	// Signs are all signs of life, in order, if the fleet keeps a journal.
	Signs []Sign
	// Busy are the instants of HELLOs that the gateway heard, and answered with
	// "busy", since it could not store them in time; in order, if there is a
	// journal. The device is online from then on, once that is stored.
	Busy []int64
	// End is the ending of the newest connection as the device saw it: the
	// peer's FIN or RST, also after an ordered Close, or the cause of a failed
	// dial. Of an open connection it has only the last line.
	End Ending
	// Replaced has the connections that a Duplicate took the place of.
	Replaced []Ending
}

// clone returns a copy that shares no memory with d.
func (d *Device) clone() Device {
	c := *d
	c.Steps = slices.Clone(d.Steps)
	c.Signs = slices.Clone(d.Signs)
	c.Busy = slices.Clone(d.Busy)
	c.Replaced = slices.Clone(d.Replaced)
	return c
}
