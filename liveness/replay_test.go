package liveness_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// A Judge says the same of a gap whatever it judged before.
func TestJudgeAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	span := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	cfg := liveness.SourceConfig{Name: "edge", ReconnectGrace: 10 * time.Second, ReconnectGraceMax: 5 * time.Minute}
	wall := time.Date(2026, 3, 2, 21, 0, 0, 0, time.UTC)
	var judge liveness.Judge
	judged := make(map[string]int)
	for range 20_000 {
		g := liveness.Gap{Num: 1, Source: "edge", Start: time.Hour + span(time.Hour), Length: 1 + span(10*time.Minute), At: wall.Add(span(4 * time.Hour))}
		if random.IntN(4) == 0 {
			g.Slept = span(g.Length)
		}
		if random.IntN(3) == 0 {
			g.Reason, g.Closed = liveness.Closed, span(g.Length)
		}
		p := liveness.Policy{Timeout: time.Second + span(8*time.Minute), LateAfter: span(4 * time.Minute), CloseGrace: span(time.Minute), Probes: random.IntN(3)}
		if random.IntN(4) == 0 {
			p.Quiet = []string{"22:00-06:00", "21:30-21:32", "Mon 20:00-23:00"}[random.IntN(3)]
		}
		p = p.Complete()
		var breaks []liveness.Break
		for at := g.Start; random.IntN(2) == 0; {
			at += span(2 * time.Minute)
			breaks = append(breaks, liveness.Break{Source: "edge", Kind: liveness.BreakKind(random.IntN(4)), At: at, Clock: at, Length: span(3 * time.Minute), To: wall})
		}
		got, want := judge.Gap(&g, &p, &cfg, breaks), g.Judge(p, cfg, breaks)
		if got != want {
			t.Fatalf("of %+v by %+v with %+v: %+v, want %+v", g, p, breaks, got, want)
		}
		judged[fmt.Sprint(got.Late > 0, got.Reason)]++
	}
	if len(judged) < 6 {
		t.Errorf("only %v were said", judged)
	}
}

// A Judge does not allocate where nothing is quiet.
func TestJudgeAllocates(t *testing.T) {
	cfg := liveness.SourceConfig{Name: "edge", ReconnectGrace: 10 * time.Second, ReconnectGraceMax: 5 * time.Minute}
	g := liveness.Gap{Num: 1, Source: "edge", Start: time.Hour, Length: 10 * time.Minute, Reason: liveness.Closed, Closed: time.Minute}
	p := liveness.Policy{Timeout: time.Minute, LateAfter: 30 * time.Second}.Complete()
	breaks := []liveness.Break{{Source: "edge", Kind: liveness.BreakCut, At: time.Hour + time.Second, Clock: time.Hour + time.Second, Length: time.Second}}
	var judge liveness.Judge
	if n := testing.AllocsPerRun(100, func() { judge.Gap(&g, &p, &cfg, breaks) }); n > 0 {
		t.Errorf("%v allocations for a gap, want 0", n)
	}
}
