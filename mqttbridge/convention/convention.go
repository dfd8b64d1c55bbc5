// Package convention interprets the messages of an MQTT broker with respect to the liveness of
// devices.
//
// A [Convention] knows the topics and payloads by which some kind of device shows that it is alive, and turns each message into signs:
// this device was heard, that one is gone. Most conventions are data, a list of rules (see [Rule]) that this package compiles; the few
// that are not implement the interface themselves. No convention knows a client, a broker or a clock of its own.
package convention

import (
	"iter"
	"time"
)

// Message is a message from a broker.
type Message struct {
	Topic    string
	Payload  []byte // not to be retained by the callee
	Retained bool   // a retained message, which tells of the past
	Time     time.Time
}

// Meaning is what a message means for a device.
type Meaning uint8

const (
	// Ignore: nothing.
	Ignore Meaning = iota
	// Beat: a heartbeat.
	Beat
	// Online: the device opened a session, or the broker tracks its liveness. In a message that is
	// not retained it is a heartbeat as well.
	Online
	// Offline: the broker published the device's last will, or reports the end of its connection.
	// The device may come back within its policy's CloseGrace.
	Offline
	// Bye: the device said goodbye.
	Bye
	// Sleep: the device will be silent for Sign.Length.
	Sleep
	// Fail: the device reports a failure, in Sign.Text. It is a heartbeat as well.
	Fail
	// Gone: the device was removed or renamed, and is deleted.
	Gone
	// Deaf: the devices behind Sign.Behind cannot be heard from now on, because their gateway lost
	// its broker or its radio.
	Deaf
	// Heard ends what Deaf began. So does a message of a device behind the gateway that is not retained, and
	// by which the device is alive.
	Heard
	// Reported: whoever watches over the device, such as its gateway, says that it is offline. Other than
	// after Offline, it is judged at once, unless the message is retained. A gateway may go on publishing
	// what it remembers of the device: where the rule that reports it can tell that it is Online, too, a
	// Beat means nothing between the two.
	Reported
)

// Never as Sign.Timeout: the device's silence means nothing, because its broker tracks its
// liveness.
const Never time.Duration = -1

// Sign is the meaning of a message for a device or a gateway.
type Sign struct {
	Meaning Meaning
	// Device is the device's id. It is empty for Deaf and Heard.
	Device string
	// Behind names the gateway through which the device is heard, if the convention says when
	// gateways are deaf. Else it is empty.
	Behind string
	// Epoch numbers the device's sessions. For Online it must not fall; Offline, Reported and
	// Bye count only if it is that of the device's latest session. 0: the convention does not number sessions.
	Epoch uint64
	// Interval and Timeout are announced for the device; 0 announces nothing. Timeout may be
	// [Never].
	Interval, Timeout time.Duration
	Length            time.Duration // of Sleep; 0: not known
	Text              string        // of Fail
	// Identity is what Home Assistant knows the device by; the zero value is nothing any more. It may
	// come with Ignore. nil: the message does not tell.
	Identity *Identity
	// Why explains the meaning to a person: "rule 2: payload is Offline". It is set only when the
	// convention was asked to explain, see [Convention].
	Why string
	// Publish is what the bridge shall publish, for instance a request for a new birth. A sign with
	// Ignore and without Device may serve only for that.
	Publish []Publication
	// Subscribe is what the bridge shall subscribe to as well, because a message named other
	// topics.
	Subscribe []Subscription
}

// Publication is a message to publish.
type Publication struct {
	Topic    string
	Payload  []byte
	QoS      byte
	Retained bool
}

// Subscription is a topic filter with a quality of service of at most 1.
type Subscription struct {
	Filter string
	QoS    byte
}

// Fleet gives access to the devices of a bridge.
type Fleet interface {
	// Epoch returns the epoch of a device's latest session, or 0 if it is not known. It takes a
	// lock briefly.
	Epoch(device string) uint64
	// Devices returns the ids of all devices that this bridge has heard, also before a restart.
	// O(devices).
	Devices() iter.Seq[string]
}

// Convention turns messages into signs. Its methods are called by one goroutine at a time, and must
// not block.
type Convention interface {
	// Name returns its name, such as "tasmota".
	Name() string
	// Subscriptions returns the subscriptions that it needs. They do not change, but see
	// Sign.Subscribe.
	Subscriptions() []Subscription
	// Connected is called at the start of each connection, before its first message, and after
	// messages were dropped. Messages may have been missed before the call. fleet may be kept.
	Connected(fleet Fleet, emit func(Sign))
	// Apply emits the signs of a message, and none for a message of other conventions. It returns a
	// *Rejected for a message with one of its topics that it cannot understand. With explain, signs
	// have Why, and a message that means nothing emits an Ignore with the reason.
	Apply(m Message, explain bool, emit func(Sign)) error
}

// Reviewer is a convention that sends requests to devices in Connected, and draws conclusions from
// missing answers.
type Reviewer interface {
	// Review is called when the devices have had a minute to answer since Connected, by the
	// goroutine that calls Apply.
	Review(emit func(Sign))
}

// NoCase is the Reason of a Rejected for a message whose topic has a meaning, and whose payload none.
const NoCase = "no_case"

// Rejected is the error for a message that cannot be understood.
type Rejected struct { //nolint:errname // named like the metric
	// Reason is one of a few: "payload", "device_id", "protobuf", "json", "topic", "order", "limit",
	// [NoCase].
	Reason string
	Detail string
}

func (r *Rejected) Error() string { return r.Reason + ": " + r.Detail }
