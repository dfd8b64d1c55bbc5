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
		plan := Plan(seed, AllFaults(), 20*time.Minute, &r)
		if again := Plan(seed, AllFaults(), 20*time.Minute, &r); !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: another plan the second time", seed)
		}
		if reflect.DeepEqual(plan, Plan(seed+1, AllFaults(), 20*time.Minute, &r)) {
			t.Errorf("seeds %d and %d: the same plan", seed, seed+1)
		}
		kinds := map[FaultKind]int{}
		for _, f := range plan {
			kinds[f.Kind]++
			loop := f.Kind != Loop || (f.Wait >= 3*time.Second && f.Wait <= 30*time.Second)
			stalls := f.Kind != Stalls || (f.Wait >= time.Second && f.Wait <= 9*time.Second && f.Length >= 900*time.Millisecond && f.Length <= 3*time.Second)
			if f.Down > 5*ttl || f.Length > max(3*ttl, 25*time.Second) || f.Wait <= 0 || !loop || !stalls {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
		if kinds[Loop] == 1 || kinds[Stalls] == 1 {
			t.Errorf("seed %d: a loop or stalls happen once", seed)
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
