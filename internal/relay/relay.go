// Package relay is how brokers of package mqtt exchange messages: one with those that have it as their upstream
// broker.
package relay

import "time"

// Kind says what a [Message] is. The zero Kind is one that was published.
type Kind uint8

// The kinds.
const (
	Published  Kind = iota
	Copied          // it is what is retained for its topic, and the other broker may have it
	CopyBegins      // all that is retained follows, as Copied, among others
	CopyEnds        // all of it was sent
	Confirmed       // a message of the other broker's that was to be retained has come; Kept reports whether it is
)

// Message is a message on its way from one broker to another. Nothing that it leads to is changed.
type Message struct {
	Kind                Kind
	Number              uint64 // given by the sender's [Link]; of a Confirmed the one that is confirmed
	Topic               string
	Payload, Properties []byte // properties as subscribers get them, but for the expiry
	Expires             time.Time
	QoS                 uint8
	Retain              bool   // as it was published
	Kept                bool   // it is retained for its topic; without a payload nothing is any more
	Share               string // the filter, with $share/, of the group that it is for; "": not for a group
}

// Link takes what is for another broker. Its methods are called by any goroutine, with locks of the
// broker held: they must not block, and call nothing of the broker.
type Link interface {
	// Forward takes a message, and returns the number that it gives it; these rise. ok is false if it
	// is dropped: there is no room, or nobody to take it. A link to an upstream broker drops only what
	// has QoS 0.
	Forward(m Message) (number uint64, ok bool)
	// Full reports whether there is no room. Only that of a link to an upstream broker is called, as is
	// Want.
	Full() bool
	// Want is told that clients here want what matches a filter, or that none does any more.
	Want(filter string, wanted bool)
	// Wake is called after [Remote].Awaits has returned true: it may return something else now.
	Wake()
}

// Broker is a broker as what connects it with others needs it, see mqtt.Broker.Relay.
type Broker interface {
	// Upstream makes another broker the one that all messages of clients go to, and that decides what is
	// retained, and which member of a group gets a message. Messages with QoS 1 and 2 are acknowledged once
	// that broker has taken them, see [remote.Taken]. It is called once, before any client connects.
	Upstream(link Link) (Remote, error)
	// Downstream adds a broker that has this one as its upstream broker, until [remote.Leave] is called.
	Downstream(name string, link Link) Remote
}

// Remote is another broker that messages are exchanged with. One goroutine at a time calls the methods
// of one.
type Remote interface {
	// Leave ends a downstream broker.
	Leave()
	// BeginFilters begins to announce all filters of a downstream broker; those before count until EndFilters.
	BeginFilters()
	// EndFilters says that all filters are announced.
	EndFilters()
	// Want announces a filter of a downstream broker, with $share/ or without. What is none is ignored.
	Want(filter string)
	// Unwant says that a downstream broker does not want a filter any more.
	Unwant(filter string)
	// Filters calls f for each filter that clients have subscribed to. The caller may hold no lock that the
	// link takes but in f.
	Filters(f func(filter string))
	// Receive applies a message of the other broker. It returns what must be committed before the other one
	// may be told that it was taken, see Awaits.
	Receive(m *Message, now time.Time) (commit uint64)
	// Awaits reports whether something is not committed yet. If so, the link is woken when it may be.
	Awaits(commit uint64) bool
	// Full reports whether too much waits for the store: then nothing should be received.
	Full() bool
	// Taken says that the upstream broker has taken all messages up to a number.
	Taken(number uint64)
	// Alone says that there is no upstream broker: nothing is forwarded, until Joined is called.
	Alone()
	// Joined says that there is an upstream broker, and that it has received all messages up to a number. It
	// copies next what is retained. Clients may not publish to topics that begin with reserved; "": all are
	// free.
	Joined(received uint64, reserved string)
	// Reserved returns what the topics begin with under which only the program publishes; "" if there are none.
	Reserved() string
	// Copy forwards some of what is retained, as Copied, beginning in slot from, which is 1 at first. It
	// returns where to go on; 0 if all is copied.
	Copy(from int) (next int)
}
