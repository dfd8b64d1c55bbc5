package liveness_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

const s = time.Second

func TestDeaf(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		dead, alive, fresh := r.open("dead"), r.open("alive"), r.open("fresh")
		r.listen(25 * unit)
		fresh.Beat(r.now())
		r.events()
		r.listen(unit)
		r.cut(100 * unit) // from 26 to 126; listened: 26
		r.want(
			"source/edge:1 source.deaf at 26 deaf 0",
			"source/edge:2 source.heard at 126 deaf 100",
		)
		for _, id := range []string{"dead", "alive", "fresh"} {
			r.wantState(id, liveness.Unknown)
		}
		r.listen(5 * unit) // the 30 s of the first two have passed, their grace has not
		r.want()
		alive.Beat(r.now())
		r.wantState("alive", liveness.Online)
		r.wantState("dead", liveness.Unknown)
		r.listen(15*unit - step)
		r.want()
		r.listen(step)
		r.want("dead:2 device.offline silence at 146 seen 0 due 146 silent 46")
		r.wantState("fresh", liveness.Unknown)
		alive.Beat(r.now())
		r.listen(9 * unit)
		r.want("fresh:2 device.offline silence at 155 seen 25 due 155 silent 30")
		alive.Beat(r.now())
		r.listen(29 * unit)
		r.want()
		r.wantState("alive", liveness.Online)
		if !dead.Beat(r.now()) {
			r.Error("Beat of a judged device = false")
		}
		r.want("dead:3 device.online at 184 seen 184 due 214 silent 0")
	})
}

// After a cut a device has its own interval and ReconnectGrace, at most ReconnectGraceMax.
func TestReconnectGrace(t *testing.T) {
	for _, tt := range []struct{ interval, most, want time.Duration }{
		{20 * unit, 0, 30 * unit},
		{unit, 0, 11 * unit},
		{20 * unit, 25 * unit, 25 * unit},
	} {
		fleet := liveness.Config{Policy: liveness.Policy{Interval: tt.interval}}
		inRig(t, fleet, liveness.SourceConfig{ReconnectGraceMax: tt.most}, func(r *rig) {
			r.open("a")
			r.listen(29 * unit)
			r.cut(unit)
			v := r.device("a")
			if inUnits(v.NotBefore) != inUnits(29*unit+tt.want) || r.units(v.Deadline) != inUnits(30*unit+tt.want) || v.Grace != tt.want || v.GraceMax != 3*tt.want {
				r.Errorf("NotBefore %g, Deadline %g, Grace %v of %v", inUnits(v.NotBefore), r.units(v.Deadline), v.Grace, v.GraceMax)
			}
			r.events()
			r.listen(tt.want - step)
			r.want()
			r.listen(step)
			if e := r.events(); len(e) != 1 || e[0].Type != liveness.DeviceOffline {
				r.Errorf("%+v", e)
			}
		})
	}
}

// A pulse that ends a time in which the source did not listen is handed in some time after the instant
// that it is of. What was heard in between is no reason to judge a device too early.
func TestLatePulse(t *testing.T) {
	for name, gap := range map[string]func(r *rig){
		"stall":  func(*rig) { time.Sleep(3 * unit) },
		"almost": func(*rig) { time.Sleep(unit) },
		"cut": func(r *rig) {
			r.source.Deafen(time.Now())
			time.Sleep(3 * unit)
		},
		"begin": func(r *rig) {
			r.source = addSource(r.T, r.registry, liveness.SourceConfig{Name: "other", MaxGap: unit})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
				r.listen(unit)
				gap(r)
				of := time.Now()
				time.Sleep(step)
				r.open("a")
				r.source.Watermark(0, r.source.Pulse(of))
				r.listen(30*unit - step)
				r.wantState("a", liveness.Online)
				r.listen(2 * step)
				r.wantState("a", liveness.Offline)
			})
		})
	}
}

// A pulse shows nothing of what came after its instant, although that was heard before the pulse was handed in.
func TestLatePulseShowsNoMore(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.listen(unit)
		time.Sleep(unit - step)
		of := time.Now()
		time.Sleep(2 * step)
		r.open("a")
		if listened := r.source.Pulse(of); listened != 2*unit-step {
			r.Errorf("Pulse = %g, want %g", inUnits(listened), inUnits(2*unit-step))
		}
		r.want(
			"a:1 device.online at 2.25 seen 2 due 32 silent 0", // as far as is known then
			"source/edge:1 source.deaf at 2 deaf 0.25",
			"source/edge:2 source.heard at 2.25 deaf 0.25",
		)
		if v := r.device("a"); r.units(v.LastSeen) != 2.25 || r.units(v.Deadline) != 32.25 {
			r.Errorf("a was seen at %g, due at %g", r.units(v.LastSeen), r.units(v.Deadline))
		}
	})
}

