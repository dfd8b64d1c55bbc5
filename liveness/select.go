package liveness

import (
	"runtime"
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

// Pick returns pictures of devices that a filter chooses like [Registry.List], from a position on that Pick
// returned, and in an order of its own. It looks at all devices between two that it chooses; the position that
// it returns is that of a device that was chosen.
func (r *Registry) Pick(buffer []View, from Cursor, limit int, f *Filter) ([]View, Cursor) {
	s := r.newSieve(f)
	shard, at := int(from>>32), int(uint32(from))
	var next Cursor
	pick := func(batch []*device) {
		for len(batch) > 0 && int(batch[0].handle/shardCount) < at { // of the page before
			batch = batch[1:]
		}
		for _, d := range s.siftLocked(batch) {
			if limit <= 0 {
				next = positionOf(d)
				return
			}
			buffer = append(buffer, r.viewLocked(d))
			limit--
		}
	}
	var batch [nearLen]*device
	block := at - at%nearLen
	for more := true; more; block += nearLen {
		more = shard > 0 // those before it may have more
		for ; shard < shardCount; shard++ {
			more = r.shards[shard].eachNear(block, &batch, pick) || more
			if next != 0 {
				return buffer, next
			}
			at = 0
		}
		shard = 0
	}
	return buffer, 0
}

// selectRounds bounds how often Select looks anew for devices in the place of those that are gone.
const selectRounds = 4

// Select returns pictures of the first devices of a sorted list, and the place to go on from, nil at its
// end. Devices of the same key are sorted by id. It looks at all devices, on up to two threads: a million
// take some 30 ms by ByID and BySince, and 70 to 90 ms by ByLastSeen or with bounds of the last heartbeat,
// since that is in the timers, which lie elsewhere. No lock is held for more than 64 devices. A device that
// exists all the time is in exactly one of the pages of a list if its key does not change. A page is full
// unless it is the last, or many devices ceased to match while it was made.
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
	var all scan
	var working sync.WaitGroup
	for i := range parts {
		parts[i] = newRanking(q, after, limit)
		work := func() { r.rankSome(q, &parts[i], &all) }
		if i == workers-1 {
			work()
		} else {
			working.Go(work)
		}
	}
	working.Wait()
	return merged(parts)
}

// rankSome ranks those devices that a scan still has to come to.
func (r *Registry) rankSome(q *Query, k *ranking, c *scan) {
	s := r.newSieve(&q.Filter)
	s.sees = s.sees || q.By == ByLastSeen
	c.each(r, func(batch []*device) {
		chosen := s.siftLocked(batch)
		k.add(chosen, s.keysLocked(chosen, q.By))
	})
}

// keysLocked returns by what the devices are sorted that siftLocked has just returned, in the sieve's memory.
func (s *sieve) keysLocked(chosen []*device, by Order) []int64 {
	switch by {
	case ByLastSeen:
		return s.seen[:len(chosen)]
	case BySince:
		for i, d := range chosen {
			s.keys[i] = d.since
		}
	case ByID:
		for i, d := range chosen {
			s.keys[i] = keyOf(d.short)
		}
	}
	return s.keys[:len(chosen)]
}
