// Package link keeps sessions at a judge in another process.
//
// An [Ear] is the side of a process that holds connections of devices and speaks their protocols; a
// [Judge] is the side of the process that has the [liveness.Registry]. They speak over one gRPC
// stream, over TLS or a Unix socket; internal/cluster/link/linkpb/link.proto describes the frames.
//
// A heartbeat costs the ear one atomic store; only the latest of each session travels, with the
// answer to the next round. Everything travels with its age, which the judge takes off its own clock
// when it arrives: no clocks have to agree, and what is stamped is late by the transit, never early.
//
// Every 100 ms the judge begins a round. The ear answers behind all that had reached it by then, and
// its listening clock at the judge moves to the instant at which the round began. So no verdict
// overtakes a heartbeat that an ear has.
//
// A device without a connection, over UDP, has a session, too, see [Ear.OpenDatagrams], at another source
// of the ear, which has rounds of its own: so the ear can tell with a mark that datagrams were lost, and
// that source alone is deaf. What the device says may reach any ear. Then its session moves without an
// event, and what the ear before had heard counts, whenever it is told. When an ear is lost, datagrams are,
// or a judge is, the devices of all such sources have their grace: a heartbeat may be gone of which no
// session tells.
//
// What an ear hears while there is no judge to open a session it notes, up to 65,536 times for each
// source, and tells with the next mark; what is more is lost, and the source is deaf for a moment.
//
// Messages to devices go the other way, see [Judge.Send]; they hold up nothing else.
//
// A link that breaks costs no session: the ear keeps them, joins again, and resumes them; the judge
// waits for it, with all verdicts, for up to 3 s. When a judge dies, the next is told how long ago
// each device was heard. An ear that hears nothing of a judge for 2.7 s, or for 9 s if a standby answers
// or the process of a node is gone, lets go of all its connections, but not while the next judge reads
// its state; the judge gives its devices to the others after 3 s.
//
// An ear that ends in order releases its sessions, and leaves: nothing is lost, so nobody is waited
// for, and each device has its grace to connect elsewhere from when its own session was released.
package link
