// Package cron runs the schedules that are kept in a store: webhooks, commands, reports, and maintenance windows.
//
// All that matters is in the database. A run is a row that goes from idle to claimed, to running, to done or failed; each step is an update
// under the condition that nobody has claimed the run since, and a process that died between two steps leaves a lease that ends. The sweep
// then makes the run idle again, so that it is begun once more with the same id, or notes it as lost if it must not be begun twice. Time is
// that of the database's clock.
//
// All methods of [Engine] may be called concurrently. An engine with nothing to do asks the database a few times a minute.
package cron
