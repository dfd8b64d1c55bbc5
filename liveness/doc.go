// Package liveness says of each device of a fleet whether it is alive, from its heartbeats.
//
// A [Registry] holds the devices. Heartbeats come from a [Source]: a TCP gateway, a bridge to a broker, an HTTP endpoint. Each
// source has a listening clock, which counts the time for which the source was listening and stands still while it is deaf. All
// deadlines are kept in listening time, so a device goes offline for silence only after a timeout of heard silence: a stopped
// process, a suspended machine or a backlog of unread input is not the device's silence.
//
// A device talks through a [Session]. A heartbeat on one, [Session.Beat], is a single atomic update of the device's timer: no lock,
// no allocation. Everything else (a greeting, a goodbye, the end of a connection, a deadline that passed) goes through the state
// machine, pure functions of what is known and what happened, and becomes an [Event]. Each device's events carry a sequence
// number without gaps, and the epoch of the session that they speak of; the end of a replaced session changes nothing.
// Events are appended to a [Sink] in batches; [Log] is one that keeps the latest in memory and lets readers follow.
//
// The package knows no socket, no database and no logger. Time reaches it through [Source.Pulse] and [Source.Watermark], and
// through the clock that stamps events.
//
// # Concurrency and cost
//
// All methods may be called concurrently, except those of one session, see there. A device takes some 150 bytes beside its id.
// Looking one up costs a hash and a few cache lines.
package liveness
