package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// A row of a device that cannot be read does not stop the others: it is moved to the table set_aside
// as it was, and the device counts as never seen until it is heard. The numbers of its events go on,
// and it gets a row that can be read.

// rowColumns returns the names of the columns that a loader reads of a device.
func rowColumns() []string { return append(strings.Split(stateTable().Columns(), ", "), "id") }

// asideRow is a row to write into set_aside, with the rest of the device that could be read.
type asideRow struct {
	N    int64
	Num  int64
	ID   string
	At   int64
	Why  string
	Data string

	seq, epoch, flags, head int64 // 0 if they could not be read
	back                    bool  // the device gets a row that can be read
}

// newAside reads as much as it can of the current row of a query for rowColumns.
func newAside(rows *sql.Rows, why error) (*asideRow, error) {
	columns := rowColumns()
	values, err := scanAny(rows, len(columns))
	if err != nil {
		return nil, err
	}
	row := &asideRow{At: sqldb.Nanos(time.Now()), Why: sqldb.Text(why.Error(), maxMessage)}
	raw := make(map[string]any, len(columns))
	for i, v := range values {
		raw[columns[i]] = v
		if columns[i] == "id" {
			row.ID, _ = v.(string)
		} else if n, ok := intOf(v); ok {
			row.number(columns[i], n)
		}
	}
	if liveness.ValidateID(row.ID) != nil {
		row.ID = ""
	}
	data, err := json.Marshal(raw)
	row.Data = string(data)
	return row, err
}

// scanAny scans a row of n columns of any types. Texts that are not UTF-8 stay bytes.
func scanAny(rows *sql.Rows, n int) ([]any, error) {
	values, dest := make([]any, n), make([]any, n)
	for i := range values {
		dest[i] = &values[i]
	}
	if err := rows.Scan(dest...); err != nil {
		return nil, err
	}
	for i, v := range values {
		switch v := v.(type) {
		case []byte:
			if utf8.Valid(v) {
				values[i] = string(v)
			}
		case string:
			if !utf8.ValidString(v) {
				values[i] = []byte(v)
			}
		}
	}
	return values, nil
}

