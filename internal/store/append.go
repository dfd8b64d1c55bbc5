package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// attempt is a batch whose transaction failed, perhaps after the database had committed it.
type attempt struct {
	events int
	first  uint64 // offset of its first event, if it was committed
	follow func() // what the outbox does once it is committed; nil for nothing
	sum    uint64
	seed   maphash.Seed
}

func newAttempt(events []liveness.Event) attempt {
	a := attempt{events: len(events), seed: maphash.MakeSeed()}
	a.sum = a.sumOf(events)
	return a
}

func (a *attempt) sumOf(events []liveness.Event) uint64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	for i := range events {
		maphash.WriteComparable(&h, events[i].Type)
		maphash.WriteComparable(&h, events[i].Subject)
		maphash.WriteComparable(&h, events[i].Seq)
	}
	return h.Sum64()
}

// is reports whether events begin with those of the attempt.
func (a *attempt) is(events []liveness.Event) bool {
	return a.events > 0 && a.events <= len(events) && a.sumOf(events[:a.events]) == a.sum
}

// errCommitted ends a transaction which finds that an earlier attempt at it was committed.
var errCommitted = errors.New("store: committed before")

// Append implements liveness.Sink. It writes events and the devices, sources and groups that they
// report in one transaction, and then shows them to readers. It sets the Offset of each event, and
// changes a Message that is not valid text. After an error, call it again with the same events: if the
// transaction was committed in spite of the error, Append notices that and writes nothing twice. It
// waits for checkpoints and prunings in progress, but not for readers. Errors: sqldb.ErrNotOpen,
// sqldb.ErrFenced, ErrChanged, and those of the database.
func (s *Store) Append(ctx context.Context, events []liveness.Event) error {
	if len(events) == 0 {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	begin := time.Now()
	s.record.appending(begin)
	err := s.appendLocked(ctx, events)
	s.record.appending(time.Time{})
	s.record.append(len(events), time.Since(begin), err)
	return err
}

func (s *Store) appendLocked(ctx context.Context, events []liveness.Event) error {
	if !s.loaded {
		return errNotLoaded
	}
	s.sign(events)
	done := 0
	if s.part.is(events) {
		for done < s.part.events {
			events[done].Offset = s.part.first + uint64(done)
			done++
		}
	}
	for done < len(events) {
		n, err := s.writeLocked(ctx, events[done:])
		if done += n; err != nil {
			if done > 0 {
				s.part = newAttempt(events[:done])
				s.part.first = events[0].Offset
			}
			return err
		}
	}
	s.part = attempt{}
	return nil
}

// writeLocked writes events in one transaction, or finds that an earlier attempt wrote the first n.
func (s *Store) writeLocked(ctx context.Context, events []liveness.Event) (n int, err error) {
	b := s.stageLocked(events)
	var follow func() // what the outbox does once the transaction is committed
	begun := false    // the transaction found that no attempt before it was committed
	err = s.db.WriteLate(ctx, "append", func(ctx context.Context, tx sqldb.Tx) (err error) {
		if err = s.advanceLocked(ctx, tx, b, events); err == nil {
			begun = true
			follow, err = s.writeBatchLocked(ctx, tx, b, events)
		}
		return err
	})
	switch {
	case errors.Is(err, errCommitted):
		n, follow = s.attempt.events, s.attempt.follow
		b = s.stageLocked(events[:n])
	case err != nil:
		if begun || !s.attempt.is(events) { // else the attempt before may still turn out to be committed
			s.attempt = newAttempt(events)
			s.attempt.follow = follow
		}
		return 0, err
	default:
		n = len(events)
	}
	s.attempt = attempt{}
	s.commitLocked(b)
	_ = s.log.Append(ctx, events[:n]) // never fails
	if follow != nil {
		follow()
	}
	return n, nil
}

// writeBatchLocked writes a batch within a transaction. It returns what is to be done once the
// transaction is committed.
func (s *Store) writeBatchLocked(ctx context.Context, tx sqldb.Tx, b *batch, events []liveness.Event) (follow func(), err error) {
	if err := putNames(ctx, tx, b.names); err != nil {
		return nil, err
	}
	if err := followForgotten(ctx, tx, b); err != nil {
		return nil, err
	}
	if err := forget(ctx, tx, b); err != nil {
		return nil, err
	}
	if err := putDevices(ctx, tx, b.fresh, b.states); err != nil {
		return nil, err
	}
	if err := insertEvents(ctx, tx, b.events); err != nil {
		return nil, err
	}
	if s.config.Outbox != nil {
		if follow, err = s.config.Outbox.Insert(ctx, tx, b.first, events); err != nil {
			return nil, err
		}
	}
	return follow, s.putSeqs(ctx, tx, b)
}

// ErrChanged is returned for writes after the database has lost what it had committed, as a failover to a
// replica that was behind does, or after somebody changed it. Close the store, and open and load another one
// with the same [Config].Tail, to go on from what the database has.
var ErrChanged = errors.New("store: the database has lost what it had committed, or was changed")

// advanceLocked raises the latest offset. It fails unless the offset is as this process left it.
// Errors: errCommitted if the previous attempt was committed; ErrChanged.
func (s *Store) advanceLocked(ctx context.Context, tx sqldb.Tx, b *batch, events []liveness.Event) error {
	before := b.first - 1
	held, err := tx.FenceIf(ctx, "last_offset = ?", "last_offset = ?", before+uint64(len(events)), before)
	if err != nil || held {
		return err
	}
	meta, err := readMeta(ctx, tx)
	if err != nil {
		return err
	}
	if s.attempt.is(events) && meta.lastOffset == before+uint64(s.attempt.events) {
		return errCommitted
	}
	return fmt.Errorf("%w: the latest event that it has is %d, and %d was expected", ErrChanged, meta.lastOffset, before)
}

// forgottenRow is a row of forgotten.
type forgottenRow struct {
	id   string // empty: those whose rows are gone, as their events are
	head uint64 // offset of the last event
	seq  uint64 // its number
}

// followForgotten links the first event of a device that was forgotten and is back to its last event
// before.
func followForgotten(ctx context.Context, tx sqldb.Tx, b *batch) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(b.returned)), 1000) {
		err := sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
			var id string
			var head uint64
			err := rows.Scan(&id, &head)
			if row := b.returned[id]; err == nil && row != nil {
				row.prev = head
			}
			return err
		}, "SELECT id, head FROM forgotten WHERE id IN (?)", ids)
		if err != nil {
			return err
		}
	}
	return nil
}

