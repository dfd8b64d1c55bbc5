package liveness

import (
	"testing"
	"time"
)

const s = time.Second

// everyCondition calls a function for the stored states with each reason.
func everyCondition(yield func(condition) bool) {
	for state := range Unknown {
		for reason := NoReason; reason <= released; reason++ {
			if !yield(condition{state: state, reason: reason, last: 100 * s, until: 105 * s}) {
				return
			}
		}
	}
}

func checkProgress(t *testing.T, f condition, p Policy, notBefore time.Duration) {
	t.Helper()
	judged, why := f.verdict(p, notBefore)
	for steps := 0; ; steps++ {
		next, ok := f.next(p, notBefore)
		if !ok {
			break
		}
		if before := f; before == f.passed(next.at, p, notBefore) || steps > 2+p.Probes {
			t.Fatalf("%+v by %+v, not before %v: nothing happens at %v", f, p, notBefore, next.at)
		}
		if next.at > f.last && next.at > f.until && f.passed(next.at-1, p, notBefore) != f {
			t.Fatalf("%+v by %+v, not before %v: something happens before %v", f, p, notBefore, next.at)
		}
		f = f.passed(next.at, p, notBefore)
		if f.state == Offline && (f.until != judged || f.reason != why) {
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
						f.until = f.last + grace
						checkProgress(t, f, p, in.last+allowance)
					}
				}
			}
		}
	}
}
