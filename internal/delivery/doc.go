// Package delivery delivers the jobs of package jobs: to webhooks and to other sinks, each of which
// has a package below this one.
//
// A job is delivered at least once, with the same message id each time, and more than once only after
// a crash or if a response was lost. Jobs of one endpoint with the same ordering key (for an event:
// its subject) are delivered in their order: one that waits for a retry blocks those after it that
// have its key, and no others.
//
// # Failed deliveries
//
// The job waits for a random time, up to a limit that doubles with each attempt (full jitter), and at
// least as long as a Retry-After says. It is retried until its queue allows no more attempts, or it is
// too old; then it becomes a dead letter, with the last error and response, and can be replayed. If an
// endpoint fails several times in a row, over a second at least, a circuit breaker keeps its jobs in the
// database, except for one now and then. An endpoint that responds 410 Gone is disabled: its jobs wait until it is enabled,
// and events make no new ones. A response 400, 413 or 422 means that this message will never be
// accepted: the job becomes a dead letter at once.
//
// # Concurrency and cost
//
// All methods may be called concurrently. Some thousand jobs of each queue are in memory; the others
// are in the database.
package delivery
