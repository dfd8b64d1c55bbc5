package plan_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// all are the fates of the whole fleet.
func all(p *plan.Plan) *plan.Fates { return p.Fates(plan.Range{To: p.Devices}) }

// someActs are acts of different kinds, so that each step tells which act it is of.
func someActs(t *rapid.T, devices, groups int, length time.Duration, kinds []plan.Kind) []plan.Act {
	seconds := func(label string, most time.Duration) time.Duration {
		return time.Duration(rapid.IntRange(0, int(most/time.Second)).Draw(t, label)) * time.Second
	}
	var acts []plan.Act
	for _, k := range kinds {
		a := plan.Act{Kind: k, After: seconds("after", length)}
		switch rapid.SampledFrom([]string{"share", "share", "count", "groups", "group share", "all"}).Draw(t, "whom") {
		case "share":
			a.Share = float64(rapid.IntRange(1, 40).Draw(t, "share")) / 100
		case "count":
			a.Count = rapid.IntRange(1, max(1, devices/4)).Draw(t, "count")
		case "groups":
			a.Groups = rapid.IntRange(1, max(1, groups/3)).Draw(t, "groups")
		case "group share":
			a.GroupShare = float64(rapid.IntRange(1, 40).Draw(t, "share")) / 100
		default:
			a.All = true
		}
		if rapid.Bool().Draw(t, "spread") {
			a.Within = seconds("within", length-a.After)
		}
		if k == plan.Sleep || rapid.Bool().Draw(t, "comes back") {
			a.Back = time.Second + seconds("back", length)
			a.BackWithin = seconds("back within", 20*time.Second)
		}
		if every := a.Back + a.BackWithin + time.Second; (a.Back > 0 || k.Returns()) && a.After+a.Within+every <= length && rapid.Bool().Draw(t, "repeats") {
			a.Every = every
			a.Times = 1 + int((length-a.After-a.Within)/every)
		}
		acts = append(acts, a)
	}
	return acts
}

func somePlan(t *rapid.T) *plan.Plan {
	p := &plan.Plan{
		Seed:    rapid.Uint64().Draw(t, "seed"),
		Devices: rapid.IntRange(1, 400).Draw(t, "devices"),
		Group:   rapid.IntRange(1, 30).Draw(t, "group"),
		Targets: []string{"127.0.0.1:7700"},
		Sources: twoSources(),
	}
	p.Fill()
	kinds := rapid.Permutation([]plan.Kind{
		plan.Bye, plan.Close, plan.Reset, plan.Silent, plan.Crash, plan.Stall, plan.Duplicate, plan.Sleep, plan.Move, plan.Reconnect,
	}).Draw(t, "kinds")[:rapid.IntRange(0, 7).Draw(t, "acts")]
	for len(p.Phases) < 3 {
		length := time.Duration(rapid.IntRange(1, 100).Draw(t, "length")) * time.Second
		n := rapid.IntRange(0, len(kinds)).Draw(t, "acts in phase")
		p.Phases = append(p.Phases, plan.Phase{Length: length, Acts: someActs(t, p.Devices, p.Devices/p.Group, length, kinds[:n])})
		kinds = kinds[n:]
	}
	return p
}

// window is from when until when an act holds its devices, by its documentation.
type window struct {
	act        plan.Act
	start, end time.Duration
}

func (w window) meets(v window) bool {
	return w.start < v.end && v.start < w.end
}

func windows(p *plan.Plan) map[plan.Kind]window {
	all := map[plan.Kind]window{}
	var began time.Duration
	for _, ph := range p.Phases {
		for _, a := range ph.Acts {
			w := window{act: a, start: began + a.After}
			w.end = w.start + a.Within + time.Duration(max(a.Times, 1)-1)*a.Every + max(a.Back+a.BackWithin, 1)
			if a.Back == 0 && !a.Kind.Returns() {
				w.end = math.MaxInt64
			}
			all[a.Kind] = w
		}
		began += ph.Length
	}
	return all
}

func TestFatesKeepTheirPromises(t *testing.T) {
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		p := somePlan(t)
		err := p.Validate()
		if err == nil {
			valid++
		}
		fates, acts := all(p), windows(p)
		taken := map[plan.Kind][]int{}          // by act
		left := map[plan.Kind][]time.Duration{} // when, the first time
		for n := range p.Devices {
			steps := fates.Of(n)
			if again := p.Fates(plan.Range{From: n, To: n + 1}).Of(n); n%50 == 0 && !slices.Equal(steps, again) {
				t.Fatalf("device %d: %v, the second time %v", n, steps, again)
			}
			checkSteps(t, acts, n, steps)
			for _, k := range kindsOf(steps) {
				taken[k] = append(taken[k], n)
				i := slices.IndexFunc(steps, func(s plan.Step) bool { return s.Kind == k })
				left[k] = append(left[k], steps[i].At)
			}
		}
		for k, w := range acts {
			if err == nil {
				checkNumber(t, p, w, taken[k])
			}
			checkSpread(t, p, w, taken[k], left[k])
			if w.act.All && err == nil {
				checkAll(t, p, acts, w, taken)
			}
		}
	})
	if valid == 0 {
		t.Error("no plan was valid")
	}
}

