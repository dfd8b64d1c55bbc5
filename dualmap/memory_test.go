package dualmap_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/holter-iot/holter/dualmap"
)

// fakeMemory is a memory in the heap.
type fakeMemory struct {
	full   bool
	blocks [][]byte
}

func (m *fakeMemory) Chunk(size int) []byte {
	if m.full {
		return nil
	}
	m.blocks = append(m.blocks, make([]byte, size))
	return m.blocks[len(m.blocks)-1]
}

// newMap is dualmap.New with a memory that may be nil.
func newMap(capacity uint32, positions bool, memory *fakeMemory) *dualmap.Map {
	if memory == nil {
		return dualmap.New(capacity, positions, nil)
	}
	return dualmap.New(capacity, positions, memory)
}

// scan returns the entries in the memory, in some order of their own.
func (m *fakeMemory) scan() (all []dualmap.Entry) {
	for _, b := range m.blocks {
		all = slices.AppendSeq(all, dualmap.Scan(b))
	}
	sortEntries(all)
	return all
}

func sortEntries(all []dualmap.Entry) {
	slices.SortFunc(all, func(a, b dualmap.Entry) int {
		return cmp.Or(cmp.Compare(a.Data, b.Data), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Param, b.Param))
	})
}

func (m *fakeMemory) want(t *testing.T, want []dualmap.Entry) {
	t.Helper()
	sortEntries(want)
	if got := m.scan(); !slices.Equal(got, want) {
		t.Fatalf("Scan found %v, want %v", got, want)
	}
}

func TestScan(t *testing.T) {
	var memory fakeMemory
	m := newMap(2000, false, &memory)
	var want []dualmap.Entry
	var os []dualmap.Original
	for i := range uint64(1500) {
		o := insert(t, m, i+1, i<<40, uint32(i)<<20)
		os = append(os, o)
		want = append(want, dualmap.Entry{Value: i + 1, Data: i << 40, Param: uint32(i) << 20})
	}
	if len(memory.blocks) != 3 || len(memory.blocks[0]) != dualmap.ChunkBytes {
		t.Fatalf("1500 entries lie in %d blocks, want 3 of %d bytes", len(memory.blocks), dualmap.ChunkBytes)
	}
	memory.want(t, want)
	if !m.CompareAndSwap(os[700], 701, dualmap.MaxValue) {
		t.Fatal("CompareAndSwap failed")
	}
	want[700].Value = dualmap.MaxValue
	m.SetParam(os[700].Slot, 9)
	want[700].Param = 9
	memory.want(t, want)
	for e := range dualmap.Scan(memory.blocks[1]) {
		if e != want[512] {
			t.Errorf("the first entry of the second block is %v, want %v", e, want[512])
		}
		break
	}
}

// An entry that was removed is found with its last value until its slot is released. What has come
// to the slot since is its own.
func TestScanRemoved(t *testing.T) {
	var memory fakeMemory
	m := newMap(1, false, &memory)
	o := insert(t, m, 5, 1, 10)
	if m.Remove(o, 4) {
		t.Fatal("Remove with a wrong old value succeeded")
	}
	m.CompareAndSwap(o, 5, 6)
	memory.want(t, []dualmap.Entry{{Value: 6, Data: 1, Param: 10}})
	if !m.Remove(o, 6) {
		t.Fatal("Remove failed")
	}
	memory.want(t, []dualmap.Entry{{Value: 6, Data: 1, Param: 10}})
	if m.Remove(o, 6) {
		t.Fatal("Remove of a removed entry succeeded")
	}
	m.Release(o.Slot)
	memory.want(t, nil)
	next := insert(t, m, 7, 2, 20)
	if m.Remove(o, 7) || m.Remove(o, 6) {
		t.Fatal("Remove of an earlier tenant succeeded")
	}
	memory.want(t, []dualmap.Entry{{Value: 7, Data: 2, Param: 20}})
	end(t, m, next)
	memory.want(t, nil)
}

