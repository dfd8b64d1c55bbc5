package fleet

import "time"

// The types of event that Score looks at; all others only take part in the
// sequence.
const (
	TypeOnline  = "online"
	TypeOffline = "offline"
)

// TypeFailed is the type of the event that tells of a failure that the device
// told of.
const TypeFailed = "failed"

// TypeHeard is the type of the event that ends a time in which a source of
// heartbeats was deaf.
const TypeHeard = "source.heard"

// The reasons of an offline event that a Fleet can bring about.
const (
	ReasonSilence = "silence"
	ReasonClosed  = "closed"
	ReasonBye     = "bye"
)

// Event is one event of a gateway. Fields that a gateway left out are zero.
type Event struct {
	Offset uint64 // the place in the gateway's log
	ID     string // "DEVICE:SEQ"
	// Type is the CloudEvents type without "io.holter.device.", such as
	// "offline"; of an event that is not about a device, without "io.holter.".
	Type   string
	Device string // empty if the event is not about a device
	Seq    uint64 // counts the events of the device from 1
	Epoch  uint64
	Reason string
	Time   time.Time

	LastSeen, Deadline, DecidedAt time.Time
	HeardSilence, Timeout         time.Duration
	Deaf                          time.Duration // of a source
}
