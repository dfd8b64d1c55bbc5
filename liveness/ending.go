package liveness

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

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
func (sh *deviceShard) noteEndLocked(d *device, sig signal, next judgement.Condition, grace time.Duration) {
	if sig.Kind != Disconnected || !next.Ending() {
		return
	}
	f, _ := d.conditionLocked()
	cut := d.source.deafness.Cut()
	again := sig.Retained && d.toldUntilLocked(f) != 0 // it tells of an end that is known
	if d.wholeLocked(next.Last) >= cut || !sig.tellsEnd(cut) && !again {
		dropKept(&sh.ends, d.handle)
		return
	}
	if sh.ends == nil {
		sh.ends = make(map[uint32]heardEnd)
	}
	sh.ends[d.handle] = heardEnd{cut: cut, at: sig.At, ended: max(next.Until, sig.At+grace), until: next.Until}
}

// tellsEnd reports whether a signal tells that a device's connection ended, whatever a cut at a listening time has ended. One that a broker
// had retained may be from before the cut, as one that waited here may, and a session may end because of the cut.
func (sig signal) tellsEnd(cut time.Duration) bool {
	return sig.Kind == Disconnected && !sig.Retained && !sig.end && sig.At >= cut
}

// toldEndLocked returns the end that the device's condition is about, if it was told after a cut.
func (d *device) toldEndLocked(c judgement.Condition) (end heardEnd, ok bool) {
	if !c.Ending() {
		return heardEnd{}, false
	}
	end, ok = d.source.registry.shards[d.handle%shardCount].ends[d.handle]
	return end, ok && end.until == c.Until
}

// toldUntilLocked returns when the device's time to come back ends, if the end of its connection was told after the latest cut; otherwise 0.
func (d *device) toldUntilLocked(c judgement.Condition) time.Duration {
	if end, ok := d.toldEndLocked(c); ok && end.cut == d.source.deafness.Cut() {
		return end.ended
	}
	return 0
}

// connectionEndLocked returns how the connection of a device ended that has this condition.
func (d *device) connectionEndLocked(c judgement.Condition) connectionEnd {
	e := connectionEnd{closed: d.endedLocked(c), why: c.Reason, atOnce: d.spanLocked(c) == atOnce}
	if end, told := d.toldEndLocked(c); told {
		e.closed, e.told = max(end.at-c.Last, 0), true
	}
	return e
}
