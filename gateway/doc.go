// Package gateway lets devices in over TCP and turns what they say into heartbeats.
//
// Event loops (gnet) read and write; an idle connection costs no goroutine and no buffer. A heartbeat goes from the socket through the
// line protocol to [liveness.Session.Beat] and no further. Accepting is the gateway's own: when descriptors run out it turns new
// connections away and keeps those it has.
//
// # Listening
//
// The gateway is a source of the registry, and tells it how far it has listened. Every few milliseconds it sends a probe, a few bytes over
// a socket pair, into each event loop. The kernel hands ready sockets out in the order in which they became ready (epoll_wait(2)), so
// when a loop reads the probe, it has read all that was there when the probe was sent. If the loops are swamped, the probes wait in
// line with the heartbeats, the listening clock waits for the probes, and no verdict overtakes unread input. If the process is stopped,
// no probe is sent, and that time does not count.
//
// Datagrams (UDP) are a source of their own. Its clock goes on as each socket's reader has found it empty, or has read as many datagrams as
// it can hold, since. When the kernel has dropped some because a socket was full, it is deaf, until that has not happened for a second:
// who was not heard since has time to be.
//
// # Bounds
//
// Connections, connections of one address, accepts per second, the length of a line, unsent bytes of a connection, the time to say
// hello, and the rate of closing are bounded, see [Config]. What is refused is told why, and counted in [Stats].
package gateway
