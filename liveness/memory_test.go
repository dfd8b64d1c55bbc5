package liveness_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// heapMemory is a memory that outlives a registry.
type heapMemory struct {
	mu     sync.Mutex
	blocks []keep.Block
	full   bool
}

func (m *heapMemory) Block(kind, owner uint32, size int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return nil
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))), size) // aligned
	m.blocks = append(m.blocks, keep.Block{Kind: kind, Owner: owner, Data: b})
	return b
}

// photo returns the memory's content at this instant, as a killed process leaves it.
func (m *heapMemory) photo() []keep.Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	var blocks []keep.Block
	for _, b := range m.blocks {
		blocks = append(blocks, keep.Block{Kind: b.Kind, Owner: b.Owner, Data: slices.Clone(b.Data)})
	}
	return blocks
}

// remembered starts a registry with a memory, and restores what was kept and recalled into it.
func remembered(t *testing.T, k *shelf, m *heapMemory, past []keep.Block, origin time.Time) *rig {
	t.Helper()
	r := &rig{T: t, log: k.Log, start: origin, sessions: make(map[string]*liveness.Session)}
	r.registry = newRegistry(t, k, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit}})
	r.source = addSource(t, r.registry, liveness.SourceConfig{Name: "edge", MaxGap: unit, ReconnectGrace: unit})
	r.registry.Keeper().UseMemory(m)
	if past != nil {
		c, whole := keep.Recall(past)
		if !whole {
			t.Error("the memory is not whole")
		}
		for name, rec := range k.sources {
			c.Source(&rec)
			k.sources[name] = rec
		}
		for id, rec := range k.devices {
			rec.Heard, rec.HeardBy = c.Heard(rec.Num)
			k.devices[id] = rec
		}
	}
	if err := k.restore(r.registry); err != nil {
		t.Fatal(err)
	}
	return r
}

// rememberedFirst is remembered for the first process, which runs and has listened for a unit.
func rememberedFirst(t *testing.T) (k *shelf, m *heapMemory, r *rig, stop func()) {
	t.Helper()
	k, m = newShelf(t), new(heapMemory)
	r = remembered(t, k, m, nil, time.Now())
	stop = start(t, r.registry)
	r.source.Pulse(time.Now())
	r.listen(unit)
	return k, m, r, stop
}

// All heartbeats from before a process was killed, however they came, are known to the next
// process, and so is its clock's reading.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, m, r, stop := rememberedFirst(t)
		touched, late, asleep, gone, back := r.open("touched"), r.open("late"), r.open("asleep"), r.open("gone"), r.open("back")
		_, _ = asleep.Sleep(r.now(), 100*unit)
		gone.Bye(r.now())
		back.Bye(r.now())
		if _, err := late.UpdatePolicy(r.now(), liveness.Policy{Timeout: 30 * unit, LateAfter: 5 * unit}); err != nil {
			t.Error(err)
		}
		r.listen(10 * unit)
		k.checkpoint(r.registry)
		r.listen(7 * unit)
		touched.Beat(r.now())
		r.listen(unit)
		synctest.Wait()
		photo := m.photo()
		clock := r.source.Now()
		kept := maps.Clone(k.devices)
		stop()
		k.devices = kept

		next := new(heapMemory)
		r2 := remembered(t, k, next, photo, r.start)
		defer func() { start(t, r2.registry)() }()
		if now := r2.source.Now(); now != clock {
			t.Errorf("the clock reads %v, was %v", now, clock)
		}
		for id, want := range map[string]time.Duration{"touched": 18 * unit, "late": unit, "asleep": unit, "gone": unit} {
			if v := r2.device(id); v.Last != want {
				t.Errorf("%s was heard last at %g, want %g", id, inUnits(v.Last), inUnits(want))
			}
		}
	})
}

// Heartbeats after a stall count with their right instants, even if neither a checkpoint nor the
// clock recorded the stall. So do those before it.
func TestRecallAfterStall(t *testing.T) {
	for _, marked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k, m, r, stop := rememberedFirst(t)
			early, late := r.open("early"), r.open("late")
			r.listen(2 * unit)
			k.checkpoint(r.registry)
			for range 2 {
				early.Beat(r.now())
				r.listen(unit)
				time.Sleep(20 * unit)
				now := r.source.Pulse(time.Now())
				if marked {
					r.source.Watermark(0, now)
				}
				late.Beat(r.now())
				if marked {
					r.listen(unit)
				}
			}
			synctest.Wait()
			photo := m.photo()
			kept := maps.Clone(k.devices)
			was := map[string]time.Time{"early": r.device("early").LastSeen, "late": r.device("late").LastSeen}
			stop()
			k.devices = kept

			time.Sleep(5 * unit)
			r2 := remembered(t, k, new(heapMemory), photo, r.start)
			defer func() { start(t, r2.registry)() }()
			r2.source.Pulse(time.Now())
			for id, want := range was {
				if got := r2.device(id).LastSeen; got.Sub(want).Abs() > 2*timer.Resolution {
					t.Errorf("with a watermark after it %v: %s was seen last at %g, want %g", marked, id, r2.units(got), r2.units(want))
				}
			}
			for _, id := range []string{"early", "late"} {
				if v := r2.device(id); v.Last > r2.source.Now() {
					t.Errorf("%s was heard at %v, and the clock reads %v", id, v.Last, r2.source.Now())
				}
			}
		})
	}
}

