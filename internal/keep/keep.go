// Package keep has what is kept of a registry of package liveness, so that another process can go on from there:
// records in a database, and memory that outlives the process.
package keep

import "github.com/holter-iot/holter/liveness/judgement"

// Registry is a registry as a store needs it, see liveness.Registry.Keeper.
type Registry interface {
	// UseMemory makes the registry write its listening clocks, and when each device was heard last, to
	// memory that outlives the process. Call it before sources listen and before devices are restored.
	// A heartbeat costs no more than without: its one atomic update is in that memory.
	UseMemory(m Memory)
	// RestoreSource restores a source: its clock goes on where it was, and all that passed since At was
	// deaf. The source may have been added or not; if it never is, it stays deaf, and the devices that
	// it heard are unknown until it is retired. Call it before the source's first pulse and before the
	// devices are restored. Errors: a bad record, a source that listens.
	RestoreSource(rec SourceRecord) error
	// RestoreGroup restores a group. One that is not configured matters once it is, see
	// liveness.Registry.Reconfigure. Call it before the devices are restored.
	RestoreGroup(rec GroupRecord)
	// RestoreForgotten restores the number of a forgotten device's last event: if the device comes
	// back, its events' numbers go on from there. For devices whose numbers are not kept one by one,
	// pass the greatest of them with an empty id: new devices go on from that. Call it before the
	// devices are restored.
	RestoreForgotten(id string, seq uint64)
	// RestoreShape restores what was learned of a group; it ignores one that is not configured. Call it before the
	// registry runs. Errors: data is damaged.
	RestoreShape(group string, data []byte) error
	// Restore restores a device. One that is not offline is unknown until it is heard or judged, for
	// which it has the reconnect grace. The source must have been restored and not
	// listen yet; groups report no outage before the first source listens. Restore may be called
	// concurrently. Errors: an invalid record, an id or a number that is taken, liveness.ErrFull.
	Restore(rec Record) error
	// Snapshot returns the listening clocks, and then the last heartbeats, by device number; those of
	// devices that are not waited for are 0. None is later than its source's clock: who restores them goes
	// on from there, and would take a later one for a heartbeat that came after what the device says then.
	// It uses the memory of into if it suffices. It costs a cache line or two per device, and holds no lock
	// for long; heartbeats go on.
	//
	// After RecordGaps, into must be what Snapshot returned the last time: the gaps between the
	// heartbeats are learned.
	Snapshot(into []Heard) (sources []SourceRecord, heard []Heard)
	// RecordGaps makes the registry learn how devices beat, and keep their gaps for TakeGaps,
	// which must be called again and again from then on, after each Snapshot.
	RecordGaps()
	// TakeGaps returns the gaps that ended since it was called last, and what put verdicts off since. Those of
	// a device are in order. dropped is how many gaps were lost since the process began because nobody took
	// them.
	TakeGaps() (gaps []judgement.Gap, breaks []judgement.Break, dropped uint64)
	// Habits calls do with the number and the id of each device, and what was learned of it, which
	// Restore takes. do is called with a lock held: it must return at once, keep no id, and not ask
	// the registry.
	Habits(do func(num uint32, id string, learned uint64))
	// Shapes returns what was learned of the groups, by name, for RestoreShape; of the devices of no
	// group by the empty name.
	Shapes() map[string][]byte
}
