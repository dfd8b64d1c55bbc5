package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"hash/maphash"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

const cursorLen = 16

// encodeCursor returns an opaque text for a cursor. Its check sum is valid in this process only, as
// the order of devices is.
func (a *API) encodeCursor(c liveness.Cursor) string {
	if c == 0 {
		return ""
	}
	var b [cursorLen]byte
	binary.BigEndian.PutUint64(b[:], uint64(c))
	binary.BigEndian.PutUint64(b[8:], maphash.Bytes(a.seed, b[:8]))
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (a *API) decodeCursor(s string) (liveness.Cursor, error) {
	if s == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != cursorLen || binary.BigEndian.Uint64(b[8:]) != maphash.Bytes(a.seed, b[:8]) {
		return 0, huma.Error422UnprocessableEntity(
			"after: not a cursor of this process; pass on \"next\" as it was, and begin again without after once the server was restarted")
	}
	return liveness.Cursor(binary.BigEndian.Uint64(b)), nil
}
