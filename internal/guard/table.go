package guard

import (
	"encoding/binary"
	"hash/maphash"
)

// maxDevices bounds a table.
const maxDevices = 10_000_000

// kind is what a device has to show.
type kind uint8

const (
	free   kind = iota // nothing
	digest             // a token with this SHA-256
	plain              // this token, or a proof that it knows it
)

// table holds devices and their secrets without a pointer for each. It is not changed once it is
// complete.
type table struct {
	seed maphash.Seed
	// entries are one behind the other: the kind, the length of the id, the length of the secret in
	// two bytes, the id, the secret.
	entries []byte
	// slots are where entries begin, plus 1; 0 is none. Their number is a power of two, at least
	// half again as many as devices. A device's slot is the first, from the one of its hash on,
	// that holds it.
	slots   []uint32
	count   int
	accepts bool // it has a line that says that fewer devices than before are no mistake
}

const head = 4

func newTable() *table { return &table{seed: maphash.MakeSeed(), slots: make([]uint32, 8)} }

// find returns what a device has to show.
func (t *table) find(id []byte) (what kind, secret []byte, ok bool) {
	at := t.slots[t.slot(id)]
	if at == 0 {
		return 0, nil, false
	}
	what, _, secret, _ = t.entry(int(at - 1))
	return what, secret, true
}

// slot returns the slot of a device, or the one that would be.
func (t *table) slot(id []byte) int {
	mask := len(t.slots) - 1
	for i := int(maphash.Bytes(t.seed, id)) & mask; ; i = (i + 1) & mask {
		at := t.slots[i]
		if at == 0 {
			return i
		}
		if _, other, _, _ := t.entry(int(at - 1)); string(other) == string(id) {
			return i
		}
	}
}

// entry returns the entry at a place, and where the next one is.
func (t *table) entry(at int) (what kind, id, secret []byte, next int) {
	e := t.entries[at:]
	middle := head + int(e[1])
	end := middle + int(binary.LittleEndian.Uint16(e[2:]))
	return kind(e[0]), e[head:middle], e[middle:end:end], at + end
}

// add adds a device. It returns false if it is there already.
func (t *table) add(id []byte, what kind, secret []byte) bool {
	i := t.slot(id)
	if t.slots[i] != 0 {
		return false
	}
	t.slots[i] = uint32(len(t.entries)) + 1
	t.entries = append(t.entries, byte(what), byte(len(id)))
	t.entries = binary.LittleEndian.AppendUint16(t.entries, uint16(len(secret)))
	t.entries = append(append(t.entries, id...), secret...)
	t.count++
	if t.count*3 > len(t.slots)*2 {
		t.grow()
	}
	return true
}

func (t *table) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	for at := 0; at < len(t.entries); {
		_, id, _, next := t.entry(at)
		t.slots[t.slot(id)] = uint32(at) + 1
		at = next
	}
}
