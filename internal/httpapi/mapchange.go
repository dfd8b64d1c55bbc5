package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

const (
	// changesKept is how many changes of the fleet map are kept, cellsKept how many cells they have together.
	changesKept = 120
	cellsKept   = 200_000
	// cellsSent is the most cells that a stream is sent at a time; with more, to read the map is cheaper.
	cellsSent = 50_000
)

// mapChange is by what a version of the fleet map differs from the one before. It is never changed.
type mapChange struct {
	version uint64
	cells   int    // how many have changed
	message []byte // of a stream; nil if there are more than cellsSent
}

// mapChangeOf returns the change to a version. The maps may differ in length.
func mapChangeOf(from, to []byte, version uint64) mapChange {
	c := mapChange{version: version}
	var encoded []byte
	last := 0
	eachDifference(from, to, func(number int, cell byte) {
		if c.cells++; c.cells > cellsSent {
			return
		}
		encoded = binary.AppendUvarint(encoded, uint64(number-last)<<4|uint64(cell))
		last = number
	})
	if c.cells <= cellsSent {
		c.message = fmt.Appendf(nil, "id: %d\nevent: map\ndata: {\"from\":%d,\"to\":%d,\"cells\":\"", version, version-1, version)
		c.message = base64.StdEncoding.AppendEncode(c.message, encoded)
		c.message = append(c.message, "\"}\n\n"...)
	}
	return c
}

// eachDifference calls do for each cell that differs, in order. What one map is longer has no devices in the
// other.
func eachDifference(from, to []byte, do func(number int, cell byte)) {
	const step = 512
	var none [step]byte
	part := func(of []byte, at, end int) []byte {
		p := none[:end-at]
		if at < len(of) {
			p = of[at:min(end, len(of))]
		}
		return p
	}
	for at := 0; at < max(len(from), len(to)); at += step {
		end := min(at+step, max(len(from), len(to)))
		a, b := part(from, at, end), part(to, at, end)
		if bytes.Equal(a, b) {
			continue
		}
		for i := range end - at {
			var before, after byte
			if i < len(a) {
				before = a[i]
			}
			if i < len(b) {
				after = b[i]
			}
			if (before^after)&0xf != 0 {
				do(2*(at+i), after&0xf)
			}
			if (before^after)>>4 != 0 {
				do(2*(at+i)+1, after>>4)
			}
		}
	}
}

// mapHistory has the latest changes of the fleet map, each to the version after the one before. It is not
// for concurrent use.
type mapHistory struct {
	changes []mapChange // oldest first
	cells   int         // of those that have a message
}

// add adds the next change, and forgets the oldest ones if there are too many.
func (h *mapHistory) add(c mapChange) {
	h.changes = append(h.changes, c)
	h.cells += c.kept()
	for len(h.changes) > changesKept || h.cells > cellsKept {
		h.cells -= h.changes[0].kept()
		h.changes[0] = mapChange{} // its memory is freed before that of the slice
		h.changes = h.changes[1:]
	}
}

func (c *mapChange) kept() int {
	if c.message == nil {
		return 0
	}
	return c.cells
}

// since returns the messages that lead from one version to another, and false if the map must be read
// anew: because they are not known any more, or say too much.
func (h *mapHistory) since(from, to uint64) (messages [][]byte, ok bool) {
	if from == to {
		return nil, true
	}
	if len(h.changes) == 0 || from > to || from+1 < h.changes[0].version {
		return nil, false
	}
	cells := 0
	for i := int(from + 1 - h.changes[0].version); i < len(h.changes) && h.changes[i].version <= to; i++ {
		c := &h.changes[i]
		if cells += c.cells; c.message == nil || cells > cellsSent {
			return nil, false
		}
		messages = append(messages, c.message)
	}
	return messages, true
}