// An entry that was discarded is not found any more, though its slot is not released.
func TestScanDiscarded(t *testing.T) {
	var memory fakeMemory
	m := newMap(1, false, &memory)
	o := insert(t, m, 5, 1, 10)
	if last, ok := m.Discard(o); last != 5 || !ok {
		t.Fatalf("Discard = %d, %v, want 5, true", last, ok)
	}
	memory.want(t, nil)
	if _, ok := m.Discard(o); ok {
		t.Error("Discard of a discarded entry succeeded")
	}
	m.Release(o.Slot)
	next := insert(t, m, 7, 2, 20)
	if _, ok := m.Discard(o); ok {
		t.Error("Discard of an earlier tenant succeeded")
	}
	memory.want(t, []dualmap.Entry{{Value: 7, Data: 2, Param: 20}})
	end(t, m, next)
}

// Between two stores of an insertion into a slot that was used before, nothing is found: neither
// what was there nor half of what comes.
func TestScanHalfInserted(t *testing.T) {
	var memory fakeMemory
	m := newMap(1, false, &memory)
	end(t, m, insert(t, m, 5, 1, 10))
	before := bytes.Clone(memory.blocks[0])
	insert(t, m, 7, 2, 20)
	after := memory.blocks[0]
	// In the order in which they are stored: the data, the parameter, the word.
	half := bytes.Clone(before)
	for _, at := range []int{16 * 512, 8} {
		copy(half[at:at+8], after[at:at+8])
		if found := slices.Collect(dualmap.Scan(half)); len(found) > 0 {
			t.Errorf("Scan found %v, half inserted", found)
		}
	}
	copy(half[:8], after[:8])
	if found := slices.Collect(dualmap.Scan(half)); !slices.Equal(found, []dualmap.Entry{{Value: 7, Data: 2, Param: 20}}) {
		t.Errorf("Scan found %v, want the entry", found)
	}
}

// A memory that is full at the beginning, or later, costs no entry.
func TestMemoryFull(t *testing.T) {
	var memory fakeMemory
	m := newMap(2000, true, &memory)
	var os []dualmap.Original
	for i := range uint64(2000) {
		memory.full = i >= 600 && i < 1500 // the third chunk lies in the heap
		os = append(os, insert(t, m, i+1, i, 0))
	}
	for i, o := range os {
		if v, ok := m.Load(o); !ok || v != uint64(i)+1 || m.Data(o.Slot) != uint64(i) {
			t.Fatalf("Load of entry %d = %d, %v", i, v, ok)
		}
	}
	if found := len(memory.scan()); found != 2000-512 {
		t.Errorf("Scan found %d entries, want %d", found, 2000-512)
	}
	for _, o := range os {
		end(t, m, o)
	}
	memory.want(t, nil)
}

type shortMemory struct{ size, skip int }

func (m shortMemory) Chunk(int) []byte { return make([]byte, m.size+m.skip)[m.skip:] }

func TestBadMemory(t *testing.T) {
	for name, memory := range map[string]shortMemory{
		"short":     {size: dualmap.ChunkBytes - 1},
		"unaligned": {size: dualmap.ChunkBytes, skip: 4},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Insert did not panic")
				}
			}()
			_, _ = dualmap.New(1, false, memory).Insert(1, 0, 0)
		})
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte{1, 2, 3}, 8*512)
	f.Add(bytes.Repeat([]byte{0xff}, dualmap.ChunkBytes), 0)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		block := make([]byte, dualmap.ChunkBytes)
		if at >= 0 && at < len(block) {
			copy(block[at:], data)
		}
		for _, b := range [][]byte{block, data} {
			n := 0
			for e := range dualmap.Scan(b) {
				if e.Value == 0 || e.Value > dualmap.MaxValue {
					t.Errorf("Scan found the value %d", e.Value)
				}
				n++
			}
			if n > 512 || n > 0 && len(b) != dualmap.ChunkBytes {
				t.Errorf("Scan found %d entries in %d bytes", n, len(b))
			}
		}
		if word := binary.NativeEndian.Uint64(block) & dualmap.MaxValue; word != 0 {
			for e := range dualmap.Scan(block) {
				if e.Value != word {
					t.Errorf("the first value is %d, want %d", e.Value, word)
				}
				break
			}
		}
	})
}