// intOf returns a number from a column, which some drivers give as text.
func intOf(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// number notes the number in a column.
func (r *asideRow) number(column string, n int64) {
	if n < 0 && column != "num" && column != "epoch" {
		return
	}
	switch column {
	case "num":
		r.Num = n
	case "seq":
		r.seq = n
	case "epoch":
		r.epoch = n
	case "flags":
		r.flags = n
	case "head":
		r.head = n
	}
}

func (r *asideRow) error() error {
	name := r.ID
	if name == "" {
		name = fmt.Sprintf("with number %d", r.Num)
	}
	return fmt.Errorf("device %s: %s", name, r.Why)
}

// record returns the rest of the device for a registry.
func (r *asideRow) record() keep.Record {
	return keep.Record{
		Num: uint32(r.Num), ID: r.ID, Seq: uint64(r.seq), Epoch: uint64(r.epoch),
		Maintenance: r.flags&deviceMaintenance != 0, Window: r.flags&deviceWindow != 0,
		Unverified: r.flags&deviceUnverified != 0,
	}
}

// strays selects rows that no loader reads: their numbers cannot be, or one of their two rows is gone.
const strays = "SELECT COALESCE(d.num, s.num), " + deviceColumns + " FROM "

// findStrays returns the strays.
func (s *Store) findStrays(ctx context.Context) (found []*asideRow, err error) {
	err = s.db.Read(ctx, loading, func(ctx context.Context, q sqldb.Reader) error {
		found = nil
		for from, why := range map[string]error{
			"devices d LEFT JOIN device_states s ON s.num = d.num WHERE d.num < 0 OR d.num > " + strconv.Itoa(maxNumber): errors.New("its number cannot be"),
			"device_states s LEFT JOIN devices d ON d.num = s.num WHERE d.num IS NULL":                                   errors.New("it has no row in devices"),
		} {
			err := sqldb.Each(ctx, q, func(rows *sql.Rows) error {
				row, err := newAside(rows, why)
				found = append(found, row)
				return err
			}, strays+from)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// setAside moves rows that cannot be read to set_aside, gives the registry the rest of their devices,
// and returns heads with the latest events of these.
func (s *Store) setAside(ctx context.Context, r *liveness.Registry, rows []*asideRow, heads []uint64) ([]uint64, error) {
	if len(rows) == 0 {
		return heads, nil
	}
	for _, row := range rows {
		if row.head > int64(s.last.Load()) {
			row.head = 0
		}
	}
	if err := s.findEvents(ctx, rows); err != nil {
		return nil, err
	}
	was := make([]int64, len(rows))
	for i, row := range rows {
		was[i] = row.Num
		if row.ID == "" || row.head <= 0 || row.seq <= 0 { // no event of it is kept
			continue
		}
		if row.Num < 1 || row.Num > maxNumber {
			row.Num = int64(max(len(heads), 1))
		}
		if err := r.Keeper().Restore(row.record()); errors.Is(err, liveness.ErrFull) {
			return nil, err
		} else if err != nil { // another device has its id
			continue
		}
		for int(row.Num) >= len(heads) {
			heads = append(heads, 0)
		}
		heads[row.Num], row.back = uint64(row.head), true
	}
	return heads, s.db.Write(ctx, loading, func(ctx context.Context, tx sqldb.Tx) error {
		if err := putFreed(ctx, tx, freedAside(rows, was, s.last.Load()+1)); err != nil {
			return err
		}
		return writeAside(ctx, tx, rows, was)
	})
}

// freedAside returns the numbers was that rows do not have any more, with the offset of an event that comes
// before those of the devices that will get them.
func freedAside(rows []*asideRow, was []int64, head uint64) map[uint32]uint64 {
	freed := make(map[uint32]uint64)
	for i, row := range rows {
		if num := was[i]; num >= 1 && num <= maxNumber && (!row.back || row.Num != num) {
			freed[uint32(num)] = head
		}
	}
	return freed
}

// writeAside inserts rows into set_aside, and replaces the rows of devices with the numbers was by rows
// that can be read.
func writeAside(ctx context.Context, tx sqldb.Tx, rows []*asideRow, was []int64) error {
	var last int64
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(n), 0) FROM set_aside").Scan(&last); err != nil {
		return err
	}
	if err := deleteDevices(ctx, tx, was); err != nil {
		return err
	}
	var back []stateRow
	for i, row := range rows {
		row.N = last + int64(i) + 1
		if row.back {
			rec := row.record()
			back = append(back, stateRow{record: &rec, head: uint64(row.head)})
		}
	}
	t := &sqldb.Table{Name: "set_aside", Ints: []string{"n", "num", "at"}, Texts: []string{"id", "why", "data"}}
	err := tx.Insert(ctx, t, len(rows), func(args []any, i int) []any {
		r := rows[i]
		return append(args, r.N, r.Num, r.At, r.ID, r.Why, r.Data)
	})
	if err != nil {
		return err
	}
	return putDevices(ctx, tx, back, back)
}

// findEvents finds the latest events of devices whose rows do not have them.
func (s *Store) findEvents(ctx context.Context, rows []*asideRow) error {
	missed := make(map[string]*asideRow)
	var ids []string
	for _, row := range rows {
		if row.ID != "" && (row.seq <= 0 || row.head <= 0) {
			missed[row.ID] = row
			ids = append(ids, row.ID)
		}
	}
	for chunk := range slices.Chunk(ids, 500) {
		err := s.db.Read(ctx, loading, func(ctx context.Context, q sqldb.Reader) error {
			return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
				var id string
				var seq, pos int64
				if err := rows.Scan(&id, &seq, &pos); err != nil {
					return err
				}
				if row := missed[id]; row != nil {
					row.seq, row.head = max(row.seq, seq), max(row.head, pos)
				}
				return nil
			}, "SELECT subject, MAX(seq), MAX(pos) FROM events WHERE subject IN (?) AND type <= ? GROUP BY subject",
				chunk, typeCode(liveness.DeviceForgotten))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CountSetAside returns how many rows of devices are set aside, see [Loaded].
func CountSetAside(ctx context.Context, db *sqldb.DB) (n int, err error) {
	err = db.ReadRow(ctx, "count what is set aside", []any{&n}, "SELECT COUNT(*) FROM set_aside")
	return n, err
}

// lookAside counts the rows that are set aside, for Stats.
func (s *Store) lookAside(ctx context.Context) error {
	n, err := CountSetAside(ctx, s.db)
	if err == nil {
		s.aside.Store(int64(n))
	}
	return err
}
