// Package httpapi serves what a liveness registry knows over HTTP: the state of each device with all that it follows from, the events
// as CloudEvents 1.0 (page by page, or as a stream of server-sent events), health checks, and metrics for Prometheus.
//
// It only reads. It is not an authority: it knows no users and asks for no token, so whoever can reach the listener can read all of
// it. The API is described by itself, as OpenAPI 3.1, at /openapi.json, and for people at /docs; neither needs the internet. Errors
// are problem details as of RFC 9457.
//
// # Concurrency and cost
//
// All methods may be called concurrently. A request holds no lock of the registry or the log while it writes, so a slow client holds
// up nobody: its writes have a deadline, and a stream that misses it is ended. Lists come in pages of bounded work.
package httpapi
