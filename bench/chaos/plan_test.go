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

func TestPossible(t *testing.T) {
	count := func(c Config) int { return len(c.possible(true)) }
	all := AllFaults()
	for _, tt := range []struct {
		name   string
		config Config
		want   int
	}{
		{"one node on a file", Config{Database: SQLite, Nodes: 1, Faults: all}, 10},
		{"one node on a server", Config{Database: Postgres, Nodes: 1, Faults: all}, 14},
		{"two on MariaDB, which has no replica", Config{Database: MariaDB, Nodes: 2, Faults: all}, 23},
		{"two on PostgreSQL, and no commit is lost", Config{Database: Postgres, Nodes: 2, Faults: all}, 24},
		{"two, and the version before", Config{Database: MariaDB, Nodes: 2, Previous: "old", Faults: all}, 24},
		{"two on MariaDB and ears, in a network", Config{Database: MariaDB, Nodes: 2, Ears: 1, Namespaces: true, Faults: all}, 33},
		{"ears", Config{Database: SQLite, Nodes: 1, Ears: 1, Faults: all}, 18},
		{"commits are lost, and nothing else happens", Config{Database: Postgres, Nodes: 2, Faults: []FaultKind{PromoteLoss}}, 1},
	} {
		if got := count(tt.config); got != tt.want {
			t.Errorf("%s: %d faults are possible, want %d: %v", tt.name, got, tt.want, tt.config.possible(true))
		}
	}
}

func TestFaultLink(t *testing.T) {
	for want, f := range map[linkState]Fault{
		refused: {Kind: EarCut}, hanging: {Kind: CutAll, Hang: true}, hangingTo: {Kind: EarCutTo}, hangingFrom: {Kind: CutFrom}, slow: {Kind: EarSlow}, lossy: {Kind: LossyDB},
	} {
		if got := f.link(); got != want {
			t.Errorf("%v: the link is in state %v, want %v", f, got, want)
		}
	}
}
