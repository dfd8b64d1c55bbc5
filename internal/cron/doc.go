// Package cron runs the schedules of a database: webhooks, commands, reports and maintenance windows.
//
// All state is in the database. A run is a row that goes from idle to claimed, to running, to done or
// failed. Each step is an update that applies only while the claim of the run is unchanged. When a
// process dies between two steps, the lease of its run ends. Another process then makes the run idle,
// so that it starts again with the same id, or lost if it must not start twice. The time is that of the
// database's clock.
//
// All methods of [Engine] may be called concurrently. An idle engine queries the database a few times
// a minute.
package cron