func kindsOf(steps []plan.Step) []plan.Kind {
	var kinds []plan.Kind
	for _, s := range steps {
		if !slices.Contains(kinds, s.Kind) {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

// checkSteps looks at one device: its steps are sorted and happen when their acts say, and no absence meets another.
func checkSteps(t *rapid.T, acts map[plan.Kind]window, n int, steps []plan.Step) {
	times := map[plan.Kind]int{}
	for i, s := range steps {
		w, ok := acts[s.Kind]
		if !ok {
			t.Fatalf("device %d does %v, which is not in the plan", n, s.Kind)
		}
		times[s.Kind]++
		if s.At < w.start || s.At > w.end {
			t.Fatalf("device %d: %v is not within %v to %v", n, s, w.start, w.end)
		}
		gone := s.Back == 0
		if gone != (w.end == math.MaxInt64) {
			t.Fatalf("device %d: %v, for good: %v", n, s, !gone)
		}
		if away := s.Back - s.At; !gone && (away < w.act.Back || s.Back > w.end || away > w.act.Back+max(w.act.BackWithin, 1)) {
			t.Fatalf("device %d: %v is away for %v, not %v to %v more", n, s, away, w.act.Back, w.act.BackWithin)
		}
		if i+1 == len(steps) {
			continue
		}
		if next := steps[i+1]; gone || next.At < s.Back {
			t.Fatalf("device %d: %v is followed by %v", n, s, next)
		}
	}
	for k, n := range times {
		if want := max(acts[k].act.Times, 1); n != want {
			t.Fatalf("device %d does %v %d times, want %d", n, k, n, want)
		}
		for other := range times {
			if other != k && acts[k].meets(acts[other]) {
				t.Fatalf("device %d is taken by %v and by %v, which meet", n, k, other)
			}
		}
	}
}

func checkNumber(t *rapid.T, p *plan.Plan, w window, taken []int) {
	groups, a := p.Devices/p.Group, w.act
	want := 0
	switch {
	case a.All:
		return
	case a.Share != 0:
		want = int(math.Round(a.Share * float64(p.Devices)))
	case a.Count != 0:
		want = a.Count
	case a.Groups != 0:
		want = a.Groups * p.Group
	default:
		want = int(math.Round(a.GroupShare*float64(groups))) * p.Group
	}
	if len(taken) != want {
		t.Fatalf("%+v takes %d devices, want %d", a, len(taken), want)
	}
}

// checkSpread says that they leave evenly: in groups, or one by one.
func checkSpread(t *rapid.T, p *plan.Plan, w window, taken []int, left []time.Duration) {
	units, instants := len(taken), slices.Clone(left)
	if w.act.Groups != 0 || w.act.GroupShare != 0 {
		units, instants = 0, nil
		last := -1
		for i, n := range taken { // in the order of numbers
			if g := n / max(p.Group, 1); g != last {
				last = g
				units++
				instants = append(instants, left[i])
			}
			if left[i] != instants[units-1] {
				t.Fatalf("device %d leaves at %v, its group at %v", n, left[i], instants[units-1])
			}
		}
	}
	slices.Sort(instants)
	for i, at := range instants {
		if want := w.start + w.act.Within*time.Duration(i)/time.Duration(units); at != want && at != 1 {
			t.Fatalf("%+v: number %d of %d leaves at %v, want %v", w.act, i, units, at, want)
		}
	}
}

// checkAll says that who was left out could not be taken: something else takes the device meanwhile.
func checkAll(t *rapid.T, p *plan.Plan, acts map[plan.Kind]window, all window, taken map[plan.Kind][]int) {
	for n := range p.Devices {
		excused := slices.Contains(taken[all.act.Kind], n)
		for k, w := range acts {
			excused = excused || w.meets(all) && slices.Contains(taken[k], n)
		}
		if !excused {
			t.Fatalf("device %d is left out by %+v", n, all.act)
		}
	}
}

func steady(devices int, acts ...plan.Act) *plan.Plan {
	p := &plan.Plan{Devices: devices, Seed: 7, Group: 10, Targets: []string{"127.0.0.1:7700"}, Phases: []plan.Phase{{Length: 10 * time.Minute, Acts: acts}}}
	p.Fill()
	return p
}

func TestFate(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name string
		act  plan.Act
		want []plan.Step
	}{
		{"for good", plan.Act{Kind: plan.Silent, All: true, After: 5 * s}, []plan.Step{{At: 5 * s, Kind: plan.Silent}}},
		{"and back", plan.Act{Kind: plan.Crash, All: true, Back: 9 * s}, []plan.Step{{Kind: plan.Crash, Back: 9 * s}}},
		{"back at once", plan.Act{Kind: plan.Move, All: true, After: s}, []plan.Step{{At: s, Kind: plan.Move, Back: s}}},
		{"back at once at the very beginning", plan.Act{Kind: plan.Reconnect, All: true}, []plan.Step{{At: 1, Kind: plan.Reconnect, Back: 1}}},
		{
			"again and again",
			plan.Act{Kind: plan.Close, All: true, After: s, Back: 2 * s, Times: 3, Every: 20 * s},
			[]plan.Step{
				{At: s, Kind: plan.Close, Back: 3 * s}, {At: 21 * s, Kind: plan.Close, Back: 23 * s}, {At: 41 * s, Kind: plan.Close, Back: 43 * s},
			},
		},
		{"signal", plan.Act{Kind: plan.Signal, After: s}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := steady(3, tt.act)
			for n := range 3 {
				if got := all(p).Of(n); !slices.Equal(got, tt.want) {
					t.Errorf("Fate(%d) = %v, want %v", n, got, tt.want)
				}
			}
			for _, n := range []int{-1, 3} {
				if got := all(p).Of(n); got != nil {
					t.Errorf("Fate(%d) = %v, want nothing", n, got)
				}
			}
		})
	}
}

// Each seed draws others, and each device has the same chance, in fleets of any size.
func TestFateIsByChance(t *testing.T) {
	for _, devices := range []int{2, 3, 5, 10, 17, 100} {
		t.Run(strconv.Itoa(devices), func(t *testing.T) {
			const seeds = 4000
			drawn := make([]int, devices)
			for seed := range uint64(seeds) {
				p := steady(devices, plan.Act{Kind: plan.Silent, Count: 1})
				p.Seed = seed
				fates := all(p)
				for n := range devices {
					drawn[n] += len(fates.Of(n))
				}
			}
			// Five standard deviations of a binomial distribution; the seeds are fixed, and so is the outcome.
			want := float64(seeds) / float64(devices)
			most := 5 * math.Sqrt(want*(1-1/float64(devices)))
			for n, times := range drawn {
				if math.Abs(float64(times)-want) > most {
					t.Errorf("device %d was drawn %d times of %d, want %.0f ± %.0f", n, times, seeds, want, most)
				}
			}
		})
	}
}

// Neighbours are drawn as independently as others are, and so are two acts of one plan.
func TestFateHasNoPattern(t *testing.T) {
	const devices = 100_000
	p := steady(
		devices, plan.Act{Kind: plan.Bye, Share: 0.1, Back: time.Second},
		plan.Act{Kind: plan.Close, Share: 0.1, After: time.Minute, Back: time.Second},
	)
	fates := all(p)
	did := func(n int, k plan.Kind) bool {
		return slices.ContainsFunc(fates.Of(n%devices), func(s plan.Step) bool { return s.Kind == k })
	}
	counts := map[string]int{}
	for n := range devices {
		if !did(n, plan.Bye) {
			continue
		}
		for _, k := range []int{1, 2, 10, 100, 317} { // 317 is the width of the rectangle
			if did(n+k, plan.Bye) {
				counts[fmt.Sprint("neighbour ", k)]++
			}
		}
		if did(n, plan.Close) {
			counts["both"]++
		}
	}
	const want, most = devices / 100, 200 // six standard deviations
	for name, n := range counts {
		if n < want-most || n > want+most {
			t.Errorf("%s: %d, want %d ± %d", name, n, want, most)
		}
	}
}

func TestSignals(t *testing.T) {
	const s = time.Second
	p := &plan.Plan{Phases: []plan.Phase{
		{Length: 10 * s, Acts: []plan.Act{{Kind: plan.Bye, All: true}}},
		{Length: 90 * s, Acts: []plan.Act{
			{Kind: plan.Signal, After: 30 * s, Times: 2, Every: 40 * s, Back: 5 * s},
			{Kind: plan.Signal, After: 50 * s},
		}},
	}}
	want := []plan.Step{
		{At: 40 * s, Kind: plan.Signal, Back: 45 * s}, {At: 60 * s, Kind: plan.Signal}, {At: 80 * s, Kind: plan.Signal, Back: 85 * s},
	}
	if got := p.Signals(); !slices.Equal(got, want) {
		t.Errorf("Signals() = %v, want %v", got, want)
	}
}

func BenchmarkFate(b *testing.B) {
	p := steady(
		1_000_000,
		plan.Act{Kind: plan.Silent, Share: 0.1, Within: time.Minute},
		plan.Act{Kind: plan.Crash, GroupShare: 0.1, After: 2 * time.Minute},
		plan.Act{Kind: plan.Bye, Share: 0.1, After: 3 * time.Minute, Back: time.Minute},
		plan.Act{Kind: plan.Reconnect, All: true, After: 5 * time.Minute},
	)
	if err := p.Validate(); err != nil {
		b.Fatal(err)
	}
	b.Run("of=fates", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			all(p)
		}
	})
	b.Run("of=number", func(b *testing.B) {
		b.ReportAllocs()
		id := p.DeviceID(654321)
		for b.Loop() {
			if n, ok := p.Number(id); !ok || n != 654321 {
				b.Fatal(n, ok)
			}
		}
	})
}
