package dualmap_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holter-iot/holter/dualmap"
)

func insert(t *testing.T, m *dualmap.Map, value, data uint64, param uint32) dualmap.Original {
	t.Helper()
	o, err := m.Insert(value, data, param)
	if err != nil {
		t.Fatalf("Insert(%d, %d, %d) = %v", value, data, param, err)
	}
	return o
}

// A cell shows an entry as the map does, until the entry ends and not longer.
func TestCell(t *testing.T) {
	m := dualmap.New(1, false, nil)
	for range 3 {
		o := insert(t, m, 7, 1, 5)
		c, ok := m.Cell(o)
		if !ok {
			t.Fatal("Cell = false")
		}
		c.Prefetch()
		if v, ok := c.Load(); v != 7 || !ok || c.Param() != 5 {
			t.Errorf("Load, Param = %d, %v, %d, want 7, true, 5", v, ok, c.Param())
		}
		if c.CompareAndSwap(8, 9) || !c.CompareAndSwap(7, dualmap.MaxValue) {
			t.Error("CompareAndSwap does not compare")
		}
		if v, _ := m.Load(o); v != dualmap.MaxValue {
			t.Errorf("the map's Load = %d, want %d", v, uint64(dualmap.MaxValue))
		}
		end(t, m, o)
		if _, ok := c.Load(); ok || c.CompareAndSwap(dualmap.MaxValue, 1) {
			t.Error("the cell shows an entry that has ended")
		}
		next := insert(t, m, 7, 1, 5)
		if _, ok := c.Load(); ok || c.CompareAndSwap(7, 1) {
			t.Error("the cell shows the next tenant of its slot")
		}
		end(t, m, next)
	}
	for _, o := range []dualmap.Original{
		{Slot: 1 << 20, Generation: 1}, {Slot: 1<<32 - 1, Generation: 1}, {Generation: dualmap.MaxGeneration + 1},
	} {
		if _, ok := m.Cell(o); ok {
			t.Errorf("Cell(%v) = true", o)
		}
	}
}

// end removes an entry whatever its value, and releases its slot.
func end(t *testing.T, m *dualmap.Map, o dualmap.Original) { //nolint:thelper // it is called millions of times
	value, ok := m.Load(o)
	if !ok || !m.Remove(o, value) {
		t.Fatalf("Load(%v) = %d, %v; or Remove failed", o, value, ok)
	}
	m.Release(o.Slot)
}

func TestEntry(t *testing.T) {
	tests := []struct {
		name        string
		value, data uint64
		param       uint32
	}{
		{"small", 1, 0, 0},
		{"large", dualmap.MaxValue, 1<<64 - 1, 1<<32 - 1},
		{"mixed", 1 << 20, 42, 7},
	}
	m := dualmap.New(100, false, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := insert(t, m, tt.value, tt.data, tt.param)
			if v, ok := m.Load(o); v != tt.value || !ok {
				t.Errorf("Load = %d, %v, want %d, true", v, ok, tt.value)
			}
			if d := m.Data(o.Slot); d != tt.data {
				t.Errorf("Data = %d, want %d", d, tt.data)
			}
			if p := m.Param(o.Slot); p != tt.param {
				t.Errorf("Param = %d, want %d", p, tt.param)
			}
			if tenant, v := m.Tenant(o.Slot); tenant != o || v != tt.value {
				t.Errorf("Tenant = %v, %d, want %v, %d", tenant, v, o, tt.value)
			}
			m.SetParam(o.Slot, ^tt.param)
			if p := m.Param(o.Slot); p != ^tt.param {
				t.Errorf("Param after SetParam = %d, want %d", p, ^tt.param)
			}
		})
	}
	if m.Len() != len(tests) || m.Slots() != uint32(len(tests)) {
		t.Errorf("Len, Slots = %d, %d, want %d of each", m.Len(), m.Slots(), len(tests))
	}
}

func TestCompareAndSwap(t *testing.T) {
	m := dualmap.New(1, false, nil)
	o := insert(t, m, 5, 0, 0)
	if m.CompareAndSwap(o, 4, 6) {
		t.Error("CompareAndSwap with a wrong old value succeeded")
	}
	if !m.CompareAndSwap(o, 5, dualmap.MaxValue) {
		t.Error("CompareAndSwap with the right old value failed")
	}
	if v, ok := m.Load(o); v != dualmap.MaxValue || !ok {
		t.Errorf("Load = %d, %v, want %d, true", v, ok, uint64(dualmap.MaxValue))
	}
	if m.Remove(o, 5) {
		t.Error("Remove with a wrong old value succeeded")
	}
}

