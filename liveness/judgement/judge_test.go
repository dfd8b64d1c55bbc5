package judgement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// A Judge says the same of a gap whatever it judged before.
func TestJudgeAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	span := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
	wall := time.Date(2026, 3, 2, 21, 0, 0, 0, time.UTC)
	var judge judgement.Judge
	judged := make(map[string]int)
	for range 20_000 {
		g := judgement.Gap{Num: 1, Source: "edge", Start: time.Hour + span(time.Hour), Length: 1 + span(10*time.Minute), At: wall.Add(span(4 * time.Hour))}
		if random.IntN(4) == 0 {
			g.Slept = span(g.Length)
		}
		if random.IntN(3) == 0 {
			g.Reason, g.Closed = judgement.Closed, span(g.Length)
		}
		p := judgement.Policy{Timeout: time.Second + span(8*time.Minute), LateAfter: span(4 * time.Minute), CloseGrace: span(time.Minute), Probes: random.IntN(3)}
		if random.IntN(4) == 0 {
			p.Quiet = []string{"22:00-06:00", "21:30-21:32", "Mon 20:00-23:00"}[random.IntN(3)]
		}
		p = p.Complete()
		grace := p.Grace(10*time.Second, 5*time.Minute)
		var breaks []judgement.Break
		for at := g.Start; random.IntN(2) == 0; {
			at += span(2 * time.Minute)
			breaks = append(breaks, judgement.Break{Source: "edge", Kind: judgement.BreakKind(random.IntN(4)), At: at, Clock: at, Length: span(3 * time.Minute), To: wall})
		}
		got, want := judge.Gap(&g, &p, grace, breaks), g.Judge(p, grace, breaks)
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
	g := judgement.Gap{Num: 1, Source: "edge", Start: time.Hour, Length: 10 * time.Minute, Reason: judgement.Closed, Closed: time.Minute}
	p := judgement.Policy{Timeout: time.Minute, LateAfter: 30 * time.Second}.Complete()
	breaks := []judgement.Break{{Source: "edge", Kind: judgement.BreakCut, At: time.Hour + time.Second, Clock: time.Hour + time.Second, Length: time.Second}}
	var judge judgement.Judge
	grace := p.Grace(10*time.Second, 5*time.Minute)
	if n := testing.AllocsPerRun(100, func() { judge.Gap(&g, &p, grace, breaks) }); n > 0 {
		t.Errorf("%v allocations for a gap, want 0", n)
	}
}
