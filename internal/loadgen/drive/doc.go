// Package drive plays the devices of a fleet, or of a part of it: it connects them, sends their
// heartbeats, carries out the fate of each, and records what it did as ground truth.
//
// # The truth
//
// An instant is read just before the system call that does it, so a gateway on the same machine
// cannot have seen it earlier. A connection counts only from the gateway's welcome, because the
// kernel completes handshakes for an acceptor that has stalled, too; its first sign of life is then
// the greeting that was welcomed. A [plan.Truth] is reported as soon as it is done, and reported
// again, with the same device and At, when the device is back.
//
// A heartbeat that is not answered in time is counted, and its device goes on: it is alive,
// whatever the gateway does. A heartbeat that the kernel does not take, because the gateway reads
// nothing, is counted and not sent; that is reported as a Lost with the cause "socket full", since
// the gateway cannot hear the device until a heartbeat succeeds.
//
// # The open model
//
// Each heartbeat has a planned instant that follows from the plan's seed, the device and the
// heartbeat's number, on a grid of [Config].Tick; no answer, and no delay of this process, moves
// it. Histograms: Lateness is sent - planned, the generator's own fault; RTT counts from the
// sending and RTTPlanned from the planned instant, so that a stall of generator or gateway shows in
// all heartbeats that it held up. A heartbeat that was sent while an earlier one was unanswered
// counts from the planned instant in both. With [Config].Closed there is no plan: a device sends when
// it is answered, and RTTPlanned is RTT.
//
// # What the acts do
//
// Close, Bye and Move shut the sending side down and read until the gateway ends its side, for at
// most 5 s, so that unread input never turns FIN into RST. Reconnect closes with RST, which leaves
// no TIME_WAIT behind: a storm would run out of ports. A crashed device keeps its socket and
// neither reads nor writes; the kernel still acknowledges what arrives, as it would not if the
// power had gone. A device that is not connected cannot stall and cannot be duplicated; that is
// counted.
//
// # Concurrency and cost
//
// One goroutine, inside Run, serves all sockets through one edge-triggered epoll instance; all
// other methods may be called from any goroutine. A device costs 56 bytes and a place in a table of
// descriptors, 4 bytes; buffers exist only for what is incomplete. Linux only.
package drive
