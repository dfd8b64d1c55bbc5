package timer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// heapModel is a heap and, beside it, the naive list of what it should hold.
type heapModel struct {
	heap      hintHeap
	hints     []hint
	positions map[hint]int // by hint, which are told apart by their refs
}

func newHeapModel() *heapModel {
	m := &heapModel{positions: map[hint]int{}}
	m.heap.moved = func(h hint, at int) { m.positions[h] = at }
	return m
}

func (m *heapModel) push(h hint) {
	m.heap.push(h)
	m.hints = append(m.hints, h)
}

func (m *heapModel) drop(h hint) {
	m.hints = slices.DeleteFunc(m.hints, func(x hint) bool { return x == h })
	delete(m.positions, h)
}

func (m *heapModel) check(t *testing.T) {
	t.Helper()
	if m.heap.len() != len(m.hints) {
		t.Fatalf("len = %d, want %d", m.heap.len(), len(m.hints))
	}
	got, want := slices.Sorted(m.heap.all()), slices.Sorted(slices.Values(m.hints))
	if !slices.Equal(got, want) {
		t.Fatalf("the heap holds %x, want %x", got, want)
	}
	if len(want) > 0 && m.heap.min() != want[0] {
		t.Fatalf("min = %x, want %x", m.heap.min(), want[0])
	}
	for _, h := range m.hints {
		if at := m.positions[h]; *m.heap.at(at) != h {
			t.Fatalf("place %d, noted for %x, holds %x", at, h, *m.heap.at(at))
		}
	}
	for i := root + m.heap.n; i < len(m.heap.pages)*pageLen; i++ {
		if *m.heap.at(i) != noHint {
			t.Fatalf("place %d after the last hint holds %x", i, *m.heap.at(i))
		}
	}
	if most := (root+m.heap.n)/pageLen + 2; len(m.heap.pages) > most {
		t.Fatalf("%d pages for %d hints, want at most %d", len(m.heap.pages), m.heap.n, most)
	}
}

// play does one operation; key is 7 bits wide, so that equal keys are frequent, or reaches to the
// maximum.
func (m *heapModel) play(t *testing.T, operation byte, key uint32, serial uint32) {
	t.Helper()
	if key == 127 {
		key = maxKey
	}
	if operation%8 < 3 || len(m.hints) == 0 {
		m.push(newHint(key, serial))
		return
	}
	some := m.hints[int(key)%len(m.hints)]
	least := slices.Min(m.hints)
	switch operation % 8 {
	case 3, 4:
		if h := m.heap.pop(); h != least {
			t.Fatalf("pop = %x, want %x", h, least)
		}
		m.drop(least)
	case 5:
		m.heap.remove(m.positions[some])
		m.drop(some)
	case 6:
		m.drop(least)
		m.heap.replaceMin(newHint(key, serial))
		m.hints = append(m.hints, newHint(key, serial))
	case 7:
		m.rebuild(key)
	}
}

// rebuild drops each hint with an odd ref, and turns the keys of the others around.
func (m *heapModel) rebuild(key uint32) {
	replace := func(hints []hint) []hint {
		kept := slices.DeleteFunc(hints, func(h hint) bool { return h&1 != 0 })
		for i, h := range kept {
			kept[i] = newHint(h.key()^key, uint32(h.ref()))
		}
		return kept
	}
	clear(m.positions)
	m.heap.rebuild(replace)
	m.hints = replace(m.hints)
}

func FuzzHeap(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 5, 0, 3, 0, 5, 0, 0, 3, 0, 3, 0, 3, 0, 3, 0})
	f.Add([]byte{0, 127, 0, 127, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5, 0, 4, 0, 3, 0, 2, 0, 1, 5, 2, 5, 4, 6, 100, 7, 3, 3, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		m := newHeapModel()
		for serial := uint32(1); len(script) >= 2; script, serial = script[2:], serial+1 {
			m.play(t, script[0], uint32(script[1]&127), serial)
			m.check(t)
		}
	})
}

// The heap at sizes of several pages, on the way up and on the way down.
func TestHeapPages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := newHeapModel()
	const most = 3*pageLen + 100
	for i := range uint32(most) {
		m.push(newHint(r.Uint32(), i))
		if i%pageLen < 10 || i%pageLen > pageLen-10 {
			m.check(t)
		}
	}
	for i := range most {
		if i%3 == 0 {
			some := m.hints[r.IntN(len(m.hints))]
			m.heap.remove(m.positions[some])
			m.drop(some)
		} else {
			least := slices.Min(m.hints)
			if h := m.heap.pop(); h != least {
				t.Fatalf("pop = %x, want %x", h, least)
			}
			m.drop(least)
		}
		if i%100 == 0 {
			m.check(t)
		}
	}
	m.check(t)
}

func TestHeapShift(t *testing.T) {
	var q hintHeap
	for i := range uint32(1000) {
		q.push(newHint(1<<31+i*i, i))
	}
	q.shift(1 << 31)
	for i := range uint32(1000) {
		if h := q.pop(); h != newHint(i*i, i) {
			t.Fatalf("pop = %x, want key %d, ref %d", h, i*i, i)
		}
	}
}