// Discard ends an entry whatever its value is, and only once.
func TestDiscard(t *testing.T) {
	m := dualmap.New(1, false, nil)
	for range 3 {
		o := insert(t, m, 5, 0, 0)
		c, _ := m.Cell(o)
		m.CompareAndSwap(o, 5, dualmap.MaxValue)
		if m.IsVacantSince(o) {
			t.Error("IsVacantSince = true for an entry that lives")
		}
		if !c.Discard() || c.Discard() {
			t.Error("Discard does not end the entry once")
		}
		if _, ok := m.Load(o); ok || !m.IsVacantSince(o) {
			t.Error("the entry lives on")
		}
		m.Release(o.Slot)
		next := insert(t, m, 6, 0, 0)
		if c.Discard() || m.IsVacantSince(o) {
			t.Error("the next tenant of the slot is taken for the entry")
		}
		if last, ok := m.Discard(next); last != 6 || !ok {
			t.Errorf("Discard = %d, %v, want 6, true", last, ok)
		}
		m.Release(next.Slot)
	}
	if _, ok := m.Discard(dualmap.Original{Slot: 1 << 20, Generation: 1}); ok {
		t.Error("Discard of a slot that does not exist succeeded")
	}
}

// What an identifier that is not good any more finds, in a slot that is vacant and in one that has
// a new tenant.
func TestStaleOriginal(t *testing.T) {
	m := dualmap.New(1, false, nil)
	stale := insert(t, m, 5, 0, 0)
	end(t, m, stale)
	check := func(t *testing.T) {
		t.Helper()
		if _, ok := m.Load(stale); ok {
			t.Error("Load found the entry")
		}
		if m.CompareAndSwap(stale, 5, 6) {
			t.Error("CompareAndSwap changed the entry")
		}
		if m.Remove(stale, 5) {
			t.Error("Remove ended the entry")
		}
	}
	t.Run("vacant", check)
	next := insert(t, m, 5, 0, 0)
	if next.Slot != stale.Slot || next == stale {
		t.Fatalf("second tenant is %v, want another one in the slot of %v", next, stale)
	}
	t.Run("new tenant", check)
	if v, ok := m.Load(next); v != 5 || !ok {
		t.Errorf("Load of the new tenant = %d, %v, want 5, true", v, ok)
	}
}

func TestForeignOriginal(t *testing.T) {
	m := dualmap.New(1<<20, false, nil)
	insert(t, m, 5, 0, 0)
	for _, o := range []dualmap.Original{
		{},
		{Slot: 0, Generation: 2},
		{Slot: 0, Generation: 1<<dualmap.GenerationBits + 1}, // the same, if its upper bits were lost
		{Slot: 1, Generation: 1},
		{Slot: 511, Generation: 0},
		{Slot: 512, Generation: 1},
		{Slot: 1<<32 - 1, Generation: 1<<32 - 1},
	} {
		if _, ok := m.Load(o); ok || m.CompareAndSwap(o, 5, 6) || m.Remove(o, 5) {
			t.Errorf("%+v is taken for an entry", o)
		}
	}
}

// A slot serves MaxGeneration tenants, each under an identifier of its own, and then no more. Other
// slots are not concerned.
func TestGenerationsRunOut(t *testing.T) {
	m := dualmap.New(2, false, nil)
	kept := insert(t, m, 1, 0, 0)
	first := insert(t, m, 9, 0, 0)
	for want := uint32(1); m.Retired() == 0; want++ {
		o, _ := m.Tenant(first.Slot)
		if o.Generation != want {
			t.Fatalf("generation = %d, want %d", o.Generation, want)
		}
		end(t, m, o)
		_, err := m.Insert(9, 0, 0)
		if retired := m.Retired() == 1; retired != errors.Is(err, dualmap.ErrFull) || retired != (want == dualmap.MaxGeneration) {
			t.Fatalf("after tenant %d: Retired, Insert = %d, %v", want, m.Retired(), err)
		}
		if _, ok := m.Load(first); ok {
			t.Fatalf("the first tenant's identifier is good again after tenant %d", want)
		}
	}
	last, value := m.Tenant(first.Slot)
	if value != 0 || m.Len() != 1 {
		t.Errorf("value, Len = %d, %d, want 0, 1", value, m.Len())
	}
	for _, o := range []dualmap.Original{{}, first, last, {Slot: first.Slot, Generation: dualmap.MaxGeneration}} {
		if _, ok := m.Load(o); ok {
			t.Errorf("%+v lives in a retired slot", o)
		}
	}
	end(t, m, kept)
	if o := insert(t, m, 1, 0, 0); o.Slot != kept.Slot || o.Generation != 2 {
		t.Errorf("Insert = %+v, want generation 2 of slot %d", o, kept.Slot)
	}
}

func TestFull(t *testing.T) {
	for _, capacity := range []uint32{0, 1, 511, 512, 513, 2000} {
		m := dualmap.New(capacity, false, nil)
		var last dualmap.Original
		for range capacity {
			last = insert(t, m, 1, 0, 0)
		}
		if _, err := m.Insert(1, 0, 0); !errors.Is(err, dualmap.ErrFull) {
			t.Errorf("capacity %d: Insert into a full map = %v, want ErrFull", capacity, err)
		}
		if capacity == 0 {
			continue
		}
		end(t, m, last)
		if o := insert(t, m, 1, 0, 0); o.Slot != last.Slot {
			t.Errorf("capacity %d: Insert took slot %d, want %d, which was released", capacity, o.Slot, last.Slot)
		}
	}
}

