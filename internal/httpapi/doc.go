// Package httpapi serves a liveness registry over HTTP: the state of each device and what it is
// derived from, the events as CloudEvents 1.0 (page by page, or as a stream of server-sent events),
// health checks, metrics for Prometheus, and profiles. It receives heartbeats, one by one or in
// batches, as a source of its own, and an operator's changes: policies, maintenance, and the
// deletion of devices.
//
// A change is answered once the registry's sink has stored it, and with 503 if that takes longer
// than 3 s. A heartbeat that changes nothing does not wait, and no heartbeat holds up the listening
// clock while it waits.
//
// It stores nothing: events come from [Events], tokens from [Auth]. Without an Auth all requests
// that reach the listener are allowed. The API is described as OpenAPI 3.1 at /openapi.json, and
// for people at /docs; neither needs the internet. Errors are problem details as of RFC 9457.
//
// # Heartbeats
//
// A heartbeat that reached the process before a device's deadline keeps it online, however late it is handled. The listening clock sees
// to that as far as net/http lets it: it does not pass an instant before the kernel said that all connections of then are accepted and all
// that lay in sockets is read, a byte in a pipe showed that what was read had its turn, and all requests under way have ended. Between
// the reading of a request and its handler lies a stretch that net/http does not show; for it the clock stays 50 ms behind, and beyond that
// the promise is as good as the poller and the scheduler of Go are fair. Behind [API.Handler], in a server that is not [API.Serve]'s, that
// goes for unread sockets, too. The clock stands still while the process starts, while connections wait for a place, and while tokens
// cannot be checked.
//
// # Concurrency and cost
//
// All methods may be called concurrently. A request holds no lock of the registry or the log while it writes, so a slow client holds
// up nobody: its writes have a deadline, and a stream that misses it is ended. Lists come in pages of bounded work, bodies, headers and
// connections are bounded, and a client that sends the body of a heartbeat slowly holds the listening clock up for 5 s at most.
package httpapi
