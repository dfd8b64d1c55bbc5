package chaos

import (
	"reflect"
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	const ttl = 6 * time.Second
	r := Rules{TTLs: []time.Duration{3 * ttl, ttl}}
	for seed := range uint64(50) {
		plan := Plan(seed, AllFaults(), 10*time.Minute, &r)
		if again := Plan(seed, AllFaults(), 10*time.Minute, &r); !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: another plan the second time", seed)
		}
		if reflect.DeepEqual(plan, Plan(seed+1, AllFaults(), 10*time.Minute, &r)) {
			t.Errorf("seeds %d and %d: the same plan", seed, seed+1)
		}
		kinds := map[FaultKind]int{}
		for _, f := range plan {
			kinds[f.Kind]++
			least, most := 3*time.Second, 30*time.Second
			if f.Kind == Stalls {
				least, most = time.Second, 9*time.Second
			}
			for _, uptime := range f.Uptimes {
				if uptime < least || uptime > most {
					t.Errorf("seed %d: %s with an uptime of %v", seed, f.Kind, uptime)
				}
			}
			stalls := f.Kind != Stalls || (f.Length >= 900*time.Millisecond && f.Length <= 3*time.Second)
			if f.Down > 5*ttl || f.Length > 3*ttl || f.Wait <= 0 || !stalls {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
		if len(plan) >= len(AllFaults()) && len(kinds) < len(AllFaults()) {
			t.Errorf("seed %d: %d faults, and only %v", seed, len(plan), kinds)
		}
	}
	if plan := Plan(1, nil, time.Hour, &r); plan != nil {
		t.Errorf("a plan without faults has %v", plan)
	}
}

func TestReport(t *testing.T) {
	r := Report{
		Config: Config{Database: SQLite}, Done: []Fault{{Kind: Kill}, {Kind: Disk}, {Kind: Kill}}, Evidence: &newWorld().Evidence,
	}
	r.Verdicts = map[string]int{"silence": 3, "bye": 1}
	for range 12 {
		r.Violations = append(r.Violations, Violation{Kind: LostEvent, Subject: "dev-1", Offset: 7, Detail: "gone"})
	}
	var text builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	text.has(t, "2 × kill, 1 × disk", "1 × bye, 3 × silence", "| database | sqlite |", "| lost event | 12 |", "| false offline | 0 |", "dev-1 offset 7: gone")
	if r.Clean() || len(r.of(LostEvent)) != 12 {
		t.Errorf("Clean() = %v with 12 violations", r.Clean())
	}
}
