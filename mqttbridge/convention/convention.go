// Package convention says what the messages of an MQTT broker mean for the liveness of devices.
//
// A [Convention] knows the topics and payloads by which some kind of device shows that it is alive, and turns each message into signs:
// this device was heard, that one is gone. Most conventions are data, a list of rules (see [Rule]) that this package compiles; the few
// that are not implement the interface themselves. No convention knows a client, a broker or a clock of its own.
package convention

import (
	"iter"
	"time"
)

// Message is what came from a broker.
type Message struct {
	Topic    string
	Payload  []byte // not to be kept
	Retained bool   // it was kept by the broker: it tells of the past
	Time     time.Time
}

// Meaning is what a message means for a device.
type Meaning uint8

const (
	// Ignore: nothing.
	Ignore Meaning = iota
	// Beat: a heartbeat.
	Beat
	// Online: the device opened a session, or its broker vouches for it. In a message that is not retained it is a heartbeat, too.
	Online
	// Offline: the broker published the device's last will, or says that its connection ended. The device has its policy's CloseGrace
	// to come back.
	Offline
	// Bye: the device said goodbye.
	Bye
	// Sleep: the device will be silent for Sign.Length.
	Sleep
	// Fail: the device tells of a failure, in Sign.Text. It is a heartbeat.
	Fail
	// Gone: the device was removed or renamed; it is not to be watched any more.
	Gone
	// Deaf: what stands behind Sign.Behind cannot be heard from now on: its gateway lost its broker or its radio.
	Deaf
	// Heard ends what Deaf began.
	Heard
)

// Never as Sign.Timeout: the device's silence means nothing, its broker vouches for it.
const Never time.Duration = -1

// Sign is what follows from a message.
type Sign struct {
	Meaning Meaning
	// Device is its id; empty for Deaf and Heard.
	Device string
	// Behind names the gateway that the device is heard through, if the convention tells when a gateway is deaf; else it is empty.
	Behind string
	// Epoch numbers the device's sessions, if the convention does. For Online it must not fall; Offline and Bye count only if it is that of
	// the device's latest session. 0: the convention does not number them.
	Epoch uint64
	// Interval and Timeout are announced for the device. 0: not. Timeout may be [Never].
	Interval, Timeout time.Duration
	Length            time.Duration // of Sleep; 0: not told
	Text              string        // of Fail
	// Why says in a few words how the meaning was found, for a person: "rule 2: payload is Offline". Set only when the convention was asked
	// to explain, see [Convention].
	Why string
	// Publish is what the bridge is to publish, for instance a request for a new birth. With Ignore and no Device that is all the sign is for.
	Publish []Publication
	// Subscribe is what the bridge is to subscribe to besides, because a message named other topics.
	Subscribe []Subscription
}

// Publication is a message to publish.
type Publication struct {
	Topic    string
	Payload  []byte
	QoS      byte
	Retained bool
}

// Subscription is a topic filter, and the quality of service at most 1 to ask for.
type Subscription struct {
	Filter string
	QoS    byte
}

// Fleet is what is known of the devices.
type Fleet interface {
	// Epoch returns the epoch of a device's latest session, 0 if it is not known. It takes a lock for a moment.
	Epoch(device string) uint64
	// Devices are the ids of all devices that this bridge heard, also before a restart. O(devices).
	Devices() iter.Seq[string]
}

// Convention turns messages into signs. Its methods are called by one goroutine at a time, and block on nothing.
type Convention interface {
	// Name names it: "tasmota".
	Name() string
	// Subscriptions are needed for it; they do not change, but see Sign.Subscribe.
	Subscriptions() []Subscription
	// Connected is called after each connect, before the first message, and after messages were dropped: those in between may have been
	// missed. fleet may be kept.
	Connected(fleet Fleet, emit func(Sign))
	// Apply emits the signs of a message; none if it is not one of the convention's. A message that has the topic of one but cannot be
	// understood is a *Rejected. With explain, signs say Why, and a message that means nothing emits an Ignore that says why.
	Apply(m Message, explain bool, emit func(Sign)) error
}

// Reviewer is a convention that asks devices something in Connected, and concludes from who did not answer.
type Reviewer interface {
	// Review is called once the devices have had a minute to answer since Connected, by the goroutine that calls Apply.
	Review(emit func(Sign))
}

// Rejected is the error for a message that cannot be understood.
type Rejected struct { //nolint:errname // it is what happens to the message, and what the metric is called
	// Reason is one of a few: "payload", "device_id", "protobuf", "json", "topic", "order", "limit".
	Reason string
	Detail string
}

func (r *Rejected) Error() string { return r.Reason + ": " + r.Detail }
