// Package store keeps what must not be lost of a fleet, in SQLite, PostgreSQL or MariaDB (MySQL): the devices, what happened to them,
// the clocks of their sources, and the tokens of those who may ask.
//
// A [Store] is the sink of a liveness.Registry. [Store.Append] puts a batch of events and the states that they report into one
// transaction, and gives each event an offset, without gaps; only then does anyone get to read them. So what was read is kept.
// Heartbeats are not written one by one: a checkpoint every few seconds ([Store.Run]) holds the last of each device, packed, beside the
// listening clocks. What was heard since is in memory that outlives the process ([Config].Memory); its key is committed with the
// checkpoints, so that no other life's is taken for it. After a restart [Store.Load] gives a registry all of it back.
//
// Exactly one Store writes to a database. A lock keeps a second one out; should the lock fail, each transaction checks a fence number
// which the next Store raises, so that a writer that was overtaken can change nothing, even if it has not noticed yet ([sqldb.ErrFenced]).
//
// A database in a file is watched ([ErrFile]): what goes into a file that is not at its path any more does not count as written, and a file
// that is gone is written anew from what is still open. One that is missing at the start is missed ([ErrLost]), and a row of a device that
// cannot be read is set aside ([Loaded]).
//
// A database that fails does no harm but delay: what could not be appended is offered again, an append whose answer was lost is
// recognised, and connections are made anew. [Store.Health] says what is wrong and since when.
//
// # Concurrency and cost
//
// All methods may be called concurrently; writers take turns. In memory a store holds 8 bytes per device number, the latest events, and
// 8 bytes per device for the checkpoint. What is read beside the latest events comes from the database, over connections of its own.
package store
