package store

import (
	"database/sql"
	"database/sql/driver"

	"github.com/holter-iot/holter/liveness"
)

// stateRow is a row of device_states to be.
type stateRow struct {
	record *liveness.Record
	source int64  // its name
	head   uint64 // offset of the device's latest event
	known  bool   // the device has a row
}

// The columns of device_states: numbers first, then texts, then bytes.
const (
	stateInts    = 11
	stateColumns = "num, state, reason, source, heard, until_at, since, seq, epoch, flags, head, announced, own, changes"
)

func (r *stateRow) ints() [stateInts]int64 {
	rec := r.record
	return [stateInts]int64{
		int64(rec.Num), stateCode(rec.State), reasonCode(rec.Reason), r.source, int64(rec.Last), int64(rec.Until),
		nanos(rec.Since), int64(rec.Seq), int64(rec.Epoch),
		flag(rec.Flapping, deviceFlapping) | flag(rec.Maintenance, deviceMaintenance) | flag(rec.Window, deviceWindow), int64(r.head),
	}
}

// eventRow is a row of events to be.
type eventRow struct {
	event                 *liveness.Event
	pos, prev             uint64
	source, group, policy int64 // names
}

// The columns of events that every event has: numbers first, then texts.
const (
	eventInts    = 15
	eventColumns = "pos, prev, at, type, reason, seq, epoch, source, grp, policy, last_seen, deadline, silence, timeout, flags, subject, message"
	rareColumns  = "deaf, members, silent, silent_before"
)

func (r *eventRow) ints() [eventInts]int64 {
	ev := r.event
	return [eventInts]int64{
		int64(r.pos), int64(r.prev), nanos(ev.Time), typeCode(ev.Type), reasonCode(ev.Reason), int64(ev.Seq), int64(ev.Epoch),
		r.source, r.group, r.policy, nanos(ev.LastSeen), nanos(ev.Deadline), int64(ev.HeardSilence), int64(ev.Timeout),
		flag(ev.Flapping, eventFlapping) | flag(ev.Outage, eventOutage) | flag(ev.Maintenance, eventMaintenance),
	}
}

// rare says whether the event is of a source or a group, and has more columns than those of a device.
func rare(t liveness.Type) bool {
	switch t {
	case liveness.SourceDeaf, liveness.SourceHeard, liveness.GroupOutageStarted, liveness.GroupOutageEnded:
		return true
	default:
		return false
	}
}

// appendInts appends numbers as arguments of a statement.
func appendInts(args []any, ints []int64) []any {
	for _, v := range ints {
		args = append(args, v)
	}
	return args
}

// discard gives up a connection for good.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // what it returns says that it was given up
}
