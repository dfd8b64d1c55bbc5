package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

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
	for _, c := range contenders() {
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
	s := newSetup(timers, h.fire)
	s.each = true
	r, err := c.open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()

	// The first quarter is left alone, the second renewed, the third cancelled, the fourth renewed and cancelled.
	due := make([]time.Time, timers)
	armed := time.Now()
	batch(r)
	for i := range timers {
		due[i] = armed.Add(period)
		if i < each {
			err = armAt(r, i, due[i])
		} else {
			err = r.arm(i, period)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(period / 3)
	batch(r)
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
	for _, c := range contenders() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHeard(2)
			s := newSetup(2, h.fire)
			s.each = true
			r, err := c.open(s)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			batch(r)
			for i := range 2 {
				if err := r.arm(i, 300*time.Millisecond); err != nil {
					t.Fatal(err)
				}
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

// TestRun measures everything once, with next to nothing.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	md := filepath.Join(dir, "tables.md")
	if err := os.WriteFile(md, []byte("before\n"+beginMarker+"\nSTALE\n"+endMarker+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	only := "AfterFunc|stand-in"
	if raceDetector { // the stand-in with the two maps closes channels that others send on, and that is what closing measures
		only = "AfterFunc|func each|htask"
	}
	args := []string{"-short", "-n", "2000", "-only", only, "-json", filepath.Join(dir, "values.json"), "-md", md, "-png", dir}
	if err := run(args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(md)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "\nafter\n") || strings.Contains(got, "STALE") {
		t.Errorf("the tables are not between their markers:\n%s", got)
	}
	for _, want := range tables(sizesFor(2000, true)) {
		if !strings.Contains(got, "### "+want.title+"\n") {
			t.Errorf("no table %q", want.title)
		}
	}
	for _, c := range charts(sizesFor(2000, true)) {
		if _, err := os.Stat(filepath.Join(dir, c.file)); err != nil {
			t.Error(err)
		}
	}
}

func TestSummary(t *testing.T) {
	r := newResults(4)
	for round, v := range []float64{10, 20, 40} {
		r.add(round, holterName, armNanos, 1, v)
	}
	for round, v := range []float64{40, 50, 60, 70} {
		r.add(round, "other", armNanos, 1, v)
	}
	if got, want := r.get(armNanos, holterName).summary(), (summary{n: 3, median: 20, min: 10, max: 40}); got != want {
		t.Errorf("summary() = %+v, want %+v", got, want)
	}
	if got, want := r.get(armNanos, "other").summary().median, 55.0; got != want {
		t.Errorf("median of an even number = %v, want %v", got, want)
	}
	if got, want := r.ratios(armNanos, "other").summary(), (summary{n: 3, median: 2.5, min: 1.5, max: 4}); got != want {
		t.Errorf("ratios, by rounds that have both = %+v, want %+v", got, want)
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.00042: "0.0004", 0.05: "0.050", 1.234: "1.23", -5.2: "-5.20", 45.67: "45.7", 456.7: "457", 1234567: "1,234,567",
	} {
		if got := number(x); got != want {
			t.Errorf("number(%v) = %q, want %q", x, got, want)
		}
	}
	for n, want := range map[int]string{7: "7", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-n", "1"}, {"extra"}, {"-nonsense"}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("run(%q) succeeds, want an error", args)
		}
	}
}
