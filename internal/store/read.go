package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Bounds returns the offsets of the oldest and the latest event that are kept. If none is kept, oldest
// is the offset that the next event will have.
func (s *Store) Bounds() (oldest, latest uint64) {
	latest = s.last.Load()
	return min(max(s.oldest.Load(), 1), latest+1), latest
}

// maxRead is the maximum number of events that one Read returns from the database.
const maxRead = 10_000

// Read appends at most limit events after an offset to buffer. It reads them from memory if it can, else
// from the database, and may then return fewer than there are. With offset 0 it begins with the oldest
// event that is kept. Errors: eventlog.ErrMissed if the events right after the offset are deleted, or if
// the offset is beyond the latest: it is then from another database, or from before a backup was
// restored. sqldb.ErrFenced if another process has given the offset, which has taken the database over.
func (s *Store) Read(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
	oldest, latest := s.Bounds()
	if after == 0 {
		after = oldest - 1
	}
	switch {
	case after > latest:
		return buffer, s.beyond(ctx, after, latest)
	case after+1 < oldest:
		return buffer, fmt.Errorf("%w: %d after offset %d, the oldest kept is %d", eventlog.ErrMissed, oldest-after-1, after, oldest)
	case after == latest || limit <= 0:
		return buffer, nil
	case after > 0: // the log would begin with its own oldest event
		got, err := s.log.Read(buffer, after, limit)
		if err == nil {
			return got, nil
		}
	}
	got, err := s.readRange(ctx, buffer, after, min(after+uint64(min(limit, maxRead)), latest))
	if err != nil {
		return buffer, err
	}
	if len(got) == len(buffer) || got[len(buffer)].Offset != after+1 { // pruned meanwhile
		return buffer, fmt.Errorf("%w: those after offset %d are no longer kept", eventlog.ErrMissed, after)
	}
	return got, nil
}

// beyond returns why there are no events after an offset beyond the latest that this process knows. The
// database tells whether somebody else has given it meanwhile: to a reader that comes from there, the log
// is not another one.
func (s *Store) beyond(ctx context.Context, after, latest uint64) error {
	var given uint64
	err := s.db.ReadRow(ctx, "read the latest offset", []any{&given}, "SELECT last_offset FROM meta WHERE id = 1")
	if err != nil {
		return err
	}
	if after <= given {
		return fmt.Errorf("%w: its latest offset is %d, that of this one %d", sqldb.ErrFenced, given, latest)
	}
	return fmt.Errorf("%w: offset %d lies beyond the latest, %d", eventlog.ErrMissed, after, latest)
}

// Wait is like Read, but waits until there is an event or ctx is done.
func (s *Store) Wait(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
	if limit <= 0 {
		return buffer, nil
	}
	for {
		if after == 0 {
			oldest, _ := s.Bounds()
			after = oldest - 1
		}
		got, err := s.Read(ctx, buffer, after, limit)
		if err != nil || len(got) > len(buffer) {
			return got, err
		}
		got, err = s.log.Wait(ctx, buffer, after, limit)
		if err == nil || !errors.Is(err, eventlog.ErrMissed) {
			return got, err
		}
		if err := ctx.Err(); err != nil {
			return buffer, context.Cause(ctx)
		}
	}
}

// readRange reads the events after one offset up to another.
func (s *Store) readRange(ctx context.Context, buffer []liveness.Event, after, to uint64) ([]liveness.Event, error) {
	return s.query(ctx, buffer, "pos > ? AND pos <= ?", after, to)
}

// query reads the events that a condition selects, by offset.
func (s *Store) query(ctx context.Context, buffer []liveness.Event, where string, args ...any) ([]liveness.Event, error) {
	kept := len(buffer)
	err := s.db.Read(ctx, "read events", func(ctx context.Context, q sqldb.Reader) error {
		buffer = buffer[:kept]
		scan := s.scanner(&buffer)
		return sqldb.Each(ctx, q, scan, "SELECT "+eventTable().Columns()+", "+rareColumns+" FROM events WHERE "+where+" ORDER BY pos", args...)
	})
	if err != nil {
		return buffer[:kept], err
	}
	return buffer, nil
}

