package store_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// pages are pages of all kinds.
func pages() map[string]store.Page {
	random := rand.New(rand.NewPCG(1, 2))
	fill := func(n int, heard func(i int) keep.Heard) []keep.Heard {
		all := make([]keep.Heard, n)
		for i := range all {
			all[i] = heard(i)
		}
		return all
	}
	id := [16]byte{1, 2, 3}
	regular := func(int) keep.Heard { return store.NewHeard(0, 1_000_000+random.Uint64N(30_000)) }
	return map[string]store.Page{
		"nothing heard": {Store: id, Number: 1, Heard: make([]keep.Heard, 100), Sources: []string{"a"}},
		"no devices":    {Store: id, Number: 1, Sources: []string{"a"}},
		"one":           {Store: id, Page: 7, Number: 1 << 60, Heard: []keep.Heard{0, store.NewHeard(0, 1)}, Sources: []string{"a"}},
		"regular":       {Store: id, Number: 9, Heard: fill(store.PageLen, regular), Sources: []string{"gateway"}},
		"all at once":   {Store: id, Number: 9, Heard: fill(store.PageLen, func(int) keep.Heard { return store.NewHeard(0, 77) }), Sources: []string{"a"}},
		"some long ago": {Store: id, Number: 9, Heard: fill(store.PageLen, func(i int) keep.Heard {
			if i%100 == 0 {
				return store.NewHeard(0, 1+random.Uint64N(1<<20))
			}
			return store.NewHeard(0, 1<<30+random.Uint64N(1<<14))
		}), Sources: []string{"a"}},
		"extremes": {Store: id, Number: 9, Heard: fill(50, func(i int) keep.Heard {
			return store.NewHeard(0, []uint64{1, 1<<48 - 1}[i%2])
		}), Sources: []string{"a"}},
		"many sources": {Store: id, Number: 9, Heard: fill(3000, func(i int) keep.Heard {
			if i%7 == 0 {
				return 0
			}
			return store.NewHeard(random.IntN(3), 5000+random.Uint64N(1000))
		}), Sources: []string{"a", "b", "ü"}},
	}
}

// at returns what a page says of a device: the name of the source, and when.
func at(p store.Page, i int) (string, keep.Heard) {
	h := p.Heard[i]
	if h == 0 {
		return "", 0
	}
	return p.Sources[h.Source()], h & (1<<48 - 1)
}

func TestPages(t *testing.T) {
	for name, want := range pages() {
		t.Run(name, func(t *testing.T) {
			got, err := store.DecodePage(store.EncodePage(want))
			if err != nil {
				t.Fatal(err)
			}
			if got.Store != want.Store || got.Page != want.Page || got.Number != want.Number || len(got.Heard) != len(want.Heard) {
				t.Fatalf("the head is %v %d %d, %d devices", got.Store, got.Page, got.Number, len(got.Heard))
			}
			for i := range want.Heard {
				gotSource, gotTime := at(got, i)
				wantSource, wantTime := at(want, i)
				if gotSource != wantSource || gotTime != wantTime {
					t.Fatalf("device %d: %s %d, want %s %d", i, gotSource, gotTime, wantSource, wantTime)
				}
			}
		})
	}
}

func TestPagesAreSmall(t *testing.T) {
	b := store.EncodePage(pages()["regular"])
	if most := store.PageLen*15/8 + 100; len(b) > most { // 30,000 ticks are 15 bits
		t.Errorf("a page takes %d bytes, want at most %d", len(b), most)
	}
	if b = store.EncodePage(pages()["some long ago"]); len(b) > store.PageLen*2 {
		t.Errorf("a page with exceptions takes %d bytes", len(b))
	}
}

func TestDamagedPages(t *testing.T) {
	for name, p := range pages() {
		good := store.EncodePage(p)
		for i := 0; i < len(good); i += 1 + len(good)/300 {
			if _, err := store.DecodePage(good[:i]); err == nil {
				t.Errorf("%s: cut to %d bytes of %d it is taken", name, i, len(good))
			}
			bad := slices.Clone(good)
			bad[i] ^= 0x10
			if _, err := store.DecodePage(bad); err == nil {
				t.Errorf("%s: with byte %d changed it is taken", name, i)
			}
		}
	}
}