// forget deletes the rows of forgotten devices, and stores the offsets of their last events.
func forget(ctx context.Context, tx sqldb.Tx, b *batch) error {
	if err := putFreed(ctx, tx, b.freed); err != nil {
		return err
	}
	if err := deleteDevices(ctx, tx, sqldb.Ints(slices.Sorted(maps.Keys(b.gone)))); err != nil {
		return err
	}
	ids := slices.Sorted(maps.Keys(b.forgotten))
	t := &sqldb.Table{Name: "forgotten", Ints: []string{"head", "seq"}, Texts: []string{"id"}, Key: "id"}
	return tx.Insert(ctx, t, len(ids), func(args []any, i int) []any {
		row := b.forgotten[ids[i]]
		return append(args, int64(row.head), int64(row.seq), row.id)
	})
}

// deleteDevices deletes the rows of devices.
func deleteDevices(ctx context.Context, tx sqldb.Tx, nums []int64) error {
	for part := range slices.Chunk(nums, 1000) {
		for _, table := range []string{"devices", "device_states"} {
			if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE num IN (?)", part); err != nil {
				return err
			}
		}
	}
	return nil
}

func insertEvents(ctx context.Context, tx sqldb.Tx, rows []eventRow) error {
	devices := rows
	if slices.ContainsFunc(rows, isRare) {
		devices = nil
		for i := range rows {
			if !isRare(rows[i]) {
				devices = append(devices, rows[i])
			} else if err := insertRare(ctx, tx, &rows[i]); err != nil {
				return err
			}
		}
	}
	return tx.Insert(ctx, eventTable(), len(devices), func(args []any, i int) []any {
		ints := devices[i].ints()
		return append(appendInts(args, ints[:]), devices[i].event.Subject, devices[i].event.Message)
	})
}

// isRare reports whether an event has something in the columns that most have not: one of a source or a group,
// or of a run that ended.
func isRare(r eventRow) bool {
	return !r.event.Type.OfDevice() || r.event.ExitStatus != 0 || r.event.Duration != 0
}

// insertRare inserts such an event.
func insertRare(ctx context.Context, tx sqldb.Tx, r *eventRow) error {
	ints := r.ints()
	ev := r.event
	args := append(appendInts(nil, ints[:]), ev.Subject, ev.Message, int64(ev.Deaf), ev.Members, ev.Silent, ev.Before, ev.ExitStatus, int64(ev.Duration))
	_, err := tx.Exec(ctx, sqldb.InsertInto("events", eventTable().Columns()+", "+rareColumns), args...)
	return err
}

// putSeqs stores the numbers of the latest events of sources and groups, and inserts new sources.
func (s *Store) putSeqs(ctx context.Context, tx sqldb.Tx, b *batch) error {
	for _, name := range slices.Sorted(maps.Keys(b.sources)) {
		seq := b.sources[name]
		end := tx.Upsert("name", "seq")
		if seq == 0 { // nothing to change if the row is there
			end = tx.Upsert("name", "name")
		}
		_, err := tx.Exec(ctx, "INSERT INTO sources (name, seq, listened, at, deaf, deaf_total) VALUES (?, ?, 0, 0, '', 0)"+end, name, seq)
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.outages)) {
		ev := b.outages[name]
		outage := flag(ev.Type == liveness.GroupOutageStarted, 1)
		_, err := tx.Exec(ctx, sqldb.InsertInto("outages", "name, seq, outage, began")+tx.Upsert("name", "seq", "outage", "began"), name, ev.Seq, outage, ev.From)
		if err != nil {
			return err
		}
	}
	return nil
}
