package timer

import (
	"iter"
	"math"
	"slices"
)

// hint is a heap entry: "look at this slot then". The upper half is the key, in ticks after the base of the shard, the lower
// half the ref: group and slot. Hints compare as plain numbers.
type hint uint64

const (
	maxKey   = math.MaxUint32
	slotBits = 24
	slotMask = 1<<slotBits - 1
)

func newHint(key, ref uint32) hint { return hint(key)<<32 | hint(ref) }

func (h hint) key() uint32 { return uint32(h >> 32) }
func (h hint) ref() ref    { return ref(h) }

// ref names a slot within a shard.
type ref uint32

func newRef(group uint8, slot uint32) ref { return ref(group)<<slotBits | ref(slot) }

func (r ref) group() uint8 { return uint8(r >> slotBits) }
func (r ref) slot() uint32 { return uint32(r & slotMask) }

const (
	arity = 8
	// root is where the heap begins in its slice, so that the children of each node begin at a multiple of arity and fill
	// one cache line: the children of i are (i-root+1)*arity and the seven after it.
	root = arity - 1
	// minCap is the capacity below which a heap is not worth shrinking.
	minCap = 1024
)

// hintHeap is an implicit 8-ary min-heap (Johnson, "Priority queues with update and finding minimum spanning trees",
// Information Processing Letters 4, 1975, for the d-ary heap). Not safe for concurrent use.
type hintHeap struct {
	nodes []hint // the first root places are unused
	// moved, if not nil, is told the place of each hint that is put somewhere.
	moved func(h hint, at int)
}

func (q *hintHeap) len() int { return max(len(q.nodes)-root, 0) }

// min returns the least hint; the heap must not be empty.
func (q *hintHeap) min() hint { return q.nodes[root] }

func (q *hintHeap) push(h hint) {
	if len(q.nodes) == cap(q.nodes) {
		q.setCap(cap(q.nodes) + cap(q.nodes)/8 + 64)
	}
	if len(q.nodes) < root {
		q.nodes = q.nodes[:root]
	}
	q.nodes = append(q.nodes, h)
	q.up(len(q.nodes)-1, h)
}

// replaceMin puts h in the place of the least hint.
func (q *hintHeap) replaceMin(h hint) { q.down(root, h) }

// pop removes the least hint.
func (q *hintHeap) pop() hint {
	h := q.min()
	q.remove(root)
	return h
}

// remove takes out the hint at a place.
func (q *hintHeap) remove(at int) {
	last := len(q.nodes) - 1
	h := q.nodes[last]
	q.nodes = q.nodes[:last]
	if at != last {
		q.fix(at, h)
	}
	q.shrink()
}

// fix puts h at a place, whatever was there, and mends the order.
func (q *hintHeap) fix(at int, h hint) {
	if at > root && h < q.nodes[parent(at)] {
		q.up(at, h)
	} else {
		q.down(at, h)
	}
}

// rebuild replaces each hint by another one, or drops it, in O(n).
func (q *hintHeap) rebuild(replace func(hint) (_ hint, keep bool)) {
	if q.len() == 0 {
		return
	}
	kept := q.nodes[:root]
	for _, h := range q.nodes[root:] {
		if h, keep := replace(h); keep {
			kept = append(kept, h)
		}
	}
	q.nodes = kept
	q.shrink()
	for i := len(q.nodes) - 1; i >= root; i-- {
		q.down(i, q.nodes[i])
	}
}

// all yields the hints in no particular order.
func (q *hintHeap) all() iter.Seq[hint] { return slices.Values(q.nodes[min(root, len(q.nodes)):]) }

// shift lowers every key by the same number, which none may be below: the order does not change.
func (q *hintHeap) shift(keys uint32) {
	for i := root; i < len(q.nodes); i++ {
		q.nodes[i] -= newHint(keys, 0)
	}
}

func (q *hintHeap) up(i int, h hint) {
	for i > root {
		p := parent(i)
		if q.nodes[p] <= h {
			break
		}
		q.put(i, q.nodes[p])
		i = p
	}
	q.put(i, h)
}

func (q *hintHeap) down(i int, h hint) {
	n := len(q.nodes)
	for {
		first := (i - root + 1) * arity
		if first >= n {
			break
		}
		least, at := q.nodes[first], first
		for j := first + 1; j < min(first+arity, n); j++ {
			if q.nodes[j] < least {
				least, at = q.nodes[j], j
			}
		}
		if h <= least {
			break
		}
		q.put(i, least)
		i = at
	}
	q.put(i, h)
}

func (q *hintHeap) put(i int, h hint) {
	q.nodes[i] = h
	if q.moved != nil {
		q.moved(h, i)
	}
}

func (q *hintHeap) shrink() {
	if c := cap(q.nodes); c > minCap && len(q.nodes) < c/4 {
		q.setCap(c / 2)
	}
}

func (q *hintHeap) setCap(c int) {
	nodes := make([]hint, len(q.nodes), c)
	copy(nodes, q.nodes)
	q.nodes = nodes
}

func parent(i int) int { return i/arity + root - 1 }
