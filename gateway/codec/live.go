package codec

import "net/netip"

// Live is a codec that sends to its device on its own accord, such as that of a message broker. Its
// methods are called as those of [Codec] are, by one goroutine at a time; what others have for the
// device they keep, and call [Wire.Wake].
type Live interface {
	Codec

	// Attach gives the codec the wire. It is called once, when the session has been opened, before
	// Reply answers the message that opened it.
	Attach(w Wire)
	// Pump appends what is to be sent to the device. It stops once that is room bytes or more; more
	// says that something is left then: Pump is called again when the device has read. It is called
	// after Wake, and after each time that input was handled, but not while an answer is held.
	Pump(dst []byte, room int) (out []byte, more bool)
	// Continue goes on with a message that is more work than fits into a turn, see Outcome.Unfinished, and
	// reports whether some is left. It is called until none is, before the next message is handled, unless
	// the connection ends first.
	Continue() (more bool)
	// Ended is called once, when the connection has ended. released says that the gateway closed it for
	// its own sake: it ends, or drains.
	Ended(released bool)
	// HasWill reports whether it is made known if the connection ends without a goodbye.
	HasWill() bool
}

// Wire is the connection of a [Live] codec. Any goroutine may call it; it does not block.
type Wire interface {
	// Wake has Pump called soon.
	Wake()
	// Disconnect says goodbye, and closes. why is passed to [Codec.Goodbye].
	Disconnect(why string)
}

// Authenticator is a codec that finds out by itself whether its device is admitted. The gateway's
// guard is not asked then.
type Authenticator interface {
	// Authenticate decides about the device that sent m, a Hello. If that takes a while, later is not
	// nil: it is called once, on a goroutine of its own, and returns the decision. It must not use m.
	Authenticate(m *Message, from Origin) (a Admission, later func() Admission)
	// Revoked reports whether the device that was admitted is not any longer, with what it has shown.
	// Then its connection is closed. It is called when the protocol's Generation has changed, see
	// [Reviewed].
	Revoked() bool
}

// Reviewed is a protocol whose devices are looked at again. That of an [Authenticator] whose Revoked may
// change is one.
type Reviewed interface {
	// Generation returns a number that rises when Revoked may have changed, for any connection. It may be
	// called concurrently, and does not block.
	Generation() uint64
}

// Origin is where a device connects from.
type Origin struct {
	Address netip.Addr
	// Name is what a verified certificate has proved; "" without one.
	Name string
	// Relayed says that Address may be that of a proxy, and the device anywhere.
	Relayed bool
}

// Admission is whether a device is admitted.
type Admission struct {
	Err *Error // why not; nil if it is
	// User is who it has proved to be; "" if nothing proves that. Bound: rules of the codec let that user have the id of
	// this device.
	User  string
	Bound bool
}

// Named is a codec each of whose messages names its device, so that several may share a connection: those of the others are refused.
type Named interface {
	// Named does nothing.
	Named()
}

// Holder is a codec that keeps input which Next has taken, until a message is complete.
type Holder interface {
	// Held returns how many bytes it keeps.
	Held() int
}

// Long is a codec whose messages may be longer than [MaxMessage].
type Long interface {
	// MaxMessage returns how long they may be, in bytes.
	MaxMessage() int
}
