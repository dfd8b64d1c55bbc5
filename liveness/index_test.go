package liveness

import "testing"

// FuzzIndex compares the index with a map. Each byte is an id, which is added, or removed if it is
// there; few hashes are shared by them, so that tags and positions collide. Only the map keeps the
// devices alive.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("abc"), uint64(0))
	f.Add([]byte("the quick brown fox jumps over the lazy dog"), uint64(1<<48))
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	f.Add(all, uint64(7<<46|3))
	f.Add(append(all, all[:240]...), uint64(0x9e3779b97f4a7c15))
	f.Fuzz(func(t *testing.T, ids []byte, spread uint64) {
		var x index
		model := make(map[string]*device)
		hash := func(id string) uint64 { return uint64(id[0]) * spread }
		rehash := func(d *device) uint64 { return hash(d.id) }
		for i := range ids {
			id := string(ids[i : i+1])
			d, known := model[id]
			if got := x.find(hash(id), id); got != d {
				t.Fatalf("find(%q) = %p, want %p", id, got, d)
			}
			if known {
				x.remove(hash(id), d, rehash)
				delete(model, id)
				continue
			}
			d = new(device)
			d.name(id)
			model[id] = d
			x.insert(hash(id), d, rehash)
		}
		for i := range 256 {
			id := string([]byte{byte(i)})
			if got := x.find(hash(id), id); got != model[id] || got != nil && got.id != id {
				t.Fatalf("in the end find(%q) = %p, want %p", id, got, model[id])
			}
		}
		if n := len(x.entries); x.used != len(model) || x.used > n/5*4 || n > leastIndex && x.used < n/8 {
			t.Fatalf("%d of %d entries used for %d devices", x.used, n, len(model))
		}
	})
}
