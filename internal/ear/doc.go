// Package ear keeps the listening clock of an input that has a goroutine for each connection, as net/http's servers do.
//
// The clock passes an instant once what had reached the process before it was handled. Such a server does not say how far it is, so at
// a pulse an [Ear] asks the kernel: connections that wait to be accepted must have been, and sockets that hold something must have been
// read from. Then, for what is between a socket and its handler, a byte that is put into a pipe must come out at a goroutine that reads
// it through the poller of the runtime, as connections are read, twice; and all that was being handled then ([Ear.Enter]) must have ended.
// Last, the clock stays 50 ms behind what was shown by that: between the reading of a heartbeat and its handling lies a stretch which is
// covered only as far as the poller and the scheduler are fair, and no further. Where the kernel cannot be asked (not on Unix, and for
// connections that the ear does not know), the same goes for what lies unread in sockets.
//
// No moment is needed in which nothing waits: of those who wait to be accepted, only as many must have been as waited at the pulse. So the
// clock of an input that is overloaded is behind by its backlog, and goes on as that is worked off. With [Sockets.Limit], idle connections
// make room for those who wait.
//
// A client cannot hold the clock up for more than 5 s by leaving something unread, nor for more than 30 s by keeping others from being
// accepted. What is entered holds it up until it is left.
//
// Asking costs some 0.1 µs for each connection. However many there are, it takes an eighth of a core at most: then pulses are further apart.
package ear
