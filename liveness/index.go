package liveness

// index finds a device's handle by the hash of its id. It is an open-addressing table with linear
// probing (Knuth, The Art of Computer Programming 3, section 6.4, algorithms L and R). An entry
// holds the upper half of the hash and the handle, so that few wrong devices are read. Not safe for
// concurrent use.
type index struct {
	entries []uint64 // hash tag << 32 | handle + 1; 0 is free; the length is a power of two
	used    int
}

// find returns the handle with this hash that same accepts.
func (x *index) find(hash uint64, same func(handle uint32) bool) (uint32, bool) {
	if len(x.entries) == 0 {
		return 0, false
	}
	mask := uint64(len(x.entries) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := x.entries[i]
		if e == 0 {
			return 0, false
		}
		if handle := uint32(e) - 1; e>>32 == hash>>32 && same(handle) {
			return handle, true
		}
	}
}

// insert adds a handle. rehash returns the hash of one that is in the table.
func (x *index) insert(hash uint64, handle uint32, rehash func(handle uint32) uint64) {
	if x.used >= len(x.entries)/5*4 {
		x.resize(max(2*len(x.entries), leastIndex), rehash)
	}
	x.place(hash, hash>>32<<32|uint64(handle+1))
	x.used++
}

// leastIndex is the least length of a table that is not empty.
const leastIndex = 16

// resize makes a table of another length.
func (x *index) resize(length int, rehash func(handle uint32) uint64) {
	old := x.entries
	x.entries = make([]uint64, length)
	for _, e := range old {
		if e != 0 {
			x.place(rehash(uint32(e)-1), e)
		}
	}
}

// remove removes a handle that is in the table (algorithm R). rehash returns the hash of one that
// stays.
func (x *index) remove(hash uint64, handle uint32, rehash func(handle uint32) uint64) {
	mask := uint64(len(x.entries) - 1)
	i := hash & mask
	for uint32(x.entries[i])-1 != handle {
		i = (i + 1) & mask
	}
	for j := i; ; {
		j = (j + 1) & mask
		e := x.entries[j]
		if e == 0 {
			break
		}
		if home := rehash(uint32(e)-1) & mask; (j-home)&mask >= (j-i)&mask { // it can be found from i
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

func (x *index) place(hash, entry uint64) {
	mask := uint64(len(x.entries) - 1)
	i := hash & mask
	for x.entries[i] != 0 {
		i = (i + 1) & mask
	}
	x.entries[i] = entry
}
