package replay

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// However many rules a fleet has, few policies are kept, and each rule gets its own.
func TestPoliciesAreBounded(t *testing.T) {
	const rules = 10_000
	q := &Question{Field: LateAfter}
	for i := range MaxValues {
		q.Values = append(q.Values, time.Duration(i+1)*time.Second)
	}
	f := new(fleet)
	for i := range rules {
		f.policies = append(f.policies, liveness.Policy{Timeout: 2*time.Minute + time.Duration(i)*time.Millisecond})
	}
	r := newReplay(q, f, nil)
	for round := range 2 {
		for rule := range int32(rules) {
			tried := r.policies.of(rule, f, q)
			if len(tried) != MaxValues || tried[59].LateAfter != time.Minute || tried[0].Timeout != f.policies[rule].Timeout {
				t.Fatalf("round %d, rule %d: %+v", round, rule, tried)
			}
			if kept := len(r.policies.tried) * MaxValues; kept > policiesKept {
				t.Fatalf("%d policies are kept, want %d at most", kept, policiesKept)
			}
		}
	}
}
