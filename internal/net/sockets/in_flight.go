package sockets

import "sync/atomic"

// inFlight counts what is being handled, in turns: when a turn ends, what began in it can be waited
// for while more begins. At most one turn that ended is waited for at a time. Make one with
// newInFlight.
type inFlight struct {
	turn   atomic.Uint32
	_      [60]byte // what changes seldom does not share a cache line with what does often
	counts [2]struct {
		atomic.Int64

		_ [56]byte
	}
	landed chan struct{} // room for one; never closed; receives when the last of a turn that ended has landed
}

func newInFlight() *inFlight { return &inFlight{landed: make(chan struct{}, 1)} }

// enter begins something, and returns the turn to leave.
func (f *inFlight) enter() uint32 {
	for {
		if turn := f.turn.Load(); f.join(turn) {
			return turn
		}
	}
}

// join begins something in a turn, and reports whether it did: not in one that has ended, which may
// have been found empty already.
func (f *inFlight) join(turn uint32) bool {
	f.counts[turn%2].Add(1)
	if f.turn.Load() == turn {
		return true
	}
	f.leave(turn)
	return false
}

// leave ends something that began in a turn.
func (f *inFlight) leave(turn uint32) {
	if f.counts[turn%2].Add(-1) <= 0 && f.turn.Load() != turn {
		f.wake()
	}
}

// wake has landed receive.
func (f *inFlight) wake() {
	select {
	case f.landed <- struct{}{}:
	default:
	}
}

// next ends the turn, and returns it. All that of the turn before must have landed.
func (f *inFlight) next() uint32 { return f.turn.Add(1) - 1 }

// empty reports whether all has landed that began in a turn that ended.
func (f *inFlight) empty(turn uint32) bool { return f.counts[turn%2].Load() == 0 }
