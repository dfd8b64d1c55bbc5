package timer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

// tidy checks what must hold of the heaps whenever nothing is under way.
func (e *fixture) tidy(shards int, eager bool) {
	e.t.Helper()
	st := e.Stats()
	switch {
	case st.Hints-st.Dead != st.Armed:
		e.t.Fatalf("Hints, Dead, Armed = %d, %d, %d: not each timer has one live entry", st.Hints, st.Dead, st.Armed)
	case eager && st.Dead != 0:
		e.t.Fatalf("%d dead entries", st.Dead)
	case st.Dead > max(st.Armed, shards*timer.SweepMin)+shards*timer.SweepMin:
		e.t.Fatalf("%d dead entries beside %d armed timers", st.Dead, st.Armed)
	}
}

// Entries of cancelled timers that came up leave fewer that may be too many.
func TestSweptAfterMostCameUp(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		const n = 10_000
		g := e.group(func([]timer.Expired) {})
		var short, long []timer.ID
		for range n {
			short = append(short, e.armed(g.Arm(0, time.Minute, 0)))
			long = append(long, e.armed(g.Arm(0, 1000*time.Hour, 0)))
		}
		for _, id := range short[1:] {
			e.Cancel(id)
		}
		e.advance(time.Hour)
		for _, id := range long[:n-100] {
			e.Cancel(id)
			e.tidy(1, false)
		}
	})
}

func TestDeadEntriesAreSwept(t *testing.T) {
	for _, eager := range []bool{false, true} {
		t.Run(fmt.Sprintf("eager=%v", eager), func(t *testing.T) {
			bubble(t, timer.Config{Eager: eager}, func(e *fixture) {
				t := e.t
				const n = 3000
				r := rand.New(rand.NewPCG(1, 2))
				var rec recorder
				g := e.group(rec.handle)
				var ids []timer.ID
				for i := range uint64(n) {
					ids = append(ids, e.armed(g.Arm(0, time.Minute+time.Duration(r.Int64N(int64(time.Hour))), i)))
				}
				r.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				for _, id := range ids[:n-100] {
					if !e.Cancel(id) {
						t.Fatal("Cancel = false")
					}
					e.tidy(1, eager)
				}
				if st := e.Stats(); st.Sweeps == 0 != eager {
					t.Errorf("Sweeps = %d", st.Sweeps)
				}
				e.advance(2 * time.Hour)
				if got := len(rec.take()); got != 100 {
					t.Errorf("%d expired, want 100", got)
				}
				if st := e.Stats(); st.Hints != 0 {
					t.Errorf("Hints = %d, want 0", st.Hints)
				}
			})
		})
	}
}

// When the living expire, the dead are swept as well.
func TestSweptAfterExpiry(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		g := e.group(func([]timer.Expired) {})
		for range 1000 {
			e.armed(g.Arm(0, time.Second, 0))
		}
		for range 1000 {
			e.Cancel(e.armed(g.Arm(0, time.Hour, 0)))
		}
		if st := e.Stats(); st.Dead != 1000 {
			t.Errorf("Dead = %d, want 1000", st.Dead)
		}
		e.advance(2 * time.Second)
		if st := e.Stats(); st.Dead > timer.SweepMin {
			t.Errorf("Dead = %d, want at most %d", st.Dead, timer.SweepMin)
		}
	})
}

// Moving deadlines to earlier ones again and again leaves entries behind; by multiples of 2^15
// ticks, entries that look alive.
func TestEarlierAgainAndAgain(t *testing.T) {
	const unit = resolution << 15
	for _, tt := range []struct {
		name string
		// deadline of the i-th touch
		deadline func(i int) time.Duration
	}{
		{"by a tick", func(i int) time.Duration { return time.Hour - time.Duration(i)*resolution }},
		{"by 2^15 ticks", func(i int) time.Duration { return 10_000*unit - time.Duration(i)*unit }},
		{"by 2^16 ticks", func(i int) time.Duration { return 20_000*unit - time.Duration(i)*2*unit }},
		{"back and forth by 2^15 ticks", func(i int) time.Duration { return time.Hour - time.Duration(i%2)*unit }},
		{"back and forth by 3 × 2^15 ticks", func(i int) time.Duration { return time.Hour - time.Duration(i%4)*3*unit }},
		{"back and forth beyond the keys", func(i int) time.Duration { return 8000*time.Hour - time.Duration(i%2)*time.Hour }},
		{"back and forth across the last key", func(i int) time.Duration { return 150*time.Hour + time.Duration(i%2)*24*time.Hour }},
	} {
		for _, eager := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/eager=%v", tt.name, eager), func(t *testing.T) {
				bubble(t, timer.Config{Eager: eager}, func(e *fixture) {
					t := e.t
					const timers, touches = 5, 5000
					var r recorder
					g := e.group(r.handle)
					var ids []timer.ID
					for i := range uint64(timers) {
						ids = append(ids, e.armed(g.Arm(0, 10_000*time.Hour, i)))
					}
					for i := range touches {
						for _, id := range ids {
							if !e.TouchTo(id, tt.deadline(i)) {
								t.Fatal("TouchTo = false")
							}
						}
						e.tidy(1, eager)
					}
					last := ceil(tt.deadline(touches - 1))
					e.set(last - 1)
					r.want(t, "before the last deadline")
					e.set(last)
					if got := r.take(); len(got) != timers {
						t.Errorf("%d expired, want %d", len(got), timers)
					}
					e.set(20_000 * time.Hour)
					r.want(t, "afterwards")
				})
			})
		}
	}
}
