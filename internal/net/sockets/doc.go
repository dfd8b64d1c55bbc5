// Package sockets tracks the listeners and the connections of a server, asks the kernel what waits
// at them, and keeps the listening clock of a server that has a goroutine for each connection.
//
// # Clock
//
// The listening clock passes an instant once all that had reached the process before it has been
// handled. A server such as that of net/http does not say how far it is, so a [Clock] finds it out:
//
//  1. Connections that wait to be accepted at a pulse must have been admitted ([Barrier]).
//  2. Sockets that hold something must have been read from.
//  3. A byte that is put into a pipe must come out at a goroutine that reads it through the poller
//     of the runtime, as connections are read, twice. That covers what is between a socket and its
//     handler.
//  4. All that was being handled then ([Clock.Enter]) must have ended.
//
// The clock stays 50 ms behind what was shown by that: between the reading of a heartbeat and
// [Clock.Enter] lies a stretch which is covered only as far as the poller and the scheduler are
// fair. Where the kernel cannot be asked (not on Unix, and for connections that are not tracked),
// the same goes for what lies unread in sockets.
//
// No moment is needed in which nothing waits. The clock of a server that is overloaded is behind by
// its backlog, and goes on as that is worked off. With [Set.Limit], idle connections, and those of
// strangers, make room for those that wait.
//
// A client cannot hold the clock up for more than 5 s by leaving something unread, nor for more
// than 30 s by keeping others from being accepted. What is entered holds it up until it is left.
//
// Asking costs some 0.1 µs for each connection. However many there are, it takes an eighth of a
// core at most: then pulses are further apart.
package sockets
