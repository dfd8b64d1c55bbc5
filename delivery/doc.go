// Package delivery takes what happened to those who have to know: a durable queue of jobs, and webhooks and other sinks that they are
// delivered to.
//
// Events become jobs in the transaction that stores them ([Engine.Route] is the store's outbox), and anyone may enqueue a job of his own
// ([Engine.Enqueue]). A [Route] says which events go to which queue and endpoint; a queue says how many deliveries go on at a time and how a
// failed one is tried again; an endpoint is a place to deliver to. All three are in the database and may be changed at any time.
//
// A job is delivered at least once, under the same id each time, and more than once only after a crash or when an answer was lost. Jobs
// of one endpoint with the same ordering key (of an event: its subject) are delivered in their order: one that has to be tried again
// holds up those behind it, and no others. A job that cannot be delivered becomes a dead letter, with the last error and answer, and
// can be replayed.
//
// # What happens when a delivery fails
//
// The job waits for a random time up to a bound that doubles with each attempt (full jitter), at least as long as a Retry-After says, and is
// tried again until it has been tried so often, or is so old, as the queue allows. Where one endpoint fails again and again, a circuit breaker
// leaves its jobs in the database untouched, but for one now and then. An endpoint that answers 410 Gone is disabled: its jobs wait for
// somebody to enable it, and events make no new ones. An answer 400, 413 or 422 says that this very message will never be
// taken: the job is a dead letter at once.
//
// # Concurrency and cost
//
// All methods may be called concurrently. Nothing here holds up those who append events, but for the time of a transaction: what is in
// memory is bounded (some thousand jobs per queue), the rest is in the database. One process at a time works on a database, see package store.
package delivery
