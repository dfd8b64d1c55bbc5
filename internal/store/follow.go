package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Follower keeps in memory what a standby will have to know of the devices, some 290 bytes for each. Give
// it to the store of the judge that the standby becomes, see [Config.Follower]: [Store.Load] then reads only what has changed since. What it knows is compared with the database by a
// sum over all rows before it is used. The zero Follower knows nothing. Its methods may be called
// concurrently.
type Follower struct {
	mu    sync.Mutex
	rows  []deviceRow       // by device number; without an id where there is none
	texts map[string]string // the policies, each of them once
	ids   map[string]int    // by id, the number of its row
	at    uint64            // offset of the event up to which rows are known
	most  uint64            // the greatest offset that was seen
}

// deviceRow is a row that a registry's device is restored from.
type deviceRow struct {
	ints               [stateInts]int64
	announced, own, id string
	changes            []byte
}

// deviceColumns are those of a deviceRow but for the number, which is the first.
const deviceColumns = `s.state, s.reason, s.source, s.heard, s.until_at, s.since, s.seq, s.epoch, s.flags, s.head, s.quota, s.learned, s.started, s.seen, s.judged_by,
	s.announced, s.own, s.changes, d.id`

const rowColumnsOfDevices = "SELECT d.num, " + deviceColumns + " FROM devices d LEFT JOIN device_states s ON s.num = d.num WHERE "

// dest returns where a number and deviceColumns are scanned to.
func (r *deviceRow) dest() []any {
	dest := make([]any, 0, stateInts+4)
	for i := range r.ints {
		dest = append(dest, &r.ints[i])
	}
	return append(dest, &r.announced, &r.own, &r.changes, &r.id)
}

// Follow reads what has changed since it was called last, or all if that is less work. Its cost is that of
// the events since. After an error it may be called again. Errors: those of the database.
func (f *Follower) Follow(ctx context.Context, db *sqldb.DB) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, err := lastOffset(ctx, db)
	switch {
	case err != nil:
	case f.behindLocked(last):
		err = f.readAllLocked(ctx, db)
	default:
		err = f.readSinceLocked(ctx, db, last)
	}
	if err == nil {
		f.at, f.most = last, max(f.most, last)
	}
	return err
}

// latest returns the offset of the latest event that the database had; 0 if that is not known.
func (f *Follower) latest() uint64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// Devices returns how many devices are known.
func (f *Follower) Devices() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ids)
}

const following = "follow"

func lastOffset(ctx context.Context, db *sqldb.DB) (last uint64, err error) {
	err = db.Read(ctx, following, func(ctx context.Context, q sqldb.Reader) error {
		meta, err := readMeta(ctx, q)
		last = meta.lastOffset
		return err
	})
	return last, err
}

// behindLocked reports whether it is less work to read all rows than what has changed.
func (f *Follower) behindLocked(last uint64) bool {
	return f.rows == nil || last < f.at || last-f.at > uint64(len(f.rows)/4+10_000)
}

// readAllLocked reads all rows.
func (f *Follower) readAllLocked(ctx context.Context, db *sqldb.DB) error {
	f.rows, f.texts, f.ids = make([]deviceRow, 0), make(map[string]string), make(map[string]int)
	var top int64
	err := db.ReadRow(ctx, following, []any{&top}, "SELECT COALESCE(MAX(num), 0) FROM devices WHERE num <= ?", maxNumber)
	for from := int64(0); err == nil && from <= top; from += loadSpan {
		err = f.readLocked(ctx, db, "d.num >= ? AND d.num < ?", from, from+loadSpan)
	}
	if err != nil {
		f.rows = nil
	}
	return err
}

// readSinceLocked reads the rows of the devices that have an event after f.at, up to an offset.
func (f *Follower) readSinceLocked(ctx context.Context, db *sqldb.DB, last uint64) error {
	var ids []string
	err := db.Read(ctx, following, func(ctx context.Context, q sqldb.Reader) (err error) {
		ids, err = sqldb.Values[string](ctx, q, "SELECT DISTINCT subject FROM events WHERE pos > ? AND pos <= ?", f.at, last)
		return err
	})
	for _, id := range ids { // it may be gone, or have another number
		f.dropLocked(id)
	}
	for part := range slices.Chunk(ids, 1000) {
		if err == nil {
			err = f.readLocked(ctx, db, "d.id IN (?)", part)
		}
	}
	return err
}

// dropLocked forgets the row with an id, if there is one.
func (f *Follower) dropLocked(id string) {
	if num, ok := f.ids[id]; ok {
		delete(f.ids, id)
		if f.rows[num].id == id {
			f.rows[num] = deviceRow{}
		}
	}
}

// readLocked reads some rows. One that makes no sense is left out: that is for Load.
func (f *Follower) readLocked(ctx context.Context, db *sqldb.DB, where string, args ...any) error {
	return db.Read(ctx, following, func(ctx context.Context, q sqldb.Reader) error {
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var row deviceRow
			if rows.Scan(row.dest()...) == nil && row.ints[0] >= 0 && row.ints[0] <= maxNumber && row.id != "" {
				f.keepLocked(row)
			}
			return nil
		}, rowColumnsOfDevices+where, args...)
	})
}

func (f *Follower) keepLocked(row deviceRow) {
	num := int(row.ints[0])
	if num >= len(f.rows) {
		f.rows = append(f.rows, make([]deviceRow, num+1-len(f.rows))...)
	}
	row.announced, row.own = f.textLocked(row.announced), f.textLocked(row.own)
	f.rows[num], f.ids[row.id] = row, num
}

// textLocked returns a text that is kept once.
func (f *Follower) textLocked(s string) string {
	if same, ok := f.texts[s]; ok {
		return same
	}
	if len(f.texts) < maxPolicies {
		f.texts[s] = s
	}
	return s
}

// sumFactor keeps the terms of a sum of rows small.
const sumFactor = 65_521

// errAstray is returned for what a follower knows and the database has not.
var errAstray = errors.New("store: what was read while standing by is not what the database has")

// takeDevices reads the rest, and returns all rows by number; nil if the follower knows none, or so few that Load
// had better read them. It is empty then. Errors: errAstray, those of the database.
func (f *Follower) takeDevices(ctx context.Context, db *sqldb.DB) ([]deviceRow, error) {
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.rows, f.texts, f.ids, f.at, f.most = nil, nil, nil, 0, 0 }()
	last, err := lastOffset(ctx, db)
	if err != nil || f.behindLocked(last) {
		return nil, err
	}
	if err := f.readSinceLocked(ctx, db, last); err != nil {
		return nil, err
	}
	return f.rows, f.compareLocked(ctx, db)
}

// compareLocked compares the rows with those of the database. Errors: errAstray, those of the database.
func (f *Follower) compareLocked(ctx context.Context, db *sqldb.DB) error {
	sum := int64(0)
	for i := range f.rows {
		sum += f.rows[i].ints[10] % sumFactor * (f.rows[i].ints[0] % sumFactor)
	}
	return db.Read(ctx, following, func(ctx context.Context, q sqldb.Reader) error {
		var count, total int64
		err := q.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(SUM(head % ? * (num % ?)), 0) FROM device_states", sumFactor, sumFactor).Scan(&count, &total)
		if err == nil && (count != int64(len(f.ids)) || total != sum) {
			return errAstray
		}
		return err
	})
}
