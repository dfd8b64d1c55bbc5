package rivals

import (
	"sync/atomic"
	"time"
)

// nettyContender is a stand-in, written for this comparison, of HashedWheelTimer of the Java framework
// Netty (github.com/netty/netty, HashedWheelTimer.java, as since 4.1): a wheel of one level with a list
// of timers in each slot, which one goroutine owns. New timers, and cancelled ones, reach it by two
// queues without locks, which it empties at each tick, of new ones at most 100,000. A timer that is more
// than a turn away keeps the number of rounds that it must wait. Callbacks run on that same goroutine,
// as they do in Netty unless it is given an executor. There is no renewal.
//
// Netty's default is 512 slots and ticks of 100 ms. Here it gets what the other wheels of one level get:
// ticks of 10 ms, and slots for the longest timeout, the next power of two.
func nettyContender() contender {
	return contender{
		name:    "Netty's HashedWheelTimer (stand-in)",
		version: "ours",
		runs:    "the wheel's goroutine",
		renews:  "cancel + newTimeout",
		lacks:   "a renewal; deadlines finer than 10 ms; any expiry while a callback is slow",
		open: func(s setup) *rival {
			w, origin := newNettyWheel(wheelTick, wheelSlots), time.Now()
			go ticks(origin, wheelTick, w.step)
			return hold(s, library[*element[nettyTimeout]]{
				arm: func(_ int, d time.Duration, f func()) *element[nettyTimeout] {
					return w.arm(time.Since(origin)+d, f)
				},
				cancel: w.cancel,
			})
		},
	}
}

type nettyTimeout struct {
	at     time.Duration
	state  atomic.Int32
	rounds int32 // turns to wait for, in a slot
	f      func()
}

// States of a timeout.
const (
	nettyWaits int32 = iota
	nettyCancelled
	nettyExpired
)

type nettyWheel struct {
	added, cancelled *mpsc[element[nettyTimeout]]

	// The fields below, and what is in the slots, belong to the goroutine that calls step.
	period time.Duration
	tick   int64 // the next to expire: slot tick modulo their number, at the end of its period
	slots  []element[nettyTimeout]
}

// newNettyWheel returns a wheel of a power of two of slots.
func newNettyWheel(period time.Duration, slots int) *nettyWheel {
	size := 1
	for size < slots {
		size *= 2
	}
	return &nettyWheel{
		added: newMPSC[element[nettyTimeout]](), cancelled: newMPSC[element[nettyTimeout]](),
		period: period, slots: newRings[nettyTimeout](size),
	}
}

func (w *nettyWheel) arm(at time.Duration, f func()) *element[nettyTimeout] {
	e := &element[nettyTimeout]{value: nettyTimeout{at: at, f: f}}
	w.added.push(e)
	return e
}

func (w *nettyWheel) cancel(e *element[nettyTimeout]) {
	if e.value.state.CompareAndSwap(nettyWaits, nettyCancelled) {
		w.cancelled.push(e)
	}
}

// step does all ticks that have come.
func (w *nettyWheel) step(now time.Duration) {
	for ; time.Duration(w.tick+1)*w.period <= now; w.tick++ {
		for e := w.cancelled.pop(); e != nil; e = w.cancelled.pop() {
			e.remove()
		}
		w.place()
		w.expire()
	}
}

// place puts new timers into their slots.
func (w *nettyWheel) place() {
	for range 100_000 {
		e := w.added.pop()
		if e == nil {
			return
		}
		if e.value.state.Load() != nettyWaits {
			continue
		}
		tick := max(int64(e.value.at/w.period), w.tick)
		e.value.rounds = int32((tick - w.tick) / int64(len(w.slots)))
		w.slot(tick).push(e)
	}
}

func (w *nettyWheel) slot(tick int64) *element[nettyTimeout] {
	return &w.slots[int(tick)&(len(w.slots)-1)]
}

// expire calls the callbacks of timers that are due at this tick.
func (w *nettyWheel) expire() {
	slot := w.slot(w.tick)
	var next *element[nettyTimeout]
	for e := slot.next; e != slot; e = next {
		next = e.next
		if e.value.rounds--; e.value.rounds >= 0 {
			continue
		}
		e.remove()
		if e.value.state.CompareAndSwap(nettyWaits, nettyExpired) {
			e.value.f()
		}
	}
}
