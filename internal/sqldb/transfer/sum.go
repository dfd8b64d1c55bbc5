package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Sum is the number of some rows, and a checksum that does not depend on their order, nor on the database
// that they are in.
type Sum struct {
	Rows int64
	of   [4]uint64 // the sum of the hashes of the rows
}

// hasher makes sums.
type hasher struct{ buf []byte }

// add adds a row to a sum.
func (h *hasher) add(s *Sum, row sqldb.Row) {
	b := h.buf[:0]
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			b = append(b, 'n')
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 'i'), uint64(v))
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, 'f'), math.Float64bits(v))
		case string:
			b = append(binary.BigEndian.AppendUint64(append(b, 't'), uint64(len(v))), v...)
		case []byte:
			b = append(binary.BigEndian.AppendUint64(append(b, 't'), uint64(len(v))), v...)
		default:
			b = fmt.Appendf(append(b, '?'), "%T %v", v, v)
		}
	}
	h.buf = b
	sum := sha256.Sum256(b)
	for i := range s.of {
		s.of[i] += binary.BigEndian.Uint64(sum[8*i:])
	}
	s.Rows++
}

// text returns the checksum in hexadecimal.
func (s Sum) text() string {
	var b []byte
	for _, n := range s.of {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return hex.EncodeToString(b)
}

// differs returns an error if what was written is not what was read.
func differs(table string, read, written Sum) error {
	switch {
	case read.Rows != written.Rows:
		return fmt.Errorf("%w: table %s has %d rows and should have %d", ErrDamaged, table, written.Rows, read.Rows)
	case read != written:
		return fmt.Errorf("%w: the %d rows of table %s are not what they should be", ErrDamaged, read.Rows, table)
	}
	return nil
}
