package store_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

const tick = timer.Resolution

// realisticGap is a gap as those of a fleet are that beats once a minute: it is 90 s to 20 min long,
// log-uniform, and ends in an hour that began at base. It is noted some 1 ms after it ended.
func realisticGap(random *rand.Rand, num uint32) judgement.Gap {
	length := time.Duration(90e9 * math.Pow(20*60/90., random.Float64())).Truncate(tick)
	ended := time.Duration(random.Int64N(int64(time.Hour)))
	start := (400*time.Hour + ended - length).Truncate(tick)
	return judgement.Gap{
		Num: num, Source: "gateway", Start: start, Length: length,
		At: time.UnixMilli(base.Add(ended + time.Duration(random.ExpFloat64()*1e6)).UnixMilli()),
	}
}

// realisticHour is an hour of a page of such devices, of whose beats 0.5 % come after a gap.
func realisticHour(random *rand.Rand) []judgement.Gap {
	var gaps []judgement.Gap
	for num := range uint32(store.PageLen) {
		for range 60 {
			if num > 0 && random.Float64() < 0.005 {
				gaps = append(gaps, realisticGap(random, num))
			}
		}
	}
	return gaps
}

func TestGapPagesAreSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	bytes, gaps := 0, 0
	for n := range int64(10) {
		hour := realisticHour(random)
		for i := range hour {
			hour[i].Num += uint32(n * store.PageLen)
		}
		gaps += len(hour)
		bytes += len(store.EncodeGapPage(store.GapPage{Hour: 500_000, Page: n, Gaps: hour}))
	}
	each := float64(bytes) / float64(gaps)
	t.Logf("%d gaps take %.2f bytes each: %.1f MB a day of 1,000,000 devices", gaps, each, each*1e6*1440*0.005/1e6)
	if each > 9.1 {
		t.Errorf("a gap takes %.2f bytes, want at most 9.1", each)
	}
	empty := len(store.EncodeGapPage(store.GapPage{}))
	if empty > 60 {
		t.Errorf("an empty page takes %d bytes", empty)
	}
}

// anyGap is a gap with anything in it that a page can hold.
func anyGap(random *rand.Rand) judgement.Gap {
	ticks := func() time.Duration { return time.Duration(random.Uint64N(1<<random.IntN(43))) * tick }
	g := judgement.Gap{
		Num: 1 + random.Uint32N(1<<random.IntN(32)), Source: []string{"", "a", "gateway/ü"}[random.IntN(3)], Length: ticks(),
		At: time.UnixMilli(random.Int64N(1<<43) - 1<<42), End: judgement.GapEnd(random.IntN(5)),
	}
	if g.End <= judgement.EndBye {
		g.Start = ticks()
	}
	if random.IntN(3) == 0 {
		g.Slept, g.Closed, g.Reason, g.Suppressed = ticks(), ticks(), liveness.Reason(random.IntN(int(liveness.Reported)+1)), true
		g.CutOff, g.Running, g.AtOnce, g.Told = random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(2) == 0
	}
	return g
}

// gapPages are pages of all kinds.
func gapPages() map[string]store.GapPage {
	random := rand.New(rand.NewPCG(3, 4))
	id := [16]byte{1, 2, 3}
	several := func(n int, one func() judgement.Gap) []judgement.Gap {
		gaps := make([]judgement.Gap, n)
		for i := range gaps {
			gaps[i] = one()
		}
		return gaps
	}
	same := realisticGap(random, 7)
	return map[string]store.GapPage{
		"none":      {Store: id, Hour: -5, Page: -3},
		"one":       {Store: id, Hour: 500_000, Page: 0, Gaps: []judgement.Gap{realisticGap(random, 1)}},
		"the same":  {Store: id, Hour: 500_000, Page: -9, Gaps: several(1000, func() judgement.Gap { return same })},
		"realistic": {Store: id, Hour: 500_000, Page: 2, Gaps: realisticHour(random)},
		"any":       {Store: id, Hour: math.MaxInt64, Page: math.MinInt64, Gaps: several(500, func() judgement.Gap { return anyGap(random) })},
		"deaf meanwhile": {Store: id, Gaps: several(1000, func() judgement.Gap {
			g := realisticGap(random, 1+random.Uint32N(4000))
			if g.At.Sub(base) > 30*time.Minute {
				g.At = g.At.Add(200 * time.Hour)
			}
			return g
		})},
	}
}

