package timer_test

import (
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/dualmap"
	"github.com/holter-iot/holter/timer"
)

// fakeMemory is a memory in the heap.
type fakeMemory struct {
	mu     sync.Mutex // guards blocks
	blocks [][]byte
}

func (m *fakeMemory) Chunk(size int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocks = append(m.blocks, make([]byte, size))
	return m.blocks[len(m.blocks)-1]
}

// left returns what would be left if the process were killed now.
func (m *fakeMemory) left() map[uint64]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[uint64]time.Duration{}
	for _, b := range m.blocks {
		maps.Insert(all, timer.Left(b))
	}
	return all
}

// want checks what is left of a number of timers.
func (m *fakeMemory) want(t *testing.T, when string, want map[uint64]time.Duration) {
	t.Helper()
	if got := m.left(); !maps.Equal(got, want) {
		t.Errorf("%s: left is %v, want %v", when, got, want)
	}
}

func TestLeft(t *testing.T) {
	var memory fakeMemory
	bubble(t, timer.Config{Memory: &memory}, func(e *fixture) {
		t := e.t
		e.set(time.Hour)
		g := e.group(ignore)
		const fine, coarse = 50 * time.Second, 1000 * time.Hour
		a := e.armed(g.Arm(time.Hour, fine, 1))
		b := e.armed(g.ArmAt(time.Hour+time.Second, coarse, 2))
		e.armed(g.ArmAt(2*time.Hour, 0, 3)) // it has no period
		c := e.armed(g.Arm(time.Hour, time.Minute, 4))
		e.armed(e.AfterFunc(time.Minute, func() {}))
		e.armed(e.RepeatFunc(time.Minute, timer.FixedRate, func() {}))
		touched := func(id timer.ID) time.Duration {
			at, ok := e.Touched(id)
			if !ok {
				t.Fatal("Touched of a timer that is armed")
			}
			return at
		}
		const now = time.Hour + time.Second
		for _, id := range []timer.ID{a, b, c} {
			if !e.Touch(id, now) {
				t.Fatal("not armed")
			}
		}
		if touched(a) != ceil(now) || touched(b) != ceil(now) {
			t.Errorf("Touched = %v, %v, want %v", touched(a), touched(b), ceil(now))
		}
		memory.want(t, "touched", map[uint64]time.Duration{1: ceil(now), 2: ceil(now), 4: ceil(now)})
		if !e.Bind(t.Context(), a) { // it has an extra now
			t.Fatal("not armed")
		}
		e.Cancel(c)
		if !e.Reset(b, now+time.Second, time.Minute) {
			t.Fatal("not armed")
		}
		memory.want(t, "reset", map[uint64]time.Duration{1: ceil(now), 2: touched(b)})
	})
}

// A timer that has expired is left until its handler has returned, so that the handler can see to
// it that its last touch is.
func TestLeftWhileHandled(t *testing.T) {
	var memory fakeMemory
	bubble(t, timer.Config{Memory: &memory}, func(e *fixture) {
		t := e.t
		begun, end := make(chan struct{}), make(chan struct{})
		var again timer.ID
		var g *timer.Group
		g = e.group(func(expired []timer.Expired) {
			begun <- struct{}{}
			<-end
			x := expired[0]
			again = e.armed(g.ArmAt(x.Deadline+time.Minute, x.Deadline+time.Minute-x.Touched, x.Data))
		})
		id := e.armed(g.Arm(0, time.Minute, 7))
		if !e.Touch(id, time.Second) {
			t.Fatal("not armed")
		}
		e.set(2 * time.Minute)
		<-begun
		if _, ok := e.Touched(id); ok {
			t.Error("armed while it is handled")
		}
		want := map[uint64]time.Duration{7: ceil(time.Second)}
		memory.want(t, "while it is handled", want)
		close(end)
		synctest.Wait()
		memory.want(t, "armed anew", want)
		e.Cancel(again)
		memory.want(t, "canceled", map[uint64]time.Duration{})
	})
}

// The touches of a timer with a fixed delay mean nothing while its callback runs.
func TestLeftFixedDelay(t *testing.T) {
	var memory fakeMemory
	bubble(t, timer.Config{Memory: &memory}, func(e *fixture) {
		t := e.t
		begun, end := make(chan struct{}), make(chan struct{})
		g := e.group(func([]timer.Expired) {
			begun <- struct{}{}
			<-end
		})
		e.armed(g.Repeat(0, time.Minute, timer.FixedDelay, 7))
		memory.want(t, "before", map[uint64]time.Duration{7: 0})
		e.set(2 * time.Minute)
		<-begun
		memory.want(t, "while it is handled", map[uint64]time.Duration{})
		e.clock.Advance(time.Minute)
		close(end)
		synctest.Wait()
		memory.want(t, "afterwards", map[uint64]time.Duration{7: ceil(4*time.Minute) - ceil(time.Minute)})
	})
}

// Slots are used again, also those that were kept for a handler, and also by one that panics.
func TestLeftSlots(t *testing.T) {
	var memory fakeMemory
	bubble(t, timer.Config{Memory: &memory}, func(e *fixture) {
		g := e.group(func(expired []timer.Expired) {
			if expired[0].Data%2 == 0 {
				panic("on purpose")
			}
		})
		for i := range uint64(5000) {
			e.armed(g.Arm(e.Now(), time.Second, i))
			e.advance(2 * time.Second)
		}
		if st := e.Stats(); st.Slots != 1 || st.Fired != 5000 || st.Panics != 2500 {
			e.t.Errorf("Stats = %+v, want one slot, 5000 fired", st)
		}
		memory.want(e.t, "at the end", map[uint64]time.Duration{})
	})
}

func FuzzLeft(f *testing.F) {
	f.Add([]byte{}, byte(1), 0)
	f.Add([]byte{1, 2, 3}, byte(255), 8*512)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, byte(0), 0)
	f.Fuzz(func(t *testing.T, data []byte, fill byte, at int) {
		block := make([]byte, dualmap.ChunkBytes)
		for i := range block {
			block[i] = fill
		}
		if at >= 0 && at < len(block) {
			copy(block[at:], data)
		}
		for _, b := range [][]byte{block, data} {
			for _, touched := range timer.Left(b) {
				if touched < 0 || touched > timer.MaxDeadline || touched%timer.Resolution != 0 {
					t.Errorf("touched at %v", touched)
				}
			}
		}
	})
}
