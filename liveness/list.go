package liveness

// Cursor is a position in the list of devices. The zero Cursor is its beginning.
type Cursor uint64

// List appends pictures of at most limit devices to buffer, from a position on, in a stable order,
// and returns the position to go on from, 0 at the end. A device that is added meanwhile may or may
// not be among them; none is left out or listed twice.
func (r *Registry) List(buffer []View, from Cursor, limit int) ([]View, Cursor) {
	next := r.walk(from, func(_ *deviceShard, d *device) bool {
		if limit <= 0 {
			return false
		}
		buffer = append(buffer, r.viewLocked(d))
		limit--
		return true
	})
	return buffer, next
}

// each calls do for each device, with its shard locked. Devices that are made meanwhile may be left
// out.
func (r *Registry) each(do func(*deviceShard, *device)) {
	r.walk(0, func(sh *deviceShard, d *device) bool {
		do(sh, d)
		return true
	})
}

// walk is each from a position on, until do returns false. It returns the position of that device,
// 0 at the end.
func (r *Registry) walk(from Cursor, do func(*deviceShard, *device) bool) Cursor {
	shard, at := int(from>>32), int(uint32(from))
	for shard < shardCount {
		next, stopped := r.walkStride(shard, at, do)
		switch {
		case stopped:
			return Cursor(shard)<<32 | Cursor(next)
		case next == 0:
			shard, at = shard+1, 0
		default:
			at = next
		}
	}
	return 0
}

// walkSome is walk over up to limit devices that yields to all others: while more than a quarter of
// Config.Outbox waits for the sink it returns ErrBusy, and the position to go on from.
func (r *Registry) walkSome(from uint64, limit int, do func(*deviceShard, *device)) (next uint64, err error) {
	next = uint64(r.walk(Cursor(from), func(sh *deviceShard, d *device) bool {
		if limit <= 0 {
			return false
		}
		if r.outbox.queued.Load() > int64(r.outbox.limit)/4 {
			err = ErrBusy
			return false
		}
		limit--
		do(sh, d)
		return true
	}))
	return next, err
}

const (
	// strideLen is after how many devices a walk releases the shard's lock for others.
	strideLen = 512
	// nearLen is how many devices a walk reads ahead.
	nearLen = 64
)

// walkStride is walk for the next devices of one shard. It returns where it stopped, or where to go
// on, 0 at the shard's end.
func (r *Registry) walkStride(shard, from int, do func(*deviceShard, *device) bool) (next int, stopped bool) {
	sh := &r.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	to := min(from+strideLen, len(sh.places))
	for at := from; at < to; at += nearLen {
		end := min(at+nearLen, to)
		var near [nearLen]bool
		fetchLocked(sh.places[at:end], &near)
		for i, d := range sh.places[at:end] {
			if near[i] && !do(sh, d) {
				return at + i, true
			}
		}
	}
	if to == len(sh.places) {
		return 0, false
	}
	return to, false
}

// fetchLocked notes which of up to nearLen places hold a device, and reads both cache lines of each. The
// devices lie anywhere in memory, and a loop this short waits for many of them at a time, which makes a
// walk several times as fast.
func fetchLocked(places []*device, near *[nearLen]bool) {
	for i, d := range places {
		near[i] = d != nil && len(d.id) > 0 && d.marks&forgotten == 0
	}
}

// positionOf returns the position of a device.
func positionOf(d *device) Cursor {
	return Cursor(d.handle%shardCount)<<32 | Cursor(d.handle/shardCount)
}
