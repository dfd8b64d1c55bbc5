package liveness

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Order is by what devices are sorted.
type Order uint8

const (
	// ByID sorts by id, byte by byte.
	ByID Order = iota
	// ByLastSeen sorts by the last heartbeat. A device that was never heard comes first.
	ByLastSeen
	// BySince sorts by the last change of the state.
	BySince
)

// Place is a position in a sorted list: behind the device with this key and id.
type Place struct {
	Key int64 // 0 of ByID; otherwise an instant in nanoseconds, the least number if there is none
	ID  string
}

// Query is what [Registry.Select] is asked for.
type Query struct {
	Filter     Filter
	By         Order
	Descending bool
	After      *Place // nil: from the beginning
	Limit      int    // the most devices to return
}

// Pick is [Registry.List] for the devices that a filter chooses. It looks at all devices between two that
// it chooses; the position that it returns is that of a device that was chosen.
func (r *Registry) Pick(buffer []View, from Cursor, limit int, f *Filter) ([]View, Cursor) {
	s := r.newSieve(f)
	next := r.walk(from, func(_ *deviceShard, d *device) bool {
		if !s.matchesLocked(d) {
			return true
		}
		if limit <= 0 {
			return false
		}
		buffer = append(buffer, r.viewLocked(d))
		limit--
		return true
	})
	return buffer, next
}

// selectRounds bounds how often Select looks anew for devices in the place of those that are gone.
const selectRounds = 4

// Select returns pictures of the first devices of a sorted list, and the place to go on from, nil at its
// end. Devices of the same key are sorted by id. It looks at all devices, on up to two threads: some 30 ms
// for a million. A device that exists all the time is in exactly one of the pages of a list if its key does not
// change. A page is full unless it is the last, or many devices ceased to match while it was made.
func (r *Registry) Select(q Query) (page []View, next *Place) {
	s := r.newSieve(&q.Filter)
	next = q.After
	for range selectRounds {
		best, more := r.rank(&q, next, q.Limit-len(page))
		for _, p := range best {
			if v, ok := r.viewIf(p.ID, s); ok {
				page = append(page, v)
			}
		}
		if !more {
			return page, nil
		}
		if len(best) > 0 {
			next = &best[len(best)-1]
		}
		if len(page) >= q.Limit {
			break
		}
	}
	return page, next
}

// viewIf returns a picture of a device, and false if it is gone or does not match any more.
func (r *Registry) viewIf(id string, s *sieve) (View, bool) {
	sh, d, err := r.find(id)
	if err != nil {
		return View{}, false
	}
	defer sh.mu.Unlock()
	if !s.matchesLocked(d) {
		return View{}, false
	}
	return r.viewLocked(d), true
}

// fewDevices is up to how many devices one goroutine ranks.
const fewDevices = 20_000

// rank returns the first devices of a list behind a place, sorted, and reports whether there are more.
func (r *Registry) rank(q *Query, after *Place, limit int) (best []Place, more bool) {
	workers := min(2, runtime.GOMAXPROCS(0))
	if r.devices.Load() <= fewDevices {
		workers = 1
	}
	parts := make([]ranking, workers)
	var working sync.WaitGroup
	for i := range parts {
		k := &parts[i]
		*k = ranking{descending: q.Descending, after: after, limit: limit}
		work := func() { r.rankShards(q, k, i*shardCount/workers, (i+1)*shardCount/workers) }
		if i == workers-1 {
			work()
		} else {
			working.Go(work)
		}
	}
	working.Wait()
	for i := range parts {
		best, more = append(best, parts[i].best...), more || parts[i].more
	}
	slices.SortFunc(best, parts[0].compare)
	if len(best) > limit {
		best, more = best[:limit], true
	}
	return best, more
}

// rankShards ranks the devices of some shards.
func (r *Registry) rankShards(q *Query, k *ranking, from, to int) {
	s := r.newSieve(&q.Filter)
	for shard := from; shard < to; shard++ {
		r.eachBatch(shard, func(batch []*device) {
			chosen := s.siftLocked(batch)
			if q.By == ByLastSeen {
				s.fetchLastLocked(chosen)
			}
			for i, d := range chosen {
				k.add(s.placeLocked(d, i, q.By))
			}
		})
	}
}

// placeLocked returns the place of a device in a list, the i-th of those of [sieve.fetchLastLocked].
func (s *sieve) placeLocked(d *device, i int, by Order) Place {
	p := Place{ID: d.id}
	switch by {
	case ByID:
	case BySince:
		p.Key = d.since
	case ByLastSeen:
		p.Key = math.MinInt64
		if seen := s.seenAt(d, s.last[i]); !seen.IsZero() {
			p.Key = seen.UnixNano()
		}
	}
	return p
}

// ranking keeps the first of the places that are added, as a heap with the last of them on top.
type ranking struct {
	descending bool
	after      *Place // nil: from the beginning
	limit      int
	best       []Place
	more       bool // others were behind those that are kept
}

// compare returns less than 0 if a comes before b.
func (k *ranking) compare(a, b Place) int {
	order := cmp.Compare(a.Key, b.Key)
	if order == 0 {
		order = strings.Compare(a.ID, b.ID)
	}
	if k.descending {
		return -order
	}
	return order
}

// add adds a place. Most are behind those that are kept, and cost a comparison.
func (k *ranking) add(p Place) {
	if k.after != nil && k.compare(p, *k.after) <= 0 {
		return
	}
	if len(k.best) < k.limit {
		k.best = append(k.best, p)
		k.rise(len(k.best) - 1)
		return
	}
	k.more = true
	if k.limit > 0 && k.compare(p, k.best[0]) < 0 {
		k.best[0] = p
		k.sink()
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
