package liveness

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// ranking keeps the first of the devices that are added, as a heap of their places with the last of them on
// top. The keys of these places are those of ranking.key.
type ranking struct {
	by         Order
	descending bool
	after      *Place // nil: from the beginning
	limit      int
	best       []Place
	more       bool // others were behind those that are kept

	// No device with a key less than first or greater than last is kept.
	first, last int64
}

func newRanking(q *Query, after *Place, limit int) ranking {
	k := ranking{by: q.By, descending: q.Descending, limit: limit, first: math.MinInt64, last: math.MaxInt64}
	if after != nil {
		behind := Place{Key: after.Key, ID: after.ID}
		if k.by == ByID {
			behind.Key = keyOfID(after.ID)
		}
		behind.Key = k.key(behind.Key)
		k.after, k.first = &behind, behind.Key
	}
	return k
}

// key turns a key into one that is less for a device that comes before another, and back.
func (k *ranking) key(key int64) int64 {
	if k.descending {
		return ^key
	}
	return key
}

// keyOfID is keyOf the first bytes of an id.
func keyOfID(id string) int64 {
	var first [shortID]byte
	copy(first[:], id)
	return keyOf(first)
}

// keyOf returns a key of the first bytes of an id. One id comes before another if its key is less; if the keys
// are equal, the ids decide.
func keyOf(first [shortID]byte) int64 {
	return int64(binary.BigEndian.Uint64(first[:8]) ^ 1<<63)
}

// compare returns less than 0 if a comes before b.
func (k *ranking) compare(a, b Place) int {
	if order := cmp.Compare(a.Key, b.Key); order != 0 {
		return order
	}
	if k.descending {
		return strings.Compare(b.ID, a.ID)
	}
	return strings.Compare(a.ID, b.ID)
}

// add adds devices by their keys. Most are behind those that are kept, and cost two comparisons of numbers.
func (k *ranking) add(devices []*device, keys []int64) {
	for i, d := range devices {
		switch key := k.key(keys[i]); {
		case key < k.first:
		case key > k.last:
			k.more = true
		default:
			k.addPlace(Place{key, d.id})
		}
	}
}

func (k *ranking) addPlace(p Place) {
	if k.after != nil && k.compare(p, *k.after) <= 0 {
		return
	}
	if len(k.best) < k.limit {
		k.best = append(k.best, p)
		k.rise(len(k.best) - 1)
		k.boundLast()
		return
	}
	k.more = true
	if k.limit > 0 && k.compare(p, k.best[0]) < 0 {
		k.best[0] = p
		k.sink()
		k.boundLast()
	}
}

// boundLast notes the key behind which no device is kept any more.
func (k *ranking) boundLast() {
	if len(k.best) == k.limit {
		k.last = k.best[0].Key
	}
}

// rise moves a new place up the heap.
func (k *ranking) rise(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if k.compare(k.best[i], k.best[parent]) <= 0 {
			return
		}
		k.best[i], k.best[parent] = k.best[parent], k.best[i]
		i = parent
	}
}

// sink moves the place on top down the heap.
func (k *ranking) sink() {
	for i := 0; ; {
		last := 2*i + 1
		if last >= len(k.best) {
			return
		}
		if right := last + 1; right < len(k.best) && k.compare(k.best[right], k.best[last]) > 0 {
			last = right
		}
		if k.compare(k.best[last], k.best[i]) <= 0 {
			return
		}
		k.best[i], k.best[last] = k.best[last], k.best[i]
		i = last
	}
}

// merged returns the first places of several rankings of one query, sorted, and reports whether there are more.
func merged(parts []ranking) (best []Place, more bool) {
	k := &parts[0]
	for i := range parts {
		best, more = append(best, parts[i].best...), more || parts[i].more
	}
	slices.SortFunc(best, k.compare)
	if len(best) > k.limit {
		best, more = best[:k.limit], true
	}
	for i := range best {
		if best[i].Key = k.key(best[i].Key); k.by == ByID {
			best[i].Key = 0
		}
	}
	return best, more
}
