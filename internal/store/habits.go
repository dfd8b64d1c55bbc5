package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// A page of habits holds what was learned of pageLen device numbers as bytes:
//
//	magic "HHP", version 1
//	store id, 16 bytes
//	page: variable-length
//	for each device number, up to the last of which something was learned: a hash of the device's id, 2
//		bytes, and what was learned of it, 8 bytes
//	CRC-32C of all of the above, 4 bytes
//
// The hash tells whether the number is another device's now.
const (
	habitVersion = 1
	habitLen     = 10
)

var errHabits = errors.New("store: damaged page of habits")

// habitOf is what was learned of a device.
type habitOf struct {
	hash  uint16
	habit uint64
}

// habitPages are what was learned of devices, by page.
type habitPages map[int64][]habitOf

// idHash returns the hash of a device's id. It is in databases, and must never change.
func idHash(id string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	sum := h.Sum32()
	return uint16(sum>>16) ^ uint16(sum)
}

// of returns what was learned of a device, 0 if that is not known.
func (p habitPages) of(num uint32, id string) uint64 {
	page := p[int64(num/pageLen)]
	if at := int(num % pageLen); at < len(page) && page[at].hash == idHash(id) {
		return page[at].habit
	}
	return 0
}

// set notes what was learned of a device.
func (p habitPages) set(num uint32, id string, habit uint64) {
	n, at := int64(num/pageLen), int(num%pageLen)
	page := p[n]
	if at >= len(page) {
		page = append(page, make([]habitOf, at+1-len(page))...)
	}
	page[at] = habitOf{idHash(id), habit}
	p[n] = page
}

func encodeHabits(store [16]byte, n int64, page []habitOf) []byte {
	b := append([]byte{'H', 'H', 'P', habitVersion}, store[:]...)
	b = binary.AppendUvarint(b, uint64(n))
	for _, h := range page {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint16(b, h.hash), h.habit)
	}
	return sealed(b, 0)
}

// decodeHabits decodes a page of habits. b may be anything.
func decodeHabits(b []byte, store [16]byte, n int64) (page []habitOf, err error) {
	of, rest, err := openPage(b, "HHP", habitVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHabits, err)
	}
	r := reader{b: rest}
	number := r.number(1<<32 - 1)
	switch {
	case of != store:
		return nil, fmt.Errorf("%w: it is of another database", errHabits)
	case r.bad || number != uint64(n) || len(r.b)%habitLen != 0 || len(r.b) > pageLen*habitLen:
		return nil, fmt.Errorf("%w: its parts do not fit", errHabits)
	}
	page = make([]habitOf, len(r.b)/habitLen)
	for i := range page {
		one := r.bytes(habitLen)
		page[i] = habitOf{binary.LittleEndian.Uint16(one), binary.LittleEndian.Uint64(one[2:])}
	}
	return page, nil
}

// restoreHabits gives the registry what was learned of groups, and returns what was learned of devices, with an
// error for each row that is damaged. Call it with checkpoints held.
func (s *Store) restoreHabits(ctx context.Context, r *liveness.Registry) (pages habitPages, damaged []error, err error) {
	k := &s.checkpoint.gaps
	var bad []error
	id := storeBytes(s.db.ID())
	begin := func() { pages, bad, k.habits = make(habitPages), nil, make(map[int64]uint32) }
	err = s.eachRow(ctx, 2, begin, func(values []any) {
		n, _ := intOf(values[0])
		data := bytesOf(values[1])
		page, err := decodeHabits(data, id, n)
		if err != nil {
			bad = append(bad, fmt.Errorf("page %d of habits: %w; what was learned of its devices begins anew", n, err))
			return
		}
		pages[n], k.habits[n] = page, checksum(data)
	}, "SELECT page, data FROM habits ORDER BY page")
	if err != nil {
		return nil, nil, err
	}
	damaged, err = s.restoreShapes(ctx, r)
	return pages, slices.Concat(bad, damaged), err
}

