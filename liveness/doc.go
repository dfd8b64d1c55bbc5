// Package liveness decides for each device of a fleet whether it is alive, from its heartbeats.
//
// # A first program
//
// Make a [Sink], such as a log of package eventlog, and a [Registry] with a default [Policy]. Add a
// source; for heartbeats that the program makes itself, of its workers or jobs, [Registry.AddLocal]
// has all that is needed. Run [Registry.Run] in a goroutine until the program ends. Then
//
//	workers, err := registry.AddLocal("workers") // once
//	go registry.Run(ctx)                         // until the end
//	err = workers.Beat("worker-1")               // a heartbeat; a new id is a new device
//
// and the log has an event when a device comes, falls silent and comes back: see the first example.
// [Registry.Device] and [Registry.List] say how things stand. For devices behind sockets there is
// package gateway, for those behind an MQTT broker package mqttbridge; for a server of one's own,
// see [Source] and its example.
//
// # How it works
//
// A [Registry] holds the devices. Heartbeats come from a [Source]: a TCP gateway, a bridge to a
// broker, an HTTP endpoint. Each source has a listening clock, which counts the time for which the
// source was listening and stands still while it is deaf. All deadlines are kept in listening time,
// so a device goes offline for silence only after a timeout of heard silence: a stopped process, a
// suspended machine or a backlog of unread input is not the device's silence.
//
// A device that is connected has a [Session]. A heartbeat on one, [Session.Beat], is a single
// atomic update of the device's timer: no lock, no allocation. A device without a connection of its
// own, heard by HTTP or behind a broker, sends a [Signal] through [Source.Apply]. All but a
// session's heartbeats goes through the state machine of package judgement: pure functions of what is
// known and what happened.
//
// A change of state is an [Event]. Each device's events carry a sequence number without gaps, and
// the epoch of the session that they speak of; the end of a replaced session changes nothing. The
// registry appends events to a [Sink] in batches. Package eventlog has a sink that keeps the latest
// in memory.
//
// The server, holter serve, keeps a registry in a database: each event with the state of its device in
// one transaction, and the clocks and the latest heartbeats every few seconds. It goes on from there
// after a restart: the time between is deaf time, and each device has time to be heard before its
// silence, which still counts, is judged. A registry that a program embeds begins anew.
//
// The sink may fail or block for any time. Verdicts wait for it, heartbeats do not; see
// [Config.Outbox] and [ErrBusy].
//
// The package knows no socket, no database and no logger. Time reaches it through [Source.Pulse]
// and [Source.Watermark], which Run calls for local sources, and through one clock that stamps events.
//
// # Concurrency and cost
//
// All methods may be called concurrently, except those of one session, see there. A device takes
// some 150 bytes beside an id of more than 16. Looking one up costs a hash and a few cache lines.
package liveness
