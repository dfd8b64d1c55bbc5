package liveness

import "time"

// heardEnd is the end of a device's connection to somebody else, a broker or a gateway, of which that told after a cut, before anything else
// was heard of the device. It ends the reconnect grace: what the source lost in the cut is not what the device has lost. So the device has
// the time to come back, and no more; also if it is reported, since whoever reports it may have begun anew, too. See signal.tellsEnd.
type heardEnd struct {
	cut   time.Duration // the latest cut then: one that comes later counts
	at    time.Duration // when it was heard
	ended time.Duration // the end of the time to come back
	until time.Duration // until of the device's condition, as long as that is about this end
}

// noteEndLocked notes an end of the device's connection that is heard after a cut, if that makes the condition next. grace is its time to
// come back.
func (sh *deviceShard) noteEndLocked(d *device, sig signal, next condition, grace time.Duration) {
	if sig.Kind != Disconnected || !next.ending() {
		return
	}
	f, _ := d.conditionLocked()
	cut := time.Duration(d.source.gaps.cut.Load())
	again := sig.Retained && d.toldUntilLocked(f) != 0 // it tells of an end that is known
	if d.wholeLocked(next.last) >= cut || !sig.tellsEnd(cut) && !again {
		dropKept(&sh.ends, d.handle)
		return
	}
	if sh.ends == nil {
		sh.ends = make(map[uint32]heardEnd)
	}
	sh.ends[d.handle] = heardEnd{cut: cut, at: sig.At, ended: max(next.until, sig.At+grace), until: next.until}
}

// tellsEnd reports whether a signal tells that a device's connection ended, whatever a cut at a listening time has ended. One that a broker
// had retained may be from before the cut, as one that waited here may, and a session may end because of the cut.
func (sig signal) tellsEnd(cut time.Duration) bool {
	return sig.Kind == Disconnected && !sig.Retained && !sig.end && sig.At >= cut
}

// toldEndLocked returns the end that the device's condition is about, if it was told after a cut.
func (d *device) toldEndLocked(c condition) (end heardEnd, ok bool) {
	if !c.ending() {
		return heardEnd{}, false
	}
	end, ok = d.source.registry.shards[d.handle%shardCount].ends[d.handle]
	return end, ok && end.until == c.until
}

// toldUntilLocked returns when the device's time to come back ends, if the end of its connection was told after the latest cut; otherwise 0.
func (d *device) toldUntilLocked(c condition) time.Duration {
	if end, ok := d.toldEndLocked(c); ok && end.cut == time.Duration(d.source.gaps.cut.Load()) {
		return end.ended
	}
	return 0
}

// connectionEndLocked returns how the connection of a device ended that has this condition.
func (d *device) connectionEndLocked(c condition) connectionEnd {
	e := connectionEnd{closed: d.endedLocked(c), why: c.reason, atOnce: d.spanLocked(c) == atOnce}
	if end, told := d.toldEndLocked(c); told {
		e.closed, e.told = max(end.at-c.last, 0), true
	}
	return e
}