// bytesOf returns the bytes in a column, which scanAny gives as text if they are valid text.
func bytesOf(v any) []byte {
	if s, ok := v.(string); ok {
		return []byte(s)
	}
	b, _ := v.([]byte)
	return b
}

func (s *Store) restoreShapes(ctx context.Context, r *liveness.Registry) (damaged []error, err error) {
	k := &s.checkpoint.gaps
	shapes := make(map[string][]byte)
	begin := func() { damaged, k.shapes = nil, make(map[string]uint32); clear(shapes) }
	err = s.eachRow(ctx, 2, begin, func(values []any) {
		group := string(bytesOf(values[0]))
		sealed := bytesOf(values[1])
		data, ok := unsealed(sealed)
		if !ok {
			damaged = append(damaged, fmt.Errorf("the shape of group %q: its checksum is wrong; it is learned anew", group))
			return
		}
		shapes[group], k.shapes[group] = data, checksum(sealed)
	}, "SELECT grp, data FROM shapes ORDER BY grp")
	if err != nil {
		return nil, err
	}
	for _, group := range slices.Sorted(maps.Keys(shapes)) {
		if err := r.Keeper().RestoreShape(group, shapes[group]); err != nil {
			damaged = append(damaged, fmt.Errorf("%w; it is learned anew", err))
		}
	}
	return damaged, nil
}

// habitRow is a row to write into habits or shapes.
type habitRow struct {
	page  int64
	group string
	sum   uint32
	data  []byte
}

// saveHabits writes what was learned, as far as it has changed. Call it with checkpoints held.
func (s *Store) saveHabits(ctx context.Context, r *liveness.Registry) error {
	k := &s.checkpoint.gaps
	habits, shapes := s.newHabits(r), k.newShapes(r)
	if len(habits)+len(shapes) == 0 {
		return nil
	}
	err := s.db.WriteLate(ctx, "write what was learned", func(ctx context.Context, tx sqldb.Tx) error {
		err := tx.Repeat(ctx, "INSERT INTO habits (page, data) VALUES (?, ?)"+tx.Upsert("page", "data"), len(habits),
			func(args []any, i int) []any { return append(args, habits[i].page, habits[i].data) })
		if err != nil {
			return err
		}
		err = tx.Repeat(ctx, "INSERT INTO shapes (grp, data) VALUES (?, ?)"+tx.Upsert("grp", "data"), len(shapes),
			func(args []any, i int) []any { return append(args, shapes[i].group, shapes[i].data) })
		if err != nil {
			return err
		}
		return tx.Fence(ctx, "fence = fence")
	})
	if err != nil {
		return err
	}
	for _, row := range habits {
		k.habits[row.page] = row.sum
	}
	for _, row := range shapes {
		k.shapes[row.group] = row.sum
	}
	return nil
}

// newHabits returns the pages of habits that have changed.
func (s *Store) newHabits(r *liveness.Registry) (rows []habitRow) {
	pages := make(habitPages)
	r.Keeper().Habits(pages.set)
	id := storeBytes(s.db.ID())
	for _, n := range slices.Sorted(maps.Keys(pages)) {
		data := encodeHabits(id, n, pages[n])
		sum := checksum(data)
		if was, known := s.checkpoint.gaps.habits[n]; !known || was != sum {
			rows = append(rows, habitRow{page: n, sum: sum, data: data})
		}
	}
	return rows
}

// newShapes returns the shapes that have changed.
func (k *gapKeeper) newShapes(r *liveness.Registry) (rows []habitRow) {
	shapes := r.Keeper().Shapes()
	for _, group := range slices.Sorted(maps.Keys(shapes)) {
		data := sealed(shapes[group], 0)
		sum := checksum(data)
		if was, known := k.shapes[group]; !known || was != sum {
			rows = append(rows, habitRow{group: group, sum: sum, data: data})
		}
	}
	return rows
}
