package liveness

import "testing"

// FuzzIndex compares the index with a map. Each byte is an id; few hashes are shared by them, so
// that tags and positions collide.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("abc"), uint64(0))
	f.Add([]byte("the quick brown fox jumps over the lazy dog"), uint64(1<<32))
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	f.Add(all, uint64(7<<40|3))
	f.Add(all, uint64(0x9e3779b97f4a7c15))
	f.Fuzz(func(t *testing.T, ids []byte, spread uint64) {
		var x index
		model := make(map[byte]uint32)
		var byHandle []byte
		hash := func(id byte) uint64 { return uint64(id) * spread }
		same := func(id byte) func(uint32) bool { return func(h uint32) bool { return byHandle[h] == id } }
		for _, id := range ids {
			handle, ok := x.find(hash(id), same(id))
			if want, known := model[id]; ok != known || handle != want {
				t.Fatalf("find(%d) = %d, %v, want %d, %v", id, handle, ok, want, known)
			}
			if !ok {
				handle = uint32(len(byHandle))
				byHandle = append(byHandle, id)
				model[id] = handle
				x.insert(hash(id), handle, func(h uint32) uint64 { return hash(byHandle[h]) })
			}
		}
		for id, want := range model {
			if handle, ok := x.find(hash(id), same(id)); !ok || handle != want {
				t.Fatalf("in the end find(%d) = %d, %v, want %d", id, handle, ok, want)
			}
		}
		if x.used != len(model) || x.used > len(x.entries)/5*4 {
			t.Fatalf("%d of %d entries used for %d handles", x.used, len(x.entries), len(model))
		}
	})
}
