package liveness

import "sync/atomic"

// scan is a way over all devices that several goroutines share. It goes by blocks: the next nearLen positions of
// each shard. Devices that were made one after the other lie in one block, so what is read of them, their timers
// and ids lie close together, too: a page of memory, or a cache line, serves many of them before the scan goes on.
// The zero scan is at the beginning.
type scan struct {
	block atomic.Int64 // the next one
}

// each calls do for all devices, with their shard locked, up to nearLen at a time. do may change the slice, and
// must not keep it. A device that is made or forgotten meanwhile may be left out.
func (c *scan) each(r *Registry, do func([]*device)) {
	var batch [nearLen]*device
	for more := true; more; {
		more = false
		from := int(c.block.Add(1)-1) * nearLen
		for i := range r.shards {
			more = r.shards[i].eachNear(from, &batch, do) || more
		}
	}
}

// eachNear calls do for the devices at nearLen positions, and reports whether there are positions behind them.
// It reads both cache lines of each device in a short loop, so that the processor waits for many at a time.
func (sh *deviceShard) eachNear(from int, batch *[nearLen]*device, do func([]*device)) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if from >= len(sh.places) {
		return false
	}
	n := 0
	for _, d := range sh.places[from:min(from+nearLen, len(sh.places))] {
		if d != nil && len(d.id) > 0 && d.marks&forgotten == 0 {
			batch[n] = d
			n++
		}
	}
	do(batch[:n])
	return from+nearLen < len(sh.places)
}
