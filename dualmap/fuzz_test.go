package dualmap_test

import (
	"errors"
	"testing"

	"github.com/holter-iot/holter/dualmap"
)

// entry is what the naive model knows of an identifier that was handed out.
type entry struct {
	o     dualmap.Original
	value uint64
	data  uint64
	param uint32
	lives bool
}

// model is a dual map made of a slice.
type model struct {
	entries  []entry // all that there ever were
	free     []uint32
	arming   map[uint32]uint16
	used     uint32
	capacity uint32
}

func (m *model) insert(value, data uint64, param uint32) (slot uint32, ok bool) {
	switch {
	case len(m.free) > 0:
		slot, m.free = m.free[0], m.free[1:]
	case m.used < m.capacity:
		slot = m.used
		m.used++
	default:
		return 0, false
	}
	generation := uint32(1)
	for _, e := range m.entries {
		if e.o.Slot == slot {
			generation++
		}
	}
	m.arming[slot] = 0
	o := dualmap.Original{Slot: slot, Generation: generation}
	m.entries = append(m.entries, entry{o: o, value: value, data: data, param: param, lives: true})
	return slot, true
}

// left returns what should be found if the process were killed now.
func (m *model) left() (all []dualmap.Entry) {
	for _, e := range m.entries {
		if e.lives {
			all = append(all, dualmap.Entry{Value: e.value, Data: e.data, Param: e.param})
		}
	}
	return all
}

func (m *model) living() (n int) {
	for _, e := range m.entries {
		if e.lives {
			n++
		}
	}
	return n
}

// FuzzDualmap plays three bytes at a time, an operation, an entry and a value, on a map and on the
// model; the map's entries lie in the heap, and then in a memory, which must hold what lives.
func FuzzDualmap(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 1, 0, 0, 2, 2, 0, 1, 0, 0, 3, 1, 2, 9})
	f.Add([]byte{0, 0, 1, 3, 0, 7, 2, 0, 1, 3, 0, 8, 0, 0, 1, 1, 1, 4, 4, 1, 200})
	f.Add([]byte{0, 0, 0, 0, 1, 1, 0, 2, 2, 0, 3, 3, 0, 4, 4, 0, 5, 5, 2, 1, 1, 2, 3, 3, 0, 6, 6, 0, 7, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		const capacity = 5
		for _, memory := range []*fakeMemory{nil, {}, {full: true}} {
			m, want := newMap(capacity, true, memory), &model{arming: map[uint32]uint16{}, capacity: capacity}
			for script := script; len(script) >= 3; script = script[3:] {
				play(t, m, want, script[0], int(script[1]), uint64(script[2]))
				compare(t, m, want)
				if memory != nil && !memory.full {
					memory.want(t, want.left())
				}
			}
		}
	})
}

func play(t *testing.T, m *dualmap.Map, want *model, operation byte, who int, value uint64) {
	t.Helper()
	if operation%5 == 0 {
		data, param := value<<40|uint64(who), uint32(value)
		o, err := m.Insert(value+1, data, param)
		slot, ok := want.insert(value+1, data, param)
		if (err == nil) != ok || err != nil && !errors.Is(err, dualmap.ErrFull) || ok && o != want.entries[len(want.entries)-1].o {
			t.Fatalf("Insert = %+v, %v, want slot %d, %v", o, err, slot, ok)
		}
		return
	}
	if len(want.entries) == 0 {
		return
	}
	e := &want.entries[who%len(want.entries)]
	hit := e.lives && e.value == value+1
	switch operation % 5 {
	case 1:
		if got := m.CompareAndSwap(e.o, value+1, dualmap.MaxValue-value); got != hit {
			t.Fatalf("CompareAndSwap(%+v, %d) = %v, want %v", e.o, value+1, got, hit)
		}
		if hit {
			e.value = dualmap.MaxValue - value
		}
	case 2:
		if got := m.Remove(e.o, value+1); got != hit {
			t.Fatalf("Remove(%+v, %d) = %v, want %v", e.o, value+1, got, hit)
		}
		if hit {
			m.Release(e.o.Slot)
			e.lives = false
			want.arming[e.o.Slot] = 0
			want.free = append(want.free, e.o.Slot)
		}
	case 3:
		m.Arm(dualmap.Current{Slot: e.o.Slot, Arming: uint16(value)})
		want.arming[e.o.Slot] = uint16(value)
	case 4:
		if e.lives {
			m.SetParam(e.o.Slot, uint32(value))
			e.param = uint32(value)
		}
	}
}

func compare(t *testing.T, m *dualmap.Map, want *model) {
	t.Helper()
	for _, e := range want.entries {
		value, ok := m.Load(e.o)
		if ok != e.lives || ok && value != e.value {
			t.Fatalf("Load(%+v) = %d, %v, want %d, %v", e.o, value, ok, e.value, e.lives)
		}
		if !e.lives {
			continue
		}
		if tenant, v := m.Tenant(e.o.Slot); tenant != e.o || v != e.value {
			t.Fatalf("Tenant(%d) = %+v, %d, want %+v, %d", e.o.Slot, tenant, v, e.o, e.value)
		}
		if d, p := m.Data(e.o.Slot), m.Param(e.o.Slot); d != e.data || p != e.param {
			t.Fatalf("Data, Param of %+v = %d, %d, want %d, %d", e.o, d, p, e.data, e.param)
		}
	}
	for slot, arming := range want.arming {
		if !m.IsCurrent(dualmap.Current{Slot: slot, Arming: arming}) || m.IsCurrent(dualmap.Current{Slot: slot, Arming: ^arming}) {
			t.Fatalf("slot %d is not current under arming %d alone", slot, arming)
		}
	}
	if m.Len() != want.living() || m.Slots() != want.used || m.Retired() != 0 {
		t.Fatalf("Len, Slots, Retired = %d, %d, %d, want %d, %d, 0", m.Len(), m.Slots(), m.Retired(), want.living(), want.used)
	}
}