// No sequence of gaps keeps a dead device from being judged.
func TestGapsAreBounded(t *testing.T) {
	const timeout, most = 30 * unit, 30*unit + 3*20*unit
	for name, gap := range map[string]func(*rig){
		"cuts":         func(r *rig) { r.cut(100 * unit) },
		"long stalls":  func(r *rig) { r.deafen(100 * unit) },
		"short stalls": func(r *rig) { r.deafen(step) },
	} {
		for _, every := range []time.Duration{0, step, unit, 9 * unit, 18 * unit} {
			inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
				r.open("a")
				for range int(most / (every + step)) {
					r.listen(every)
					gap(r)
					if every == 0 && name == "cuts" {
						r.listen(step) // else the clock stands still
					}
				}
				r.listen(step)
				v := r.device("a")
				heard := v.Now - v.Last
				if want := most; v.State != liveness.Offline && heard > want {
					r.Errorf("%s every %v: %v after %v of heard silence, want offline after %v", name, every, v.State, heard, want)
				}
				for _, e := range r.events() {
					if e.Type == liveness.DeviceOffline && (e.HeardSilence < timeout || e.HeardSilence > most+unit) {
						r.Errorf("%s every %v: judged after %v of heard silence, want %v to %v", name, every, e.HeardSilence, timeout, most)
					}
				}
			})
		}
	}
}

// Timers round: a device is not judged too early, nor shown as seen before it was, or much later.
func TestRounding(t *testing.T) {
	for _, tt := range []struct{ opened, timeout time.Duration }{
		{1, 1},
		{3 * timer.Resolution / 10, 3 * timer.Resolution / 10},
		{9 * timer.Resolution / 10, 3 * timer.Resolution / 10},
		{3 * timer.Resolution / 10, 10*s + 1},
		{1, 37*time.Hour + 1}, // a period that the timer keeps in coarser units
	} {
		fleet := liveness.Config{Policy: liveness.Policy{Timeout: tt.timeout}, MinTimeout: 1}
		inRig(t, fleet, liveness.SourceConfig{MaxGap: 40 * time.Hour}, func(r *rig) {
			time.Sleep(tt.opened)
			r.pulse()
			r.open("a")
			at := time.Now()
			time.Sleep(tt.timeout - 1)
			r.pulse()
			if n := len(r.events()); n != 1 {
				t.Errorf("opened at %v, timeout %v: %d events before the timeout", tt.opened, tt.timeout, n)
			}
			time.Sleep(2 * timer.Resolution)
			r.pulse()
			events := r.events()
			if len(events) != 1 || events[0].HeardSilence < tt.timeout ||
				events[0].LastSeen.Before(at) || events[0].LastSeen.After(at.Add(timer.Resolution)) {
				t.Errorf("opened at %v, timeout %v: %+v", tt.opened, tt.timeout, events)
			}
		})
	}
}

// A dead device is judged however often its source is deaf; the latest deaf intervals are kept.
func TestDeafAgainAndAgain(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.open("a")
		for range 100 {
			r.deafen(unit)
			r.listen(2 * unit)
		}
		events := r.events()
		if len(events) != 202 {
			r.Errorf("%d events, want one online, one offline and 100 pairs of deaf and heard", len(events))
		}
		for _, e := range events {
			if e.Type == liveness.DeviceOffline && e.HeardSilence > 31*unit {
				r.Errorf("judged after %g of heard silence", inUnits(e.HeardSilence))
			}
		}
		r.wantState("a", liveness.Offline)
		v := r.source.View()
		if len(v.Deaf) != 64 || v.DeafTotal != 100*unit {
			r.Errorf("%d intervals, %g in all, want 64, 100", len(v.Deaf), inUnits(v.DeafTotal))
		}
	})
}

