package judgement

import (
	"testing"
	"time"
)

const s = time.Second

// everyCondition calls a function for the stored states with each reason.
func everyCondition(yield func(Condition) bool) {
	for state := range Unknown {
		for reason := NoReason; reason <= released; reason++ {
			if !yield(Condition{State: state, Reason: reason, Last: 100 * s, Until: 105 * s}) {
				return
			}
		}
	}
}

func checkProgress(t *testing.T, f Condition, p Policy, notBefore time.Duration) {
	t.Helper()
	judged, why := f.Verdict(p, notBefore)
	for steps := 0; ; steps++ {
		next, ok := f.Next(p, notBefore)
		if !ok {
			break
		}
		if before := f; before == f.Passed(next.At, p, notBefore) || steps > 2+p.Probes {
			t.Fatalf("%+v by %+v, not before %v: nothing happens at %v", f, p, notBefore, next.At)
		}
		if next.At > f.Last && next.At > f.Until && f.Passed(next.At-1, p, notBefore) != f {
			t.Fatalf("%+v by %+v, not before %v: something happens before %v", f, p, notBefore, next.At)
		}
		f = f.Passed(next.At, p, notBefore)
		if f.State == Offline && (f.Until != judged || f.Reason != why) {
			t.Fatalf("%+v by %+v, not before %v: judged, want at %v for %v", f, p, notBefore, judged, why)
		}
	}
}

// In every condition the next step changes something; otherwise a timer would expire again and
// again.
func TestNextIsProgress(t *testing.T) {
	spans := []time.Duration{0, 1, 19 * s, 20 * s, 30*s - 1, 30 * s, 30*s + 1, 45 * s}
	for in := range everyCondition {
		for _, lateAfter := range spans {
			for _, grace := range spans {
				for _, allowance := range spans {
					for probes := range 4 {
						p := Policy{Timeout: 30 * s, LateAfter: lateAfter, Probes: probes, ProbeWait: 10 * s}
						f := in
						f.Until = f.Last + grace
						checkProgress(t, f, p, in.Last+allowance)
					}
				}
			}
		}
	}
}
