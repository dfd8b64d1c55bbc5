// Package plan describes what a simulated fleet does: how many devices there are, which protocol
// they speak, and what happens to which of them when.
//
// A [Plan] is data. What one device does follows from the plan's seed and the device's number alone
// ([Plan.Fates]), so all processes that play parts of a fleet, and the one that scores the verdicts,
// compute the same without communicating.
package plan

import (
	"net/netip"
	"time"
)

// Plan describes a fleet. [Plan.Fill] sets the defaults, and [Plan.Validate] checks it.
type Plan struct {
	Name string
	Seed uint64
	// Devices are numbered from 0 to Devices-1. ID makes an id of a number: a format of package
	// fmt, "dev-%07d".
	Devices int
	ID      string
	// Group is how many devices of consecutive numbers make a group; a group is what [Act.Groups]
	// is about. Devices that are left over at the end, too few for a whole group, are in none that
	// an act takes.
	Group int

	// Protocol is one of Protocols. Targets are host:port; each has devices of consecutive numbers.
	// Sources are local addresses to bind, in turn; none leaves it to the kernel.
	Protocol string
	Targets  []string
	Sources  []netip.Addr
	Token    string // line: of HELLO; mqtt: the password
	User     string // mqtt

	// Interval is the time between two heartbeats of a device, which begin at an instant of its
	// own; each is sent up to Jitter of it later.
	Interval time.Duration
	Jitter   float64
	// Timeout is announced: line ttl=, mqtt keep alive (two thirds of it, in whole seconds). The
	// gateway may be configured otherwise.
	Timeout time.Duration
	// Grace is the gateway's close grace, for the score: how long after the end of a connection the
	// verdict is due.
	Grace time.Duration
	// Will and Publish, mqtt: a last will and the topic of heartbeats, with {device} in them;
	// without Publish a heartbeat is PINGREQ.
	WillTopic, WillPayload, BirthPayload, Publish string
	QoS                                           byte

	// Ramp is how many connections a second are begun, by the whole fleet.
	Ramp float64
	// Backoff is the first pause of a device that lost its connection without meaning to, and
	// BackoffMax the longest; with chance.
	Backoff, BackoffMax time.Duration
	Phases              []Phase
}

// Phase is a stretch of time. The first begins when the ramp is over.
type Phase struct {
	Name   string
	Length time.Duration
	Acts   []Act
}

// Kind is what a device does, or what is done to it.
type Kind uint8

// What a device does.
const (
	Lost      Kind = iota // its connection ended or failed unintentionally: no plan has this kind
	Bye                   // sends a goodbye and closes
	Close                 // closes with FIN, without a goodbye
	Reset                 // closes with RST
	Silent                // keeps the connection and sends nothing
	Crash                 // falls silent as if the power went: nothing is sent any more, no FIN either
	Stall                 // goes on sending and reads nothing
	Duplicate             // another connection uses the same id
	Sleep                 // announces that it will be silent until it is back
	Move                  // closes, and comes back from another source address
	Reconnect             // closes, and comes back with a back-off
	Signal                // nothing is done to a device: a marker for the runner, for instance to restart the gateway
)

// Act is something that happens to some devices in a phase.
type Act struct {
	Kind Kind
	// Whom: Share of all devices, or Count of them, or Groups whole groups, or GroupShare of all
	// whole groups; or All that are there. [Fates] says how they are chosen.
	Share      float64
	Count      int
	Groups     int
	GroupShare float64
	All        bool
	// When: After the beginning of the phase, spread evenly over Within; 0: all at one instant. The
	// devices of a group go together.
	After, Within time.Duration
	// Back is how long they stay away; 0: for good, or for no time if the [Kind.Returns]. They come
	// back spread over BackWithin. For a Signal it may be the downtime of the program that is
	// stopped or restarted.
	Back, BackWithin time.Duration
	// Times is how often it happens to each, Every so often; default once.
	Times int
	Every time.Duration
}

// Step is what one device does at one instant.
type Step struct {
	At   time.Duration // since the beginning of the first phase
	Kind Kind
	Back time.Duration // when it is back, since the same instant; At: at once, where the earliest At is 1 ns; 0: never
}