// A gap of exactly MaxGap is listening time; a nanosecond more is deaf time.
func TestMaxGap(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		if got := r.source.Pulse(r.start.Add(unit)); got != unit {
			r.Errorf("Pulse = %v, want %v", got, unit)
		}
		r.want()
		if got := r.source.Pulse(r.start.Add(2*unit + 1)); got != 2*unit {
			r.Errorf("Pulse = %v, want %v", got, 2*unit)
		}
		events := r.events()
		if len(events) != 2 || events[0].Deaf != 1 || events[1].Deaf != 1 ||
			!events[0].Time.Equal(r.start.Add(2*unit)) || !events[1].Time.Equal(r.start.Add(2*unit+1)) {
			r.Errorf("events = %+v", events)
		}
		for _, back := range []time.Duration{2*unit + 1, unit, -1} {
			if got := r.source.Pulse(r.start.Add(back)); got != 2*unit {
				r.Errorf("Pulse in the past = %v, want %v", got, 2*unit)
			}
		}
		r.want()
	})
}

// The monotonic clock stands still while a machine sleeps; the wall clock shows the sleep. A wall
// clock that is set back changes nothing.
func TestClockSteps(t *testing.T) {
	registry := newRegistry(t, discard{}, liveness.Config{})
	defer func() { start(t, registry)() }()
	source := addSource(t, registry, liveness.SourceConfig{Name: "edge", MaxGap: 2 * s})
	begin := time.Now() // with a monotonic reading, which the time of a bubble has not
	source.Pulse(begin)
	if _, err := source.Open(new(liveness.Session), "a", liveness.Hello{}, nil, 0); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		at       time.Time
		listened time.Duration
		deaf     []time.Duration // in all
		lastSeen time.Time
	}{
		{"a second later", begin.Add(s), s, nil, begin},
		{"set forward by less than MaxGap", jump(begin.Add(3*s/2), s), 3 * s / 2, nil, begin},
		{"slept an hour", jump(begin.Add(2*s), time.Hour), 2 * s, []time.Duration{time.Hour - s}, begin},
		{"set back", jump(begin.Add(3*s), -time.Hour), 3 * s, []time.Duration{time.Hour - s}, begin},
		{"no monotonic time has passed", jump(begin.Add(3*s), time.Hour), 3 * s, []time.Duration{time.Hour - s}, begin},
		{
			"set back again while deaf", jump(begin.Add(9*s), -2*time.Hour), 5 * s,
			[]time.Duration{time.Hour - s, 4 * s},
			jump(begin, 4*s-2*time.Hour), // earlier by as much as the clock was set back; that it was set again shows with the next pulse
		},
	} {
		if got := source.Pulse(tt.at); got != tt.listened {
			t.Errorf("%s: Pulse = %v, want %v", tt.name, got, tt.listened)
		}
		var deaf []time.Duration
		for _, d := range source.View().Deaf {
			deaf = append(deaf, d.To.Sub(d.From))
		}
		if !slices.Equal(deaf, tt.deaf) {
			t.Errorf("%s: deaf for %v, want %v", tt.name, deaf, tt.deaf)
		}
		v, err := registry.Device("a")
		if got := v.LastSeen.Round(0); err != nil || !got.Equal(tt.lastSeen.Round(0)) {
			t.Errorf("%s: LastSeen = %v, want %v", tt.name, got, tt.lastSeen)
		}
	}
}

// The clock of a source is the least of its parts' watermarks, and none of them goes back.
func TestParts(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{Parts: 3}, func(r *rig) {
		for _, tt := range []struct {
			part int
			mark time.Duration
			want time.Duration
		}{
			{0, 5, 0}, {1, 7, 0}, {2, 3, 3}, {2, 2, 3}, {0, 4, 3}, {2, 9, 5}, {0, 8, 7}, {1, 7, 7}, {1, 20, 8}, {0, 0, 8},
		} {
			r.source.Watermark(tt.part, tt.mark)
			if got := r.source.Now(); got != tt.want {
				r.Errorf("after Watermark(%d, %d) the clock reads %d, want %d", tt.part, tt.mark, got, tt.want)
			}
		}
	})
}

// Time is the listening time of the latest pulse, and goes on from it by MaxGap at most.
func TestTime(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		at := r.start
		for _, gap := range []time.Duration{1, unit / 2, unit, unit + 1, 50 * unit, 3} {
			at = at.Add(gap)
			stamp := r.source.Time(at)
			if got := r.source.Pulse(at); got != stamp {
				r.Errorf("after a gap of %v Time = %v, Pulse = %v", gap, stamp, got)
			}
			if got := r.source.Time(at.Add(-unit)); got != stamp {
				r.Errorf("Time before the pulse = %v, want %v", got, stamp)
			}
		}
	})
}

func TestTimeBeforePulse(t *testing.T) {
	registry := newRegistry(t, discard{}, liveness.Config{})
	defer func() { start(t, registry)() }()
	s := addSource(t, registry, liveness.SourceConfig{Name: "edge"})
	if got := s.Time(time.Now()); got != 0 {
		t.Errorf("Time = %v, want 0", got)
	}
	if v := s.View(); v.Name != "edge" || v.Behind != 0 || v.Listened != 0 {
		t.Errorf("View = %+v", v)
	}
}

