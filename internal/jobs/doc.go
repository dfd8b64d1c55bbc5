// Package jobs keeps durable queues of jobs in a database: what is to be delivered, where, and in
// which order. It delivers nothing itself; package delivery does.
//
// A job is in a [Lane]: a queue and an endpoint. A [Route] says which events become jobs of which
// lane; those jobs are written in the transaction that writes the events ([Store.Insert]), and others
// are made by [Store.Enqueue]. A job is claimed for the time of a lease ([Store.Claim]) and then
// acked with its [Outcome] ([Store.Ack]). If nobody acks it, it can be claimed again.
//
// A job that is enqueued may have a name. Claims take new jobs of each name in turn. A [JobRoute] says
// where jobs with a name go whose senders leave that open, and [Store.Move] moves those that wait.
//
// Jobs of a lane with the same ordering key are given out in the order of their numbers: a job that
// waits for a retry blocks those after it that have its key, and no others. The order also holds
// when a route, or jobs, move to another lane. A job that cannot be delivered becomes a dead letter, which can
// be replayed.
//
// All methods may be called concurrently. Each writes in transactions of bounded size, which pass the
// fence of package sqldb: a process that was overtaken by another one changes nothing.
package jobs
