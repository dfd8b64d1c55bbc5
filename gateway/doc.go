// Package gateway serves devices over TCP, TLS and UDP, and turns what they send into heartbeats.
//
// # A first program
//
//   - Make a liveness.Registry with a sink for its events, such as package eventlog's.
//   - Make a gateway with [New]. A [Listener] needs an Address, "127.0.0.1:0" or ":7700", and its
//     Protocols: line.Protocol{} of package codec/line, which can be typed into netcat, frame.Protocol{},
//     jt808, teltonika, gt06, dtu, MQTT (package codec/mqtt), or one of one's own (package codec).
//   - Run Registry.Run and [Gateway.Run] until the program ends; end the gateway first, since the
//     registry takes what it says of its devices. [Gateway.Addrs] has the ports.
//
// Then each device that connects and says who it is has a session, and the sink has an event when it
// comes, falls silent, says goodbye or comes back. [Gateway.Send] sends a device a message. The
// examples are programs: a protocol of one's own; several at a port, over UDP and with a token; an MQTT
// broker.
//
// # Event loops
//
// Event loops read and write; an idle connection costs no goroutine and no buffer. A heartbeat goes from the socket through the codec of its protocol to [liveness.Session.Beat] and
// no further. The gateway accepts connections itself: when descriptors run out it turns new
// connections away and keeps those that it has.
//
// # Listening
//
// The gateway is a source of the registry, and tells it how far it has listened. Every few
// milliseconds it sets a marker in each event loop. The kernel hands ready sockets out in the order
// in which they became ready (epoll_wait(2)), so when a loop passes the marker, it has read all that
// was there when the marker was set. If the loops are overloaded, the markers wait in line with the
// heartbeats, the listening clock waits for the markers, and no verdict overtakes unread input. If
// the process is stopped, no marker is set, and that time does not count.
//
// Datagrams (UDP) are a source of their own. Its clock moves when each socket's reader has found
// the socket empty, or has read as many datagrams as it can hold. When the kernel has dropped
// datagrams because a socket was full, the source is deaf until none has been dropped for a second:
// devices whose heartbeats were dropped then have time to be heard again.
//
// # Answers
//
// An OK means committed: the answer to anything that causes an event, such as the hello of a new
// device, a sleep, a failure or a goodbye, is held until the registry's sink has taken that, for 2
// seconds at most; then the device is told that the server is busy, and may repeat the message.
// Other answers on the connection stay behind it. What the device sends meanwhile is heard at once.
// The answer to a heartbeat, or to the hello of a known device that was not judged, waits for
// nothing.
//
// # TLS and proxies
//
// A [Listener] may speak TLS 1.2 and 1.3 (crypto/tls). Each such connection has a goroutine and
// keeps some 17 KB resident while it is idle, and more if its client showed a certificate; one
// without TLS keeps 0.75 KB. They are a source of their own, named after [Config.Name] with -tls behind it; its
// clock asks the kernel what lies unread in their sockets. Handshakes are computed a few at a time,
// in the order in which they came, so that a fleet that comes back does not disturb the devices
// that are connected. As long as the gateway keeps a handshake waiting, the clock is behind, up to
// 2 minutes. Sessions can be resumed. A verified client certificate proves the device's id: the
// device needs no token, and can use no other id.
//
// TLS with pre-shared keys (TLS-PSK, RFC 4279 and RFC 8446, 2.2) is not supported, as crypto/tls
// does not have it. Devices that can do nothing else need a proxy in front that does.
//
// A proxy that terminates TLS, such as HAProxy, names the client and the name on its certificate in
// a PROXY header (send-proxy-v2-ssl-cn). Only the networks of Listener.Proxies are trusted; a
// connection from there must begin with a header.
//
// # Bounds
//
// Connections and devices over UDP, connections that have not said hello, those of one address,
// accepts per second, messages and bytes per second of a connection or a device over UDP, the length
// of a message, unsent bytes of a connection, the time to say hello, and the rate of closing are
// bounded, see [Config] and [Listener]. A client that is refused is told why, and counted in [Stats].
package gateway