// Unread input holds verdicts back; it is no deafness.
func TestBacklog(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.open("dead")
		busy := r.open("busy")
		r.listen(2 * unit)
		busy.Beat(r.now())
		r.listen(23 * unit)
		var pulses []time.Duration
		for range 5 * unit / step { // the pulses do not get through
			time.Sleep(step)
			pulses = append(pulses, r.source.Pulse(time.Now()))
		}
		for range 20 * unit / step { // 5 units behind
			time.Sleep(step)
			pulses = append(pulses, r.source.Pulse(time.Now()))
			if pulses[0] == 30*unit {
				r.want("dead:1 device.online at 0 seen 0 due 30 silent 0", "busy:1 device.online at 0 seen 0 due 30 silent 0")
				busy.Beat(27 * unit) // was waiting since 27, and is read before 30 is
			}
			r.source.Watermark(0, pulses[0])
			pulses = pulses[1:]
			synctest.Wait()
		}
		if v := r.source.View(); v.Behind != 5*unit || len(v.Deaf) != 0 || v.Listened != 45*unit {
			r.Errorf("View = %+v, want 45 listened, 5 behind, no deaf interval", v)
		}
		r.want("dead:2 device.offline silence at 35 seen 0 due 30 silent 30")
		r.source.Watermark(0, 50*unit)
		r.listen(7 * unit)
		r.want("busy:2 device.offline silence at 57 seen 27 due 57 silent 30")
	})
}

// LastSeen is an instant of the wall clock, whatever gaps lie in between.
func TestWallClock(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: 1000 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		var seen []time.Time
		for i := range 6 {
			r.listen(3 * unit)
			r.open(strconv.Itoa(i))
			seen = append(seen, time.Now())
			r.deafen(time.Duration(i+1) * unit)
			r.open(fmt.Sprint(i, " just after"))
			seen = append(seen, time.Now())
		}
		r.listen(unit)
		for i, at := range seen {
			id := strconv.Itoa(i / 2)
			if i%2 == 1 {
				id += " just after"
			}
			v := r.device(id)
			if !v.LastSeen.Equal(at) {
				r.Errorf("%s: LastSeen = %g, want %g", id, r.units(v.LastSeen), r.units(at))
			}
			if want := 6 - (i+1)/2; len(v.Deaf) != want {
				r.Errorf("%s: %d deaf intervals since, want %d", id, len(v.Deaf), want)
			}
			if left := time.Until(v.Deadline); v.HeardSilence+left != 1000*unit {
				r.Errorf("%s: silent for %g, %g left", id, inUnits(v.HeardSilence), inUnits(left))
			}
		}
	})
}

func TestAddSource(t *testing.T) {
	registry := newRegistry(t, discard{}, liveness.Config{})
	stop := start(t, registry)
	add := func(cfg liveness.SourceConfig) error {
		_, err := registry.AddSource(cfg)
		return err
	}
	for _, tt := range []struct {
		name string
		cfg  liveness.SourceConfig
		ok   bool
	}{
		{"defaults", liveness.SourceConfig{Name: "a"}, true},
		{"name taken", liveness.SourceConfig{Name: "a"}, false},
		{"no name", liveness.SourceConfig{}, false},
		{"negative parts", liveness.SourceConfig{Name: "b", Parts: -1}, false},
		{"negative gap", liveness.SourceConfig{Name: "b", MaxGap: -1}, false},
		{"negative grace", liveness.SourceConfig{Name: "b", ReconnectGrace: -1}, false},
		{"grace of two years", liveness.SourceConfig{Name: "b", ReconnectGrace: 2 * 366 * 24 * time.Hour}, false},
		{"another", liveness.SourceConfig{Name: "b", Parts: 4, MaxGap: time.Hour, ReconnectGrace: time.Hour}, true},
	} {
		if err := add(tt.cfg); (err == nil) != tt.ok {
			t.Errorf("%s: AddSource = %v, want ok %v", tt.name, err, tt.ok)
		}
	}
	if s := registry.Sources(); len(s) != 2 || s[0].Name() != "a" || s[1].Name() != "b" {
		t.Errorf("Sources = %v", s)
	}
	stop()
	if err := add(liveness.SourceConfig{Name: "c"}); err == nil {
		t.Errorf("AddSource after the end succeeds")
	}
}