// Released slots are used again before new ones, the one that was released first before the others.
func TestReleaseOrder(t *testing.T) {
	m := dualmap.New(1000, false, nil)
	var os []dualmap.Original
	for range 600 {
		os = append(os, insert(t, m, 1, 0, 0))
	}
	order := []int{599, 0, 3, 512, 511, 1}
	for _, i := range order {
		end(t, m, os[i])
	}
	for _, i := range order {
		if o := insert(t, m, 1, 0, 0); o.Slot != os[i].Slot {
			t.Errorf("Insert took slot %d, want %d", o.Slot, os[i].Slot)
		}
	}
	if o := insert(t, m, 1, 0, 0); o.Slot != 600 || m.Slots() != 601 {
		t.Errorf("Insert took slot %d of %d, want 600 of 601", o.Slot, m.Slots())
	}
}

// The order holds over several pages of the queue of free slots, while it moves on through them.
func TestReleaseOrderOfMany(t *testing.T) {
	const n = 5000
	m := dualmap.New(n, false, nil)
	r := rand.New(rand.NewPCG(1, 2))
	var living []dualmap.Original
	for range n {
		living = append(living, insert(t, m, 1, 0, 0))
	}
	var free []uint32
	for range 20 {
		for range r.IntN(len(living)) + 1 {
			i := r.IntN(len(living))
			end(t, m, living[i])
			free = append(free, living[i].Slot)
			living[i] = living[len(living)-1]
			living = living[:len(living)-1]
		}
		for range r.IntN(len(free)) + 1 {
			o := insert(t, m, 1, 0, 0)
			if o.Slot != free[0] {
				t.Fatalf("Insert took slot %d, want %d", o.Slot, free[0])
			}
			living, free = append(living, o), free[1:]
		}
	}
	if m.Len() != len(living) || m.Slots() != n {
		t.Errorf("Len, Slots = %d, %d, want %d, %d", m.Len(), m.Slots(), len(living), n)
	}
}

func TestCurrent(t *testing.T) {
	m := dualmap.New(1, false, nil)
	o := insert(t, m, 1, 0, 0)
	current := func(arming uint16) bool { return m.IsCurrent(dualmap.Current{Slot: o.Slot, Arming: arming}) }
	if !current(0) {
		t.Error("a new entry is armed")
	}
	m.Arm(dualmap.Current{Slot: o.Slot, Arming: 7})
	m.Arm(dualmap.Current{Slot: o.Slot, Arming: 1<<16 - 1})
	if current(7) || !current(1<<16-1) {
		t.Error("not only the latest arming is current")
	}
	end(t, m, o)
	if current(1<<16 - 1) {
		t.Error("an arming outlives its entry")
	}
	insert(t, m, 1, 0, 0)
	if current(1<<16-1) || !current(0) {
		t.Error("an arming passes to the next tenant")
	}
}

func TestPosition(t *testing.T) {
	m := dualmap.New(1000, true, nil)
	for range 1000 {
		o := insert(t, m, 1, 0, 0)
		m.SetPosition(o.Slot, ^o.Slot)
	}
	for slot := range uint32(1000) {
		if p := m.Position(slot); p != ^slot {
			t.Fatalf("Position(%d) = %d, want %d", slot, p, ^slot)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("SetPosition without a position column did not panic")
		}
	}()
	without := dualmap.New(1, false, nil)
	without.SetPosition(insert(t, without, 1, 0, 0).Slot, 1)
}

// Of all who would end an entry one succeeds, and no change of the value comes after it.
func TestRemoveOnce(t *testing.T) {
	m := dualmap.New(1, false, nil)
	for range 500 {
		o := insert(t, m, 1, 0, 0)
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					value, ok := m.Load(o)
					if !ok {
						return
					}
					if m.Remove(o, value) {
						won.Add(1)
						if m.CompareAndSwap(o, value, value) {
							t.Error("CompareAndSwap after Remove succeeded")
						}
						return
					}
				}
			})
			wg.Go(func() {
				value := uint64(1)
				for m.CompareAndSwap(o, value, value+1) {
					value++
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d goroutines removed the entry, want 1", won.Load())
		}
		m.Release(o.Slot)
	}
}

// The methods that need no lock run beside an owner that inserts, ends and grows.
func TestLockFreeReaders(t *testing.T) {
	m := dualmap.New(1<<20, false, nil)
	var shared atomic.Pointer[dualmap.Original]
	first := insert(t, m, 1, 0, 1)
	shared.Store(&first)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				o := *shared.Load()
				value, ok := m.Load(o)
				if ok && m.Param(o.Slot) == 0 {
					t.Error("a living entry has no parameter")
				}
				if ok {
					m.CompareAndSwap(o, value, value%1000+1)
				}
			}
		})
	}
	for i := range 20_000 {
		o := insert(t, m, 1, uint64(i), 1)
		shared.Store(&o)
		if i%2 == 0 {
			value, _ := m.Load(o)
			for !m.Remove(o, value) {
				value, _ = m.Load(o)
			}
			m.Release(o.Slot)
		}
	}
	stop.Store(true)
	wg.Wait()
}
