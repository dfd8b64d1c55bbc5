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
// Events are appended to a [Sink] in batches; package eventlog has one that keeps the latest in memory and lets readers follow.
//
// What must outlive the process comes with the events: [Event.Record] is all that is to be kept of a device, as of that event, so a sink
// can commit both at once. The heartbeats since, and the clocks, are in a [Registry.Snapshot], to be taken every few seconds. A new
// registry goes on from there with [Registry.RestoreSource] and [Registry.Restore]: the time between is deaf time, and each device has
// time to be heard before its silence, which still counts, is judged. Package store does all this.
//
// The sink may fail or block for as long as it likes. Verdicts wait for it, heartbeats do not; see [Config.Outbox] and [ErrBusy].
//
// The package knows no socket, no database and no logger. Time reaches it through [Source.Pulse] and [Source.Watermark], and
// through the clock that stamps events.
//
// # Concurrency and cost
//
// All methods may be called concurrently, except those of one session, see there. A device takes some 150 bytes beside an id of more than 16.
// Looking one up costs a hash and a few cache lines.
package liveness
