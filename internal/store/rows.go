package store

import (
	"context"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// stateRow is a row to write into device_states.
type stateRow struct {
	record *keep.Record
	source int64  // number of its name
	quota  int64  // the same, 0 without one
	head   uint64 // offset of the device's latest event
	known  bool   // the device has a row
}

const stateInts = 16

// stateTable returns the columns of device_states.
func stateTable() *sqldb.Table {
	return &sqldb.Table{
		Name:  "device_states",
		Ints:  []string{"num", "state", "reason", "source", "heard", "until_at", "since", "seq", "epoch", "flags", "head", "quota", "learned", "started", "seen", "judged_by"},
		Texts: []string{"announced", "own"},
		Blobs: []string{"changes"},
		Key:   "num",
	}
}

func (r *stateRow) ints() [stateInts]int64 {
	rec := r.record
	return [stateInts]int64{
		int64(rec.Num), stateCode(rec.State), reasonCode(rec.Reason), r.source, int64(rec.Last), int64(rec.Until),
		sqldb.Nanos(rec.Since), int64(rec.Seq), int64(rec.Epoch),
		flag(rec.Flapping, deviceFlapping) | flag(rec.Maintenance, deviceMaintenance) | flag(rec.Window, deviceWindow) |
			flag(rec.Unverified, deviceUnverified), int64(r.head), r.quota, int64(rec.Learned), sqldb.Nanos(rec.Started), sqldb.Nanos(rec.Seen),
		int64(rec.JudgedBy),
	}
}

// eventRow is a row to write into events.
type eventRow struct {
	event                 *liveness.Event
	pos, prev             uint64
	source, group, policy int64 // numbers of names, like node
	node                  int64
}

const (
	eventInts   = 18
	rareColumns = "deaf, members, silent, silent_before, exit_status, duration"
)

// eventTable returns the columns of events that every event has.
func eventTable() *sqldb.Table {
	return &sqldb.Table{
		Name: "events",
		Ints: []string{
			"pos", "prev", "at", "type", "reason", "seq", "epoch", "source", "grp", "policy", "last_seen", "deadline", "silence", "timeout", "flags",
			"term", "node", "offline_for",
		},
		Texts: []string{"subject", "message"},
	}
}

func (r *eventRow) ints() [eventInts]int64 {
	ev := r.event
	return [eventInts]int64{
		int64(r.pos), int64(r.prev), sqldb.Nanos(ev.Time), typeCode(ev.Type), reasonCode(ev.Reason), int64(ev.Seq), int64(ev.Epoch),
		r.source, r.group, r.policy, sqldb.Nanos(ev.LastSeen), sqldb.Nanos(ev.Deadline), int64(ev.HeardSilence), int64(ev.Timeout),
		flag(ev.Flapping, eventFlapping) | flag(ev.Outage, eventOutage) | flag(ev.Maintenance, eventMaintenance),
		ev.Term, r.node, int64(ev.OfflineFor),
	}
}

// putDevices writes the rows of devices: one in devices for each of those that have none yet, and one
// in device_states for all.
func putDevices(ctx context.Context, tx sqldb.Tx, fresh, all []stateRow) error {
	devices := &sqldb.Table{Name: "devices", Ints: []string{"num"}, Texts: []string{"id"}}
	err := tx.Insert(ctx, devices, len(fresh), func(args []any, i int) []any {
		return append(args, int64(fresh[i].record.Num), fresh[i].record.ID)
	})
	if err != nil {
		return err
	}
	return tx.Insert(ctx, stateTable(), len(all), func(args []any, i int) []any {
		ints, rec := all[i].ints(), all[i].record
		return append(appendInts(args, ints[:]), policyText(rec.Announced), policyText(rec.Own), packChanges(rec.Changes))
	})
}

// appendInts appends numbers as arguments of a statement.
func appendInts(args []any, ints []int64) []any {
	for _, v := range ints {
		args = append(args, v)
	}
	return args
}