// FuzzDecodePage makes sure that no bytes make the decoder panic or return what cannot be, also if their checksum is right.
func FuzzDecodePage(f *testing.F) {
	for _, p := range pages() {
		b := store.EncodePage(p)
		f.Add(b[:len(b)-4], true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = store.Seal(b)
		}
		p, err := store.DecodePage(b)
		if err != nil {
			return
		}
		if len(p.Heard) > store.PageLen || len(p.Sources) > len(p.Heard) {
			t.Fatalf("%d devices, %d sources", len(p.Heard), len(p.Sources))
		}
		for i, h := range p.Heard {
			if h != 0 && h.Source() >= len(p.Sources) {
				t.Fatalf("device %d was heard by source %d of %d", i, h.Source(), len(p.Sources))
			}
		}
		again, err := store.DecodePage(store.EncodePage(p))
		if err != nil {
			t.Fatalf("what it says cannot be said: %v", err)
		}
		for i := range p.Heard {
			s1, t1 := at(p, i)
			s2, t2 := at(again, i)
			if s1 != s2 || t1 != t2 {
				t.Fatalf("device %d: %s %d becomes %s %d", i, s1, t1, s2, t2)
			}
		}
	})
}

func TestPolicyText(t *testing.T) {
	for _, c := range []struct {
		policy liveness.Policy
		want   string
	}{
		{liveness.Policy{}, ""},
		{liveness.Policy{Timeout: 90e9}, "timeout=1m30s"},
		{liveness.Policy{Interval: 1, Timeout: 2, LateAfter: 3, CloseGrace: 4, SleepLimit: 5}, "interval=1ns timeout=2ns late=3ns close_grace=4ns sleep_limit=5ns"},
		{liveness.Policy{Probes: 3}, "probes=3"},
		{liveness.Policy{RecoverAfter: 3}, "recover_after=3"},
		{liveness.Policy{Learn: judgement.LearnApply, LearnBudget: 0.5, LearnMax: 3600e9}, "learn=3 learn_budget=0.5 learn_max=1h0m0s"},
		{
			liveness.Policy{Timeout: 90e9, Quiet: "Sat,Sun 00:00-24:00 UTC; 22:00-06:00 Europe/Berlin"},
			"timeout=1m30s quiet=Sat%2CSun+00%3A00-24%3A00+UTC%3B+22%3A00-06%3A00+Europe%2FBerlin",
		},
		{liveness.Policy{Expect: "*/5 3 * * * Europe/Berlin"}, "expect=%2A%2F5+3+%2A+%2A+%2A+Europe%2FBerlin"},
		{liveness.Policy{Timeout: 90e9, Probes: 2, ProbeWait: 4e9}, "timeout=1m30s probe_wait=4s probes=2"},
	} {
		if text, back, err := store.PolicyRoundTrip(c.policy); text != c.want || back != c.policy || err != nil {
			t.Errorf("%+v is %q, %+v, %v, want %q", c.policy, text, back, err, c.want)
		}
	}
}

func TestChanges(t *testing.T) {
	long := make([]int64, 64)
	for i := range long {
		long[i] = base.UnixNano() + int64(i)*1e9
	}
	for _, want := range [][]int64{nil, {1}, {base.UnixNano()}, {5, 3, -7}, long} {
		if got, err := store.ChangesRoundTrip(want); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v becomes %v, %v", want, got, err)
		}
	}
	if got, _ := store.ChangesRoundTrip(append([]int64{1, 2}, long...)); !reflect.DeepEqual(got, long) {
		t.Errorf("of 66 changes %d are left, want the last 64", len(got))
	}
	for _, bad := range [][]byte{{0x80}, make([]byte, 65), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}} {
		if got, err := store.UnpackChanges(bad); err == nil {
			t.Errorf("%x gives %v", bad, got)
		}
	}
}

func TestTypesHaveCodes(t *testing.T) {
	seen := make(map[int64]liveness.Type)
	for typ, code := range store.Types() {
		if other, ok := seen[code]; ok || code == 0 {
			t.Errorf("%v has the code %d, as %v", typ, code, other)
		}
		seen[code] = typ
	}
}
