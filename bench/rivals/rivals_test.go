package rivals

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// heard notes when the timer at each place fired.
type heard struct {
	mu    sync.Mutex // guards at
	at    [][]time.Time
	fires chan struct{} // as long as all timers; never closed
}

func newHeard(n int) *heard {
	return &heard{at: make([][]time.Time, n), fires: make(chan struct{}, 2*n)}
}

func (h *heard) fire(i int) {
	h.mu.Lock()
	h.at[i] = append(h.at[i], time.Now())
	h.mu.Unlock()
	h.fires <- struct{}{}
}

func (h *heard) wait(t *testing.T, n int) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for k := range n {
		select {
		case <-h.fires:
		case <-patience:
			t.Fatalf("%d of %d timers have fired", k, n)
		}
	}
}

// TestContenders holds that what is compared does the job: each rival fires, renews and cancels.
func TestContenders(t *testing.T) {
	for _, c := range timers() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testContender(t, c)
		})
	}
}

func testContender(t *testing.T, c contender) {
	t.Helper()
	const (
		each   = 50 // timers of each sort
		timers = 4 * each
		period = 500 * time.Millisecond
	)
	h := newHeard(timers)
	r := c.open(newSetup(timers, true, h.fire))

	// The first quarter is left alone, the second renewed, the third cancelled, the fourth renewed and cancelled.
	due := make([]time.Time, timers)
	armed := time.Now()
	r.batch()
	for i := range timers {
		due[i] = armed.Add(period)
		if i < each {
			r.armAt(i, due[i])
		} else {
			r.arm(i, period)
		}
	}
	time.Sleep(period / 3)
	r.batch()
	renewed := time.Now()
	for i := each; i < timers; i++ {
		if i/each != 2 {
			r.touch(i, period)
			due[i] = renewed.Add(period)
		}
	}
	for i := 2 * each; i < timers; i++ {
		r.cancel(i)
	}
	if time.Since(armed) > period-c.tick {
		t.Skip("this machine is too busy: the timers were due before they were renewed")
	}

	h.wait(t, 2*each)
	time.Sleep(period / 3) // for what fires twice, or although it is cancelled
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, at := range h.at {
		want := 1
		if i >= 2*each {
			want = 0
		}
		if len(at) != want {
			t.Fatalf("timer %d (of sort %d) has fired %d times, want %d", i, i/each, len(at), want)
		}
		if want == 1 && at[0].Before(due[i].Add(-c.tick)) {
			t.Errorf("timer %d (of sort %d) has fired %v before its deadline", i, i/each, due[i].Sub(at[0]))
		}
	}
}

// TestSwap holds that swapped ids name each other's timers, while callbacks are told what they were.
func TestSwap(t *testing.T) {
	for _, c := range timers() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHeard(2)
			r := c.open(newSetup(2, true, h.fire))
			r.batch()
			for i := range 2 {
				r.arm(i, 300*time.Millisecond)
			}
			r.swap(0, 1)
			r.cancel(0)
			h.wait(t, 1)
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.at[0]) != 1 || len(h.at[1]) != 0 {
				t.Errorf("timer 0 fired %d times and timer 1 %d times, want once and never", len(h.at[0]), len(h.at[1]))
			}
		})
	}
}

// TestQuick measures everything once, with next to nothing.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	dir := t.TempDir()
	md := filepath.Join(dir, "tables.md")
	args := []string{"rivals", "-quick", "-only", "Holter$|AfterFunc", "-md", md, "-svg", dir}
	if err := run.Main(t.Context(), args, nil, io.Discard, io.Discard, Command()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(md)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(&run.Run{Quick: true}, 2000)
	for _, want := range b.tables() {
		if !strings.Contains(string(text), "### "+want.title+"\n") {
			t.Errorf("no table %q", want.title)
		}
		if _, err := os.Stat(filepath.Join(dir, want.chart)); err != nil {
			t.Error(err)
		}
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| "+holterName+" |") && strings.Contains(line, "–") {
			t.Errorf("a figure is missing: %s", line)
		}
	}
}

func TestReport(t *testing.T) {
	b := newBench(&run.Run{Rounds: 2}, minTimers)
	for _, v := range []float64{10, 20} {
		for rival, got := range map[string]values{
			holterName:       {"arm_ns": v, "instant_last": v},
			"time.AfterFunc": {"arm_ns": v / 2},
			"antlabs/timer":  {"instant_last": 1, "instant_early": 3},
		} {
			b.results[rival] = append(b.results[rival], got)
		}
	}
	text := b.report(t.Context(), 0)
	for _, want := range []string{
		"| Holter | 15.0 (10.0–20.0) | 1.00 | – | – | – |", "| time.AfterFunc | **7.50** (5.00–10.0) | 0.50 | – | – | – |",
		"| Holter | **15.0** (10.0–20.0) | 1.00 | – | – | – |", "| antlabs/timer | 1.00 | 0.075 | 3 | – | – |",
		"* Arm and cancel, arm, ns: time.AfterFunc 7.50 against 15.0\n", "* All due at one instant, last after, ms: antlabs/timer 1.00 (fires early) against 15.0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-n", "1"}, {"extra"}, {"-nonsense"}} {
		if err := run.Main(t.Context(), append([]string{"rivals"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
