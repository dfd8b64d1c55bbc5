package sockets

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestInFlight(t *testing.T) {
	f := newInFlight()
	a, b := f.enter(), f.enter()
	f.leave(b)
	old := f.next()
	if f.empty(old) {
		t.Error("empty with one in it")
	}
	c := f.enter()
	f.leave(c)
	if f.empty(old) || len(f.landed) != 0 {
		t.Error("one of the next turn counts")
	}
	f.leave(a)
	if !f.empty(old) || len(f.landed) != 1 {
		t.Error("not empty, or not told")
	}
}

// TestInFlightLate joins a turn that has ended meanwhile. That must fail: whoever ended the turn has
// found it empty.
func TestInFlightLate(t *testing.T) {
	f := newInFlight()
	turn := f.turn.Load()
	old := f.next()
	if !f.empty(old) {
		t.Fatal("not empty")
	}
	if f.join(turn) || !f.empty(old) {
		t.Error("began in a turn that had ended, and was empty")
	}
	if f.leave(f.enter()); !f.empty(f.next()) {
		t.Error("nobody began in the next turn, and it is not empty")
	}
}

// TestInFlightRace wants a turn that ended to hold nobody who began in it, whoever enters
// meanwhile.
func TestInFlightRace(t *testing.T) {
	const turns = 2000
	synctest.Test(t, func(t *testing.T) {
		f := newInFlight()
		var begun, ended [2]atomic.Int64 // by parity of the turn
		var stop atomic.Bool
		var flying sync.WaitGroup
		for range 4 {
			flying.Go(func() {
				for !stop.Load() {
					turn := f.enter()
					begun[turn%2].Add(1)
					ended[turn%2].Add(1)
					f.leave(turn)
					runtime.Gosched() // else it has the processor for 10 ms, and who waits has none
				}
			})
		}
		for range turns {
			old := f.next()
			for !f.empty(old) {
				<-f.landed
			}
			if b, e := begun[old%2].Load(), ended[old%2].Load(); b != e {
				t.Errorf("turn %d is empty, and %d of %d have ended", old, e, b)
				break
			}
		}
		stop.Store(true)
		flying.Wait()
	})
}