// sameGaps compares gaps, whose order may differ between devices.
func sameGaps(t *testing.T, got, want []judgement.Gap) {
	t.Helper()
	want = slices.Clone(want)
	slices.SortStableFunc(want, func(a, b judgement.Gap) int { return int(int64(a.Num) - int64(b.Num)) })
	if len(got) != len(want) {
		t.Fatalf("%d gaps, want %d", len(got), len(want))
	}
	for i := range want {
		if !got[i].At.Equal(want[i].At) {
			t.Fatalf("gap %d ended at %v, want %v", i, got[i].At, want[i].At)
		}
		got[i].At = want[i].At
		if got[i] != want[i] {
			t.Fatalf("gap %d:\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

func refused(page []byte) bool {
	_, err := store.DecodeGapPage(page)
	return err != nil
}

func TestGapPages(t *testing.T) {
	for name, want := range gapPages() {
		t.Run(name, func(t *testing.T) {
			b := store.EncodeGapPage(want)
			got, err := store.DecodeGapPage(b)
			if err != nil {
				t.Fatal(err)
			}
			if b[len(b)/2] ^= 0x10; !refused(b) || !refused(b[:len(b)-1]) {
				t.Error("changed or cut off it is taken")
			}
			if got.Store != want.Store || got.Hour != want.Hour || got.Page != want.Page {
				t.Errorf("the head is %v %d %d", got.Store, got.Hour, got.Page)
			}
			sameGaps(t, got.Gaps, want.Gaps)
		})
	}
}

func TestGapPagesRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		want := store.GapPage{Page: random.Int64()}
		for range random.IntN(20) {
			want.Gaps = append(want.Gaps, anyGap(random))
		}
		got, err := store.DecodeGapPage(store.EncodeGapPage(want))
		if err != nil {
			t.Fatal(err)
		}
		sameGaps(t, got.Gaps, want.Gaps)
	}
}

// What a page cannot hold becomes the nearest that it can.
func TestGapPagesRound(t *testing.T) {
	for _, c := range []struct{ length, want time.Duration }{
		{-5, 0}, {tick/2 - 1, 0}, {tick / 2, tick}, {5*tick + 1, 5 * tick}, {math.MaxInt64, time.Duration(math.MaxInt64).Truncate(tick)},
	} {
		for _, at := range []time.Time{base, {}, time.Unix(1<<40, 0), time.Unix(-1<<40, 0)} {
			b := store.EncodeGapPage(store.GapPage{Gaps: []judgement.Gap{{Num: 1, Length: c.length, Start: c.length, At: at}, {Num: 0}}})
			got, err := store.DecodeGapPage(b)
			if err != nil || len(got.Gaps) != 1 {
				t.Fatalf("%v at %v: %+v, %v", c.length, at, got, err)
			}
			if g := got.Gaps[0]; g.Length != c.want || g.Start != c.want {
				t.Errorf("%v at %v is %v from %v on, want %v", c.length, at, g.Length, g.Start, c.want)
			}
		}
	}
}

// FuzzDecodeGapPage makes sure that no bytes make the decoder panic or return what cannot be, also if their
// checksum is right.
func FuzzDecodeGapPage(f *testing.F) {
	for _, p := range gapPages() {
		b := store.EncodeGapPage(p)
		f.Add(b[:len(b)-4], true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = store.Seal(b)
		}
		p, err := store.DecodeGapPage(b)
		if err != nil {
			return
		}
		if 3*len(p.Gaps) > len(b) {
			t.Fatalf("%d gaps of %d bytes", len(p.Gaps), len(b))
		}
		again, err := store.DecodeGapPage(store.EncodeGapPage(p))
		if err != nil {
			t.Fatalf("what it says cannot be said: %v", err)
		}
		sameGaps(t, again.Gaps, p.Gaps)
	})
}

// FuzzDecodeHabits does the same for pages of habits.
func FuzzDecodeHabits(f *testing.F) {
	f.Add([]byte(fmt.Sprintf("HHP\x01%16d\x02%20d", 0, 7)), int64(2))
	f.Fuzz(func(t *testing.T, b []byte, n int64) {
		id := [16]byte{}
		copy(id[:], b[min(4, len(b)):])
		sealed := store.Seal(b)
		again, err := store.DecodeHabits(sealed, id, n)
		if err == nil && !slices.Equal(again, sealed) && len(again) >= len(sealed) {
			t.Fatalf("%x becomes %x", sealed, again)
		}
	})
}
