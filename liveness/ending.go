package liveness

import "time"

// heardEnd is the end of a device's connection that was heard after a cut, while nothing of the device was.
type heardEnd struct {
	at    time.Duration // listening time
	until time.Duration // until of the device's condition, as long as that is about this end
}

// noteEndLocked notes that the end of a device's connection was heard. Nothing that was lost in a cut
// before it matters any more, so that the device has no reconnect grace for that. A stall before it still
// does: the device may be back, in what has not been read yet.
func (sh *deviceShard) noteEndLocked(d *device, sig signal, next condition) {
	if sig.Kind != Disconnected || !next.ending() {
		return
	}
	before, known := d.heardEndLocked()
	at := sig.At
	switch {
	case sig.Retained && known: // of an end that is known
		at = before.at
	case sig.Retained || !d.source.gaps.onlyCut(d.wholeLocked(next.last)):
		return
	}
	if sh.ends == nil {
		sh.ends = make(map[uint32]heardEnd)
	}
	sh.ends[d.handle] = heardEnd{at, next.until}
}

// heardEndLocked returns the end of the device's connection, if it was heard after a cut.
func (d *device) heardEndLocked() (end heardEnd, ok bool) {
	if d.source == nil || d.reason == NoReason || d.state == Offline {
		return heardEnd{}, false
	}
	end, ok = d.source.registry.shards[d.handle%shardCount].ends[d.handle]
	return end, ok && end.until == d.until
}

// onlyCut reports whether there was a cut after a listening time, and no stall since.
func (g *gaps) onlyCut(last time.Duration) bool {
	return last < time.Duration(g.cut.Load()) && len(g.kept()) == 0
}

// closedLocked returns how long after its last heartbeat the connection of a device ended that has this
// condition. An end that a retained message told of is taken to be from before the source was cut off, unless
// the verdict was not put off.
func (d *device) closedLocked(c condition) time.Duration {
	closed := c.until - d.heldLocked().CloseGrace
	if e, ok := d.heardEndLocked(); ok {
		closed = e.at
	} else if g := &d.source.gaps; c.state != Offline && g.onlyCut(d.wholeLocked(c.last)) {
		closed = min(closed, time.Duration(g.cut.Load())-1)
	}
	return closed - c.last
}
