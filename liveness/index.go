package liveness

import "unsafe"

// index finds a device by the hash of its id. It is an open-addressing table with linear probing
// (Knuth, The Art of Computer Programming 3, section 6.4, algorithms L and R). An entry holds the
// upper bits of the hash, so that few wrong devices are read, and the device's address: a look-up
// waits for two cache misses, the entry and the device. For the garbage collector an entry is a
// number, so it has nothing to mark here; a device that is in the table must be kept alive, and is,
// by deviceShard.places. Not safe for concurrent use.
type index struct {
	entries []entry // the length is a power of two
	used    int
}

// entry is the upper 16 bits of a hash and an address; 0 is free. Go does not move what it has
// allocated, and allocates below 1<<48.
type entry uint64

const addressBits = 48

func entryOf(hash uint64, d *device) entry {
	address := uint64(uintptr(unsafe.Pointer(d)))
	if address>>addressBits != 0 {
		panic("liveness: an address of more than 48 bits")
	}
	return entry(hash>>addressBits<<addressBits | address)
}

// device returns the device of an entry that is not free. The rules of package unsafe do not cover
// this: it is right only because the device is alive.
func (e entry) device() *device {
	address := uintptr(e & (1<<addressBits - 1))
	return *(**device)(unsafe.Pointer(&address))
}

// find returns the device with an id that has this hash, or nil.
func (x *index) find(hash uint64, id string) *device {
	if len(x.entries) == 0 {
		return nil
	}
	mask := uint64(len(x.entries) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := x.entries[i]
		if e == 0 {
			return nil
		}
		if uint64(e)>>addressBits == hash>>addressBits {
			if d := e.device(); d.id == id {
				return d
			}
		}
	}
}

// insert adds a device. rehash returns the hash of one that is in the table.
func (x *index) insert(hash uint64, d *device, rehash func(*device) uint64) {
	if x.used >= len(x.entries)/5*4 {
		x.resize(max(2*len(x.entries), leastIndex), rehash)
	}
	x.place(hash, entryOf(hash, d))
	x.used++
}

// leastIndex is the least length of a table that is not empty.
const leastIndex = 16

// resize makes a table of another length.
func (x *index) resize(length int, rehash func(*device) uint64) {
	old := x.entries
	x.entries = make([]entry, length)
	for _, e := range old {
		if e != 0 {
			x.place(rehash(e.device()), e)
		}
	}
}

// remove removes a device that is in the table (algorithm R). rehash returns the hash of one that
// stays.
func (x *index) remove(hash uint64, d *device, rehash func(*device) uint64) {
	mask := uint64(len(x.entries) - 1)
	i, gone := hash&mask, entryOf(hash, d)
	for x.entries[i] != gone {
		i = (i + 1) & mask
	}
	for j := i; ; {
		j = (j + 1) & mask
		e := x.entries[j]
		if e == 0 {
			break
		}
		if home := rehash(e.device()) & mask; (j-home)&mask >= (j-i)&mask { // it can be found from i
			x.entries[i] = e
			i = j
		}
	}
	x.entries[i] = 0
	x.used--
	if n := len(x.entries); x.used < n/8 && n > leastIndex {
		x.resize(n/4, rehash)
	}
}

func (x *index) place(hash uint64, e entry) {
	mask := uint64(len(x.entries) - 1)
	i := hash & mask
	for x.entries[i] != 0 {
		i = (i + 1) & mask
	}
	x.entries[i] = e
}
