// Package fleet plays a fleet of devices over real TCP connections against a
// gateway that speaks Holter's line protocol, and judges what the gateway says
// of them.
//
// It has two halves. A [Fleet] connects, sends heartbeats and misbehaves on
// order, and keeps the truth of each device: when its last heartbeat left, what
// was done to it and when. [Score] is a pure function that holds the gateway's
// events (read with [Events]) against that truth and lists every fault.
//
// # The truth
//
// A heartbeat's instant is read just before the system call that hands its last
// byte to the kernel, so a gateway on the same machine cannot have received it
// earlier, and an offline event before that instant plus the timeout is false
// beyond doubt. A connection counts only from the gateway's OK: the kernel also
// completes handshakes for an acceptor that has stalled. Each instant is a
// [time.Time] of [time.Now], with the wall clock and the monotonic one.
//
// # What it is not
//
// It is a test client and no load generator: one goroutine, one epoll instance,
// one interval for all devices, no TLS, no IPv6, and re-dialling by itself only
// if asked for ([Config].RetryMax). It ignores a gateway's order to change the pace (TTL).
//
// # Concurrency and cost
//
// All sockets are served by the goroutine inside Connect or Run; the other
// methods may be called from any goroutine. A device costs about 600 bytes in
// user space, and one descriptor. The Fleet needs Linux; Score and Events do
// not.
package fleet
