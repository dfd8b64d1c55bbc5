package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"hash/maphash"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

const (
	// cursorLen is the length of a cursor of a list without an order; those of sorted ones are longer.
	cursorLen = 8
	sumLen    = 8
	// placeLen is the length of the place in a sorted list, without its id: the list, and the key.
	placeLen = 1 + 8
)

// encodeCursor returns an opaque text for a cursor. Its check sum is valid in this process only, as
// the order of devices is.
func (a *API) encodeCursor(c liveness.Cursor) string {
	if c == 0 {
		return ""
	}
	return a.seal(binary.BigEndian.AppendUint64(nil, uint64(c)))
}

func (a *API) decodeCursor(s string) (liveness.Cursor, error) {
	if s == "" {
		return 0, nil
	}
	b, err := a.open(s)
	if err != nil {
		return 0, err
	}
	if len(b) != cursorLen {
		return 0, errOtherList()
	}
	return liveness.Cursor(binary.BigEndian.Uint64(b)), nil
}

// encodePlace is encodeCursor for a place in a sorted list.
func (a *API) encodePlace(p *liveness.Place, q *liveness.Query) string {
	if p == nil {
		return ""
	}
	b := binary.BigEndian.AppendUint64([]byte{listOfQuery(q)}, uint64(p.Key))
	return a.seal(append(b, p.ID...))
}

// decodePlace returns nil for the beginning.
func (a *API) decodePlace(s string, q *liveness.Query) (*liveness.Place, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // nil is a place
	}
	b, err := a.open(s)
	if err != nil {
		return nil, err
	}
	if len(b) < placeLen || b[0] != listOfQuery(q) {
		return nil, errOtherList()
	}
	return &liveness.Place{Key: int64(binary.BigEndian.Uint64(b[1:])), ID: string(b[placeLen:])}, nil
}

// listOfQuery tells the lists apart whose cursors must not be mixed up.
func listOfQuery(q *liveness.Query) byte {
	list := byte(q.By) << 1
	if q.Descending {
		list |= 1
	}
	return list
}

func (a *API) seal(b []byte) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, maphash.Bytes(a.seed, b)))
}

func (a *API) open(s string) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	n := len(b) - sumLen
	if err != nil || n < cursorLen || binary.BigEndian.Uint64(b[n:]) != maphash.Bytes(a.seed, b[:n]) {
		return nil, huma.Error422UnprocessableEntity(
			"after: not a cursor of this process; pass on \"next\" as it was, and begin again without after once the server was restarted")
	}
	return b[:n], nil
}

func errOtherList() error {
	return huma.Error422UnprocessableEntity("after: a cursor of a list with another sort or order; begin again without after")
}
