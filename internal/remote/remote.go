// Package remote has what package gateway needs to hear devices that are judged in another process, and what the server
// needs of a gateway for that.
package remote

import (
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Judge judges the devices of a gateway in another process. Its methods may be called concurrently,
// and do not block. Instants are those of Gateway.Elapsed.
type Judge interface {
	// Open begins to open a session. done is called once, on another goroutine and after Open has
	// returned, with the errors of [liveness.Source.Open].
	Open(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) Session
	// OpenDatagrams is Open for a device that sends datagrams. The session is replaced when one of them
	// reaches another gateway; what was heard in it before that counts.
	OpenDatagrams(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) Session
}

// Session is a device's session at a [Judge]. It is like a [liveness.Session], but that done gets the
// outcome, as that of Judge.Open.
type Session interface {
	ID() string
	// Epoch returns the session's epoch.
	Epoch() uint64
	// Ended reports whether the session was replaced or has ended.
	Ended() bool
	// Judged reports whether the device was judged offline, and not heard since.
	Judged() bool
	Beat(heard time.Duration) bool
	Reopen(heard time.Duration, h liveness.Hello, done func(liveness.Welcome, error))
	UpdatePolicy(heard time.Duration, p liveness.Policy, done func(liveness.Welcome, error))
	Sleep(heard, length time.Duration, done func(liveness.Welcome, error))
	Fail(heard time.Duration, message string, done func(liveness.Welcome, error))
	Bye(heard time.Duration, done func(liveness.Welcome, error))
	// Close ends the session, also one that is being opened, and so does Release.
	Close(heard time.Duration, why liveness.Reason)
	Release(heard time.Duration)
}

// Gateway is a gateway as the server needs it, see gateway.Gateway.Operator.
type Gateway interface {
	// Elapsed returns the time since the gateway was made, which a [Judge] goes by.
	Elapsed() time.Duration
	// Pass calls done, on a goroutine of its own, once all is handled that had reached the gateway when
	// Pass was called. It does not block. If the gateway ends first, done is not called.
	Pass(done func())
	// PassDatagrams is Pass for datagrams. done is told how often datagrams have begun to be lost, because a
	// socket was full, or have ceased to be: that is odd while they are, and then nothing is waited for. The
	// gateway must have a listener for datagrams.
	PassDatagrams(done func(losses uint64))
	// LetGo ends all connections, each with a reason for its device. New ones go on to be accepted, unless the
	// gateway is paused. Devices that send datagrams are known no longer if their sessions have ended, until they
	// are heard. It does not block.
	LetGo(why string)
	// Progress returns a count for each part of the gateway that hears devices: the event loops, the connections
	// over TLS, the sockets of datagrams and their clock. While the gateway runs each of them grows several times
	// a second, however little the devices say, whether the gateway's sources are deaf, and whether the events
	// of the registry are stored. One that stands still for long belongs to a part that hears no more, for
	// instance since an event loop does not come back from a device. An overloaded gateway is slow, but goes
	// on; a flood of connections may keep it waiting for half a minute.
	Progress() (all []uint64)
	// Pause leaves the addresses, which stay bound, until Resume. New connections are refused, and
	// datagrams get lost, unless other sockets listen at the same address (SO_REUSEPORT): these get them then.
	// Connections that wait to be accepted are reset; those that are accepted go on. It may be called before
	// and during gateway.Gateway.Run, and by one goroutine at a time.
	Pause() error
	// Resume takes the addresses again. It fails if another program has one of them meanwhile. It may be
	// called as Pause may.
	Resume() error
}