// A heartbeat counts with its right instant although its process was killed in the moments after its start, be it
// before the clock moved or before the first pulse.
func TestRecallAtStart(t *testing.T) {
	recallAtStart := func(t *testing.T, pulsed bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			k, m, r, stop := rememberedFirst(t)
			r.open("a")
			r.listen(unit)
			k.checkpoint(r.registry)
			synctest.Wait()
			photo, kept := m.photo(), maps.Clone(k.devices)
			stop()
			k.devices = kept

			time.Sleep(20 * unit)
			m = new(heapMemory)
			r = remembered(t, k, m, photo, r.start)
			stop = start(t, r.registry)
			k.checkpoint(r.registry)
			if pulsed {
				r.source.Pulse(time.Now())
			}
			heard := time.Now()
			r.open("a")
			photo = m.photo() // the event may be committed or not
			kept = maps.Clone(k.devices)
			synctest.Wait()
			stop()
			k.devices = kept

			time.Sleep(5 * unit)
			r = remembered(t, k, new(heapMemory), photo, r.start)
			defer func() { start(t, r.registry)() }()
			r.source.Pulse(time.Now())
			v := r.device("a")
			if v.LastSeen.Sub(heard).Abs() > 2*timer.Resolution || v.Last > r.source.Now() {
				t.Errorf("seen last at %g, want %g; heard at %v, and the clock reads %v",
					r.units(v.LastSeen), r.units(heard), v.Last, r.source.Now())
			}
			if total := r.source.View().DeafTotal; (total - 25*unit).Abs() > 2*timer.Resolution {
				t.Errorf("deaf for %g, want 25", inUnits(total))
			}
		})
	}
	t.Run("before the first pulse", func(t *testing.T) { recallAtStart(t, false) })
	t.Run("after it", func(t *testing.T) { recallAtStart(t, true) })
}

// A heartbeat of a device that is offline or late counts after a kill, although its event was not
// committed.
func TestRecallComeback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, m, r, stop := rememberedFirst(t)
		s := r.open("a")
		r.listen(40 * unit)
		r.wantState("a", liveness.Offline)
		k.checkpoint(r.registry)
		before := k.devices["a"]
		s.Beat(r.now())
		photo := m.photo() // the sink may have the event or not
		synctest.Wait()
		stop()
		k.devices["a"] = before

		r2 := remembered(t, k, new(heapMemory), photo, r.start)
		stop2 := start(t, r2.registry)
		defer stop2()
		synctest.Wait()
		v := r2.device("a")
		if v.State != liveness.Unknown || v.Seq != before.Seq+1 || v.Last < 41*unit-timer.Resolution {
			t.Errorf("%+v", v)
		}
	})
}

// Recall reports that a memory without room is incomplete.
func TestRecallNotWhole(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		m := new(heapMemory)
		r.registry.Keeper().UseMemory(m)
		if _, whole := keep.Recall(m.photo()); !whole {
			t.Error("not whole at the beginning")
		}
		m.mu.Lock()
		m.full = true
		m.mu.Unlock()
		r.open("a")
		if _, whole := keep.Recall(m.photo()); whole {
			t.Error("whole without a device's block")
		}
	})
	if _, whole := keep.Recall(nil); whole {
		t.Error("nothing is whole")
	}
}

func FuzzRecall(f *testing.F) {
	source := append(make([]byte, 36*8), "edge"...)
	for word, value := range []byte{1, 1, 4, 2, 1, 1, 9, 7} {
		source[8*word] = value
	}
	f.Add(uint32(2), uint32(0), source)
	f.Add(uint32(1), uint32(0), make([]byte, 8))
	f.Add(uint32(4), uint32(0), make([]byte, 64))
	f.Fuzz(func(t *testing.T, kind, owner uint32, data []byte) {
		c, _ := keep.Recall([]keep.Block{{Kind: kind, Owner: owner, Data: data}})
		rec := keep.SourceRecord{Name: "edge"}
		c.Source(&rec)
		if last, _ := c.Heard(1); rec.Listened < 0 || last < 0 {
			t.Errorf("%+v", rec)
		}
	})
}
