package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
)

const (
	// historyDevices is how many devices one query follows.
	historyDevices = 250
	// historyRows bounds the events that one query returns, and with that the memory that Histories takes.
	historyRows = 50_000
)

// Histories calls take for the latest events of some devices, each device's by Seq from the latest back, until take
// returns false for it, or the device has no earlier event that is kept. device is an index of ids. Of
// an event, which take must not keep, only Offset, Type, Reason, Time, Source and Maintenance are set.
//
// The event that told the state of a device at an instant is the last one that take may want: what lies
// before the latest online, late, sleeping, offline or forgotten event from before that instant may be
// left out. Devices that are unknown have no events. The cost is one look-up for each event, whatever
// else the log has. take must not use the store, nor block.
func (s *Store) Histories(ctx context.Context, ids []string, from time.Time, take func(device int, e *liveness.Event) (more bool)) error {
	names := s.names.all()
	for begin := 0; begin < len(ids); begin += historyDevices {
		some := ids[begin:min(begin+historyDevices, len(ids))]
		heads, err := s.headsOf(ctx, some)
		if err != nil {
			return err
		}
		w := walker{store: s, from: sqldb.Nanos(from), names: names, devices: heads, take: func(device int, e *liveness.Event) bool { return take(begin+device, e) }}
		for len(w.devices) > 0 {
			if err := w.step(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// headsOf returns which device's latest event is at which offset.
func (s *Store) headsOf(ctx context.Context, ids []string) (devices map[int64]int, err error) {
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	err = s.db.Read(ctx, "read the latest events of devices", func(ctx context.Context, q *bun.DB) error {
		devices = make(map[int64]int, len(ids))
		found := make(map[string]bool, len(ids))
		for _, query := range []string{
			"SELECT d.id, s.head FROM devices d JOIN device_states s ON s.num = d.num WHERE d.id IN (?)",
			"SELECT id, head FROM forgotten WHERE id IN (?)",
		} {
			err := sqldb.Each(ctx, q, func(rows *sql.Rows) error {
				var id string
				var head int64
				if err := rows.Scan(&id, &head); err != nil {
					return err
				}
				if i, ok := at[id]; ok && head > 0 && !found[id] {
					devices[head], found[id] = i, true
				}
				return nil
			}, query, bun.List(ids))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return devices, err
}

// walker follows the events of some devices back.
type walker struct {
	store   *Store
	from    int64 // the instant whose state is the last that matters
	names   map[int64]string
	devices map[int64]int // by the offset of the event to go on with
	take    func(device int, e *liveness.Event) (more bool)
	rows    []walked
}

// walked is an event as a query returns it.
type walked struct{ head, pos, prev, at, kind, reason, source, flags int64 }

// tellState are the types of events that tell a state, as numbers of the database.
func tellState() []int64 {
	return []int64{
		typeCode(liveness.DeviceOnline), typeCode(liveness.DeviceLate), typeCode(liveness.DeviceOffline),
		typeCode(liveness.DeviceSleeping), typeCode(liveness.DeviceForgotten),
	}
}

const walkBack = `WITH RECURSIVE chain (head, depth, pos, prev, at, type, reason, source, flags) AS (
	SELECT pos, 1, pos, prev, at, type, reason, source, flags FROM events WHERE pos IN (?)
	UNION ALL
	SELECT c.head, c.depth + 1, e.pos, e.prev, e.at, e.type, e.reason, e.source, e.flags FROM chain c JOIN events e ON e.pos = c.prev
	WHERE c.depth < ? AND NOT (c.at < ? AND c.type IN (?))
) SELECT head, pos, prev, at, type, reason, source, flags FROM chain`

// step reads the next events of each device, and hands them on.
func (w *walker) step(ctx context.Context) error {
	heads := make([]int64, 0, len(w.devices))
	for head := range w.devices {
		heads = append(heads, head)
	}
	depth := min(step, historyRows/len(heads))
	err := w.store.db.Read(ctx, "read the events of devices", func(ctx context.Context, q *bun.DB) error {
		w.rows = w.rows[:0]
		var r walked
		dest := []any{&r.head, &r.pos, &r.prev, &r.at, &r.kind, &r.reason, &r.source, &r.flags}
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			err := rows.Scan(dest...)
			w.rows = append(w.rows, r)
			return err
		}, walkBack, bun.List(heads), depth, w.from, bun.List(tellState()))
	})
	if err != nil {
		return err
	}
	return w.hand(depth)
}

// hand hands on what step has read, and finds which devices go on.
func (w *walker) hand(depth int) error {
	slices.SortFunc(w.rows, func(a, b walked) int {
		if a.head != b.head {
			return int(a.head - b.head)
		}
		return int(b.pos - a.pos)
	})
	next := make(map[int64]int)
	tell := tellState()
	for begin := 0; begin < len(w.rows); {
		device, more, n := w.devices[w.rows[begin].head], true, 0
		at := begin
		for ; at < len(w.rows) && w.rows[at].head == w.rows[begin].head; at++ {
			n++
			if !more {
				continue
			}
			e, err := w.event(&w.rows[at])
			if err != nil {
				return err
			}
			more = w.take(device, &e)
		}
		if last := &w.rows[at-1]; more && n == depth && last.prev > 0 && !(last.at < w.from && slices.Contains(tell, last.kind)) {
			next[last.prev] = device
		}
		begin = at
	}
	w.devices = next
	return nil
}

func (w *walker) event(r *walked) (liveness.Event, error) {
	t, ok := w.store.decoder.types[r.kind]
	if !ok {
		return liveness.Event{}, fmt.Errorf("event %d is of type %d, which is not known", r.pos, r.kind)
	}
	return liveness.Event{
		Offset: uint64(r.pos), Type: t, Reason: w.store.decoder.reasons[r.reason], Time: sqldb.Time(r.at),
		Source: w.names[r.source], Maintenance: r.flags&eventMaintenance != 0,
	}, nil
}
