package liveness

import (
	"context"
	"errors"
	"math"
)

// errUncommitted is returned by [Registry.Commit] when the registry ended before the sink took what
// had happened.
var errUncommitted = errors.New("liveness: the registry ended before this was committed")

// AfterCommit calls done once the sink has taken all events from before the call, with false if the
// registry's Run ends earlier. If no event waits for the sink, it calls done at once, otherwise
// later from the goroutine of Run: done must return at once, and must not wait for the registry.
func (r *Registry) AfterCommit(done func(committed bool)) { r.outbox.after(done) }

// Commit waits until the sink has taken all events from before the call. An answer that confirms a
// change should wait for it. It fails if the registry ends before, and with the error of ctx.
func (r *Registry) Commit(ctx context.Context) error {
	done := make(chan bool, 1)
	ticket := r.outbox.after(func(committed bool) { done <- committed })
	select {
	case committed := <-done:
		if !committed {
			return errUncommitted
		}
		return nil
	case <-ctx.Done():
		r.outbox.withdraw(ticket) // waiters do not pile up while the sink fails
		return context.Cause(ctx)
	}
}

// committed records that the sink has taken events.
func (r *Registry) committed(events []Event) {
	for i := range events {
		if events[i].Record != nil {
			r.committedOne(&events[i])
		}
	}
}

// committedOne records that the sink has taken an event of a device. If it is the device's latest,
// the device's state can be shown, and its session's peer is told; if it is its last, the device's
// place and number are free.
func (r *Registry) committedOne(e *Event) {
	sh, d := r.lock(e.handle)
	defer sh.mu.Unlock()
	if e.Type == DeviceForgotten {
		r.numbers.release(d.num) // until the commit a crash would restore this device with it
		sh.vacateLocked(d)
	}
	if d.marks&forgotten != 0 {
		return
	}
	if sh.setCommittedLocked(d, e.Seq); d.uncommitted != 0 {
		return
	}
	if d.marks&statePending != 0 {
		sh.counts[d.shownLocked()]--
		d.marks &^= statePending
		sh.counts[d.shownLocked()]++
	}
	s := d.session
	if s == nil {
		return
	}
	s.pending.Store(false)
	switch {
	case s.peer == nil:
	case d.judgedLocked():
		s.peer.Judged()
	default:
		s.peer.Committed()
	}
}

// many is a count of uncommitted events that may be more: then the device's shard has the number of the latest that is committed.
const many = math.MaxUint8

// setCommittedLocked notes the number of a device's latest event that is committed.
func (sh *deviceShard) setCommittedLocked(d *device, seq uint64) {
	if n := d.seq - seq; n < many {
		d.uncommitted = uint8(n)
		delete(sh.committed, d.handle)
		return
	}
	d.uncommitted = many
	if sh.committed == nil {
		sh.committed = make(map[uint32]uint64)
	}
	sh.committed[d.handle] = seq
}

// committedLocked returns the number of a device's latest event that is committed.
func (sh *deviceShard) committedLocked(d *device) uint64 {
	if d.uncommitted == many {
		return sh.committed[d.handle]
	}
	return d.seq - uint64(d.uncommitted)
}
