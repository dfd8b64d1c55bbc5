package dualmap_test

import (
	"math/rand/v2"
	"testing"

	"github.com/holter-iot/holter/dualmap"
)

func BenchmarkCompareAndSwap(b *testing.B) {
	const n = 1_000_000
	m := dualmap.New(n, false, nil)
	ids := make([]dualmap.Original, n)
	for i := range ids {
		ids[i], _ = m.Insert(1, uint64(i), 1)
	}
	order := rand.Perm(n)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		id := ids[order[i]]
		if i++; i == n {
			i = 0
		}
		v, _ := m.Load(id)
		m.CompareAndSwap(id, v, v+1)
	}
}
