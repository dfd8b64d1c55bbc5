package timer

import (
	"iter"
	"math"
)

// hint is a heap entry: "look at this slot then". The upper half is the key, in ticks after the
// base of the shard, the lower half the ref: group and slot. Hints compare as plain numbers.
type hint uint64

const (
	maxKey   = math.MaxUint32
	slotBits = 24
	slotMask = 1<<slotBits - 1
)

func newHint(key, ref uint32) hint { return hint(key)<<32 | hint(ref) }

func (h hint) key() uint32 { return uint32(h >> 32) }
func (h hint) ref() ref    { return ref(h) }

const (
	arity = 8
	// root is the place of the least hint, so that the children of each node begin at a multiple of
	// arity and fill one cache line: the children of i are (i-root+1)*arity and the seven after it.
	root = arity - 1

	pageBits = 9
	pageLen  = 1 << pageBits // hints in a page, a multiple of arity
	pageMask = pageLen - 1

	// noHint fills the places after the last hint, so that a node always has as many children as
	// its cache line holds.
	noHint = hint(math.MaxUint64)
)

// hintHeap is an implicit 8-ary min-heap (Johnson, "Priority queues with update and finding minimum
// spanning trees", Information Processing Letters 4, 1975, for the d-ary heap). It lies in pages,
// so that growing copies nothing and shrinking gives memory back at once. Not safe for concurrent
// use.
type hintHeap struct {
	pages []*[pageLen]hint // the first root places of the first page are unused
	n     int
	// moved, if not nil, is told the place of each hint that is put somewhere.
	moved func(h hint, at int)
}

func (q *hintHeap) len() int { return q.n }

func (q *hintHeap) at(i int) *hint { return &q.pages[i>>pageBits][i&pageMask] }

// min returns the least hint; the heap must not be empty.
func (q *hintHeap) min() hint { return *q.at(root) }

func (q *hintHeap) push(h hint) {
	last := root + q.n
	if last>>pageBits == len(q.pages) {
		q.pages = append(q.pages, newPage())
	}
	q.n++
	q.up(last, h)
}

func newPage() *[pageLen]hint {
	page := new([pageLen]hint)
	for i := range page {
		page[i] = noHint
	}
	return page
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
	q.n--
	last := root + q.n
	h := *q.at(last)
	*q.at(last) = noHint
	if at != last {
		q.fix(at, h)
	}
	q.shrink()
}

// fix puts h at a place, whatever was there, and mends the order.
func (q *hintHeap) fix(at int, h hint) {
	if at > root && h < *q.at(parent(at)) {
		q.up(at, h)
	} else {
		q.down(at, h)
	}
}

// rebuild replaces each hint by another one, or drops it, in O(n). replace is given a page of hints at a
// time; it returns those that are to be there instead, in the same memory.
func (q *hintHeap) rebuild(replace func([]hint) []hint) {
	end, kept := root+q.n, root
	for first := 0; first < end; first += pageLen {
		page := q.pages[first>>pageBits][max(first, root)-first : min(end-first, pageLen)]
		for _, h := range replace(page) {
			*q.at(kept) = h // never ahead of what is read
			kept++
		}
	}
	for i := kept; i < end; i++ {
		*q.at(i) = noHint
	}
	q.n = kept - root
	q.shrink()
	for i := kept - 1; i >= root; i-- {
		q.down(i, *q.at(i))
	}
}

// all yields the hints in no particular order.
func (q *hintHeap) all() iter.Seq[hint] {
	return func(yield func(hint) bool) {
		for i := root; i < root+q.n; i++ {
			if !yield(*q.at(i)) {
				return
			}
		}
	}
}

// shift lowers every key by the same number, which none may be below: the order does not change.
func (q *hintHeap) shift(keys uint32) {
	for i := root; i < root+q.n; i++ {
		*q.at(i) -= newHint(keys, 0)
	}
}

func (q *hintHeap) up(i int, h hint) {
	for i > root {
		p := parent(i)
		above := *q.at(p)
		if above <= h {
			break
		}
		q.put(i, above)
		i = p
	}
	q.put(i, h)
}

func (q *hintHeap) down(i int, h hint) {
	for {
		first := (i - root + 1) * arity
		if first >= root+q.n {
			break
		}
		least, child := noHint, 0
		for j, c := range q.childrenAt(first) {
			if c < least {
				least, child = c, j
			}
		}
		if h <= least {
			break
		}
		q.put(i, least)
		i = first + child
	}
	q.put(i, h)
}

// childrenAt returns the cache line of siblings that begins at a place.
func (q *hintHeap) childrenAt(first int) *[arity]hint {
	return (*[arity]hint)(q.pages[first>>pageBits][first&pageMask:])
}

func (q *hintHeap) put(i int, h hint) {
	*q.at(i) = h
	if q.moved != nil {
		q.moved(h, i)
	}
}

// shrink gives back the pages after the last hint but one, which the next push may want.
func (q *hintHeap) shrink() {
	if needed := (root+q.n)>>pageBits + 2; needed < len(q.pages) {
		clear(q.pages[needed:])
		q.pages = q.pages[:needed]
	}
}

func parent(i int) int { return i/arity + root - 1 }
