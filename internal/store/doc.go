// Package store keeps a fleet in a database (package sqldb): the devices, their events, and the
// listening clocks of their sources.
//
// A [Store] is the sink of a liveness.Registry. [Store.Append] writes a batch of events and the
// states that they report in one transaction, and gives each event an offset, without gaps; only
// then can the events be read. So every event that was read is kept.
//
// Heartbeats are not written one by one. A checkpoint every few seconds ([Store.Run]) holds the
// latest heartbeat of each device, packed, and the listening clocks. Heartbeats since then are in
// memory that outlives the process ([Config].Memory); its key is committed with the checkpoints, so
// that the memory of another process is not taken for it. After a restart [Store.Load] gives all of
// it back to a registry.
//
// A failure of the database only delays: a batch that could not be appended is offered again, and an
// append whose answer was lost is recognised. [Store.Health] reports what is wrong and since when. A
// row of a device that cannot be read is set aside ([Loaded]).
//
// # Concurrency and cost
//
// All methods may be called concurrently; writers take turns. In memory a store holds 8 bytes per
// device number, the latest events, and 8 bytes per device for the checkpoint. Older events are read
// from the database, over connections of their own.
package store