// scanner returns a function that scans an event and appends it to buffer.
func (s *Store) scanner(buffer *[]liveness.Event) func(rows *sql.Rows) error {
	names := s.names.all()
	var ints [eventInts]int64
	var subject, message string
	var deaf, members, silent, before, status, took sql.NullInt64
	dest := make([]any, 0, eventInts+8)
	for i := range ints {
		dest = append(dest, &ints[i])
	}
	dest = append(dest, &subject, &message, &deaf, &members, &silent, &before, &status, &took)
	return func(rows *sql.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		t, ok := s.decoder.types[ints[3]]
		if !ok {
			return fmt.Errorf("event %d is of type %d, which is not known", ints[0], ints[3])
		}
		*buffer = append(*buffer, liveness.Event{
			Offset: uint64(ints[0]), Type: t, Reason: s.decoder.reasons[ints[4]], Subject: subject,
			Seq: uint64(ints[5]), Epoch: uint64(ints[6]), Time: sqldb.Time(ints[2]),
			Source: names[ints[7]], Group: names[ints[8]], Policy: names[ints[9]],
			LastSeen: sqldb.Time(ints[10]), Deadline: sqldb.Time(ints[11]),
			HeardSilence: time.Duration(ints[12]), Timeout: time.Duration(ints[13]), OfflineFor: time.Duration(ints[17]),
			Message: message, Flapping: ints[14]&eventFlapping != 0, Outage: ints[14]&eventOutage != 0,
			Maintenance: ints[14]&eventMaintenance != 0, Term: ints[15], Node: names[ints[16]],
			Deaf: time.Duration(deaf.Int64), Members: int(members.Int64), Silent: int(silent.Int64), Before: int(before.Int64),
			ExitStatus: int(status.Int64), Duration: time.Duration(took.Int64),
		})
		return nil
	}
}

// DeviceEvents returns at most limit events of a device with a Seq greater than afterSeq, by Seq, as far
// as they are kept. It also finds the events of a forgotten device, and those from before a device was
// forgotten and came back. For an unknown device it returns none. It takes one look-up for each event
// of the device after afterSeq.
func (s *Store) DeviceEvents(ctx context.Context, id string, afterSeq uint64, limit int) ([]liveness.Event, error) {
	if limit <= 0 || liveness.ValidateID(id) != nil || afterSeq >= math.MaxInt64 { // nobody has such an id, or such a Seq
		return nil, nil
	}
	places, err := s.chain(ctx, id, afterSeq, min(limit, maxRead))
	if err != nil {
		return nil, err
	}
	var events []liveness.Event
	for chunk := range slices.Chunk(places, 500) {
		if events, err = s.query(ctx, events, "pos IN (?)", sqldb.Ints(chunk)); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// step is how many events of a chain one query follows. Servers limit the depth of recursion.
const step = 500

const followChain = `WITH RECURSIVE chain (pos, prev, seq, depth) AS (
	SELECT pos, prev, seq, 1 FROM events WHERE pos = ?
	UNION ALL
	SELECT e.pos, e.prev, e.seq, c.depth + 1 FROM chain c JOIN events e ON e.pos = c.prev WHERE c.depth < ? AND c.seq > ?
) SELECT pos, prev, seq FROM chain ORDER BY pos DESC`

// chain returns the offsets of the first events of a device after a Seq. Each event has the offset of
// the device's event before it, so chain follows them from the latest on.
func (s *Store) chain(ctx context.Context, id string, afterSeq uint64, limit int) ([]uint64, error) {
	var head int64
	err := s.db.Read(ctx, "read the events of a device", func(ctx context.Context, q sqldb.Reader) error {
		err := q.QueryRowContext(ctx, "SELECT s.head FROM devices d JOIN device_states s ON s.num = d.num WHERE d.id = ?", id).Scan(&head)
		if errors.Is(err, sql.ErrNoRows) {
			err = q.QueryRowContext(ctx, "SELECT head FROM forgotten WHERE id = ?", id).Scan(&head)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	var places []uint64 // descending
	for head != 0 && err == nil {
		from, kept := head, len(places)
		err = s.db.Read(ctx, "read the events of a device", func(ctx context.Context, q sqldb.Reader) error {
			places = places[:kept]
			head = 0
			return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
				var pos, prev, seq int64
				if err := rows.Scan(&pos, &prev, &seq); err != nil {
					return err
				}
				if head = prev; uint64(seq) <= afterSeq+1 {
					head = 0
				}
				if uint64(seq) > afterSeq {
					places = append(places, uint64(pos))
				}
				return nil
			}, followChain, from, step, afterSeq+1)
		})
		if len(places) > 2*limit+step { // only the last ones count
			places = append(places[:0], places[len(places)-limit:]...)
		}
	}
	slices.Reverse(places)
	return places[:min(limit, len(places))], err
}

// EventsAt returns the events at some offsets, as far as they are kept, by offset. It queries the
// database only for events that are not in memory.
func (s *Store) EventsAt(ctx context.Context, offsets []uint64) ([]liveness.Event, error) {
	offsets = slices.Compact(slices.Sorted(slices.Values(offsets)))
	events := make([]liveness.Event, 0, len(offsets))
	var elsewhere []uint64
	for _, offset := range offsets {
		if offset == 0 || offset > math.MaxInt64 {
			continue
		}
		got, err := s.log.Read(events, offset-1, 1)
		if err != nil || len(got) == len(events) || got[len(events)].Offset != offset {
			elsewhere = append(elsewhere, offset)
			continue
		}
		events = got
	}
	for chunk := range slices.Chunk(elsewhere, 1000) {
		var err error
		if events, err = s.query(ctx, events, "pos IN (?)", sqldb.Ints(chunk)); err != nil {
			return nil, err
		}
	}
	if len(elsewhere) > 0 {
		slices.SortFunc(events, func(a, b liveness.Event) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return events, nil
}
