package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// reconfigure replaces the configuration of a rig.
func (r *rig) reconfigure(cfg liveness.Config) liveness.Reconfigured {
	r.Helper()
	done, err := r.registry.Reconfigure(cfg)
	if err != nil {
		r.Fatalf("Reconfigure = %v", err)
	}
	synctest.Wait()
	return done
}

// A timeout that becomes much shorter gives a dead device its former interval and a grace; one that beats as
// ever stays online, and is judged by the new timeout after that. So it is whoever shortens it.
func TestReconfigureGrants(t *testing.T) {
	shorter := liveness.Policy{Timeout: 20 * unit}
	for name, shorten := range map[string]func(r *rig){
		"configuration": func(r *rig) { r.reconfigure(liveness.Config{Policy: shorter}) },
		"policies of their own": func(r *rig) {
			for _, id := range []string{"dead", "alive"} {
				r.admit(r.registry.SetPolicy(id, shorter))
			}
		},
	} {
		t.Run(name, func(t *testing.T) { testGrants(t, shorten) })
	}
}

func testGrants(t *testing.T, shorten func(r *rig)) {
	t.Helper()
	inRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 1000 * unit, Interval: 40 * unit}}, liveness.SourceConfig{}, func(r *rig) {
		r.open("dead")
		alive := r.open("alive")
		r.listen(300 * unit)
		alive.Beat(r.now())
		r.listen(35 * unit)
		shorten(r)
		if v := r.device("alive"); !v.Granted || v.State != liveness.Online {
			r.Errorf("alive is %+v", v)
		}
		r.listen(5 * unit)
		alive.Beat(r.now())
		r.listen(20*unit - step)
		r.wantState("alive", liveness.Online)
		r.listen(step)
		r.wantState("alive", liveness.Offline)
		r.listen(25*unit - step) // 40 of the interval and 10 of the grace
		r.wantState("dead", liveness.Online)
		r.listen(step)
		r.wantState("dead", liveness.Offline)
	})
}

// Whatever timeouts replace each other, a device is judged after no less silence than the timeout in force, and
// no more than the longest one since its last heartbeat.
func TestReconfigureBounds(t *testing.T) {
	type change struct{ wait, timeout int }
	rapid.Check(t, func(rt *rapid.T) {
		changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) change {
			return change{rapid.IntRange(0, 25).Draw(t, "wait"), rapid.IntRange(12, 80).Draw(t, "timeout")}
		}), 1, 8).Draw(rt, "changes")
		late := rapid.Bool().Draw(rt, "late")
		policy := func(units int) liveness.Policy {
			p := liveness.Policy{Timeout: time.Duration(units) * unit, Interval: 5 * unit}
			if late {
				p.LateAfter = p.Timeout / 2
			}
			return p
		}
		inRig(t, liveness.Config{Policy: policy(30)}, liveness.SourceConfig{}, func(r *rig) {
			r.open("dead")
			alive, longest, latest := r.open("alive"), 30, 30
			pass := func(units int) {
				for range units {
					r.listen(unit)
					if int(r.units(time.Now()))%5 == 0 {
						alive.Beat(r.now())
					}
					v, silent := r.device("dead"), int(r.units(time.Now()))
					if offline := v.State == liveness.Offline; offline && silent < latest || !offline && silent >= longest {
						rt.Fatalf("with %v, after %d of silence it is %v", changes, silent, v.State)
					}
				}
			}
			for _, c := range changes {
				pass(c.wait)
				if r.device("dead").State == liveness.Offline {
					break
				}
				longest, latest = max(longest, c.timeout), c.timeout
				r.reconfigure(liveness.Config{Policy: policy(c.timeout)})
			}
			pass(80)
			if v := r.device("alive"); v.State == liveness.Offline || r.device("dead").State != liveness.Offline {
				rt.Fatalf("with %v: %+v", changes, v)
			}
			for _, e := range r.events() {
				if e.Subject == "alive" && e.Type != liveness.DeviceOnline && e.Type != liveness.DeviceLate {
					rt.Fatalf("with %v: %v", changes, e)
				}
			}
		})
	})
}

// A device that moves to another group is counted there, with an event; others have none.
func TestReconfigureGroups(t *testing.T) {
	outage := liveness.OutageConfig{Share: 0.5, MinDevices: 2, Window: 100 * unit}
	groups := func(all ...liveness.GroupConfig) liveness.Config {
		return liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit}, Groups: all}
	}
	all := liveness.GroupConfig{Name: "all", Match: "*", Outage: outage}
	inRig(t, groups(all), liveness.SourceConfig{}, func(r *rig) {
		for i := range 8 {
			r.open(fmt.Sprint("site/", i/4, "/", i%4))
		}
		r.listen(20 * unit)
		for i := range 6 {
			r.sessions[fmt.Sprint("site/", (i+2)/4, "/", (i+2)%4)].Beat(r.now())
		}
		r.listen(10 * unit) // two of eight are silent
		r.events()
		site := liveness.GroupConfig{Name: "site", Match: "site/0/*", Outage: outage}
		if done := r.reconfigure(groups(site, all)); done != (liveness.Reconfigured{Moved: 4}) {
			r.Errorf("Reconfigure = %+v", done)
		}
		var kinds []string
		for _, e := range r.events() { // two of four
			kinds = append(kinds, fmt.Sprintf("%s %v %s", e.ID(), e.Type, e.Group))
		}
		slices.Sort(kinds)
		want := "group/site:1 group.outage.started site\n" +
			"site/0/0:3 device.changed site\nsite/0/1:3 device.changed site\nsite/0/2:2 device.changed site\nsite/0/3:2 device.changed site"
		if got := strings.Join(kinds, "\n"); got != want {
			r.Errorf("events:\n%s\nwant:\n%s", got, want)
		}
		if got := r.registry.Groups(); got[0].Members != 4 || got[0].Silent != 2 || !got[0].Outage || got[1].Members != 4 || got[1].Silent != 0 {
			r.Errorf("Groups = %+v", got)
		}
		site.Outage.Share = 0 // which ends it
		r.reconfigure(groups(site, all))
		r.want("group/site:2 group.outage.ended at 30 2 of 4")
		site.Outage.Share = 0.5
		r.reconfigure(groups(all, site)) // all belong to the first one
		r.events()
		r.reconfigure(groups(site, all))
		r.reconfigure(groups(all))
		var last liveness.Event
		for _, e := range r.events() {
			if e.Group == "site" && !e.Type.OfDevice() {
				last = e
			}
		}
		if last.Seq != 4 || last.Type != liveness.GroupOutageEnded {
			r.Errorf("an outage of a group that is there no more: %+v", last)
		}
		r.reconfigure(groups(site, all))
		for _, e := range r.events() {
			if !e.Type.OfDevice() && e.ID() != "group/site:5" {
				r.Errorf("the numbers of a group that comes back: %+v", e)
			}
		}
	})
}

// The events of devices that have moved wait for the sink, and nothing else waits for them.
func TestReconfigureManyMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &gate{newLog(t, 0), make(chan struct{})}
		close(sink.open)
		r := newRegistry(t, sink, liveness.Config{Outbox: 100})
		defer start(t, r)()
		source := addSource(t, r, liveness.SourceConfig{Name: "edge"})
		source.Pulse(time.Now())
		const devices = 5000
		for i := range devices {
			if _, err := source.Open(new(liveness.Session), fmt.Sprint("d", i), liveness.Hello{}, nil, 0); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		sink.open = make(chan struct{})
		done, err := r.Reconfigure(liveness.Config{Groups: []liveness.GroupConfig{{Name: "all", Match: "*"}}})
		if err != nil || done.Moved != devices {
			t.Errorf("Reconfigure = %+v, %v", done, err)
		}
		synctest.Wait()
		if n := r.Gauges().Queued; n > 30 {
			t.Errorf("%d events wait for the sink", n)
		}
		close(sink.open)
		time.Sleep(20 * time.Second)
		if _, last := sink.Log.Bounds(); last != 2*devices {
			t.Errorf("%d events, want two of each device", last)
		}
	})
}

func TestReconfigureRejects(t *testing.T) {
	own := map[string]liveness.Policy{"own": {Timeout: 7 * unit}}
	inRig(t, liveness.Config{Devices: own, MaxDevices: 3}, liveness.SourceConfig{}, func(r *rig) {
		r.open("a")
		r.open("b")
		r.events()
		for name, cfg := range map[string]liveness.Config{
			"a bad policy":      {Policy: liveness.Policy{Timeout: -1}},
			"a group twice":     {Groups: []liveness.GroupConfig{{Name: "g", Match: "*"}, {Name: "g", Match: "a"}}},
			"a low timeout":     {MinTimeout: 10 * unit, Devices: own},
			"too many devices":  {MaxDevices: 3, Devices: map[string]liveness.Policy{"own": {}, "c": {}}},
			"a bad flapping":    {Flapping: liveness.FlappingConfig{Threshold: 1}},
			"negative capacity": {MaxDevices: -1},
		} {
			if _, err := r.registry.Reconfigure(cfg); err == nil || name == "too many devices" && !errors.Is(err, liveness.ErrFull) {
				r.Errorf("%s: Reconfigure = %v", name, err)
			}
		}
		if v := r.device("own"); v.Policy.Timeout != 7*unit || r.registry.Stats().Devices != 3 {
			r.Errorf("own: %+v", v)
		}
		r.want()
		r.reconfigure(liveness.Config{MaxDevices: 4, Devices: map[string]liveness.Policy{"c": {}, "d": {}}})
		if _, err := r.registry.Device("own"); !errors.Is(err, liveness.ErrUnknownDevice) {
			r.Errorf("a device that is configured no more, and was never heard: %v", err)
		}
		if v := r.device("d"); v.State != liveness.NeverSeen {
			r.Errorf("d: %+v", v)
		}
	})
}

// drawConfig draws a configuration of few ids and groups.
func drawConfig(t *rapid.T, name string) liveness.Config {
	policy := rapid.Custom(func(t *rapid.T) liveness.Policy {
		return liveness.Policy{
			Timeout:  time.Duration(rapid.IntRange(0, 5).Draw(t, "timeout")) * 20 * unit,
			Interval: time.Duration(rapid.IntRange(0, 3).Draw(t, "interval")) * unit,
			Quiet:    rapid.SampledFrom([]string{"", "22:00-06:00"}).Draw(t, "quiet"),
			Learn:    judgement.LearnMode(rapid.IntRange(0, 3).Draw(t, "learn")),
		}
	})
	cfg := liveness.Config{Devices: map[string]liveness.Policy{}, MinTimeout: time.Duration(rapid.IntRange(1, 20).Draw(t, name+" least")) * unit}
	cfg.Policy = policy.Draw(t, name+" fleet")
	cfg.Policy.Timeout = max(cfg.Policy.Timeout, 40*unit)
	for i, match := range rapid.SliceOfN(rapid.SampledFrom([]string{"a*", "*1", "b?", "*", "c2"}), 0, 4).Draw(t, name+" groups") {
		cfg.Groups = append(cfg.Groups, liveness.GroupConfig{
			Name: fmt.Sprint("g", (i+rapid.IntRange(0, 1).Draw(t, "shift"))%4+10*i), Match: match, Policy: policy.Draw(t, "group"),
			Outage: liveness.OutageConfig{Share: 0.4, MinDevices: rapid.IntRange(1, 3).Draw(t, "least")},
		})
	}
	for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a1", "b2", "c3", "never"}), rapid.ID[string]).Draw(t, name+" devices") {
		cfg.Devices[id] = policy.Draw(t, "own")
	}
	return cfg
}

// Changing the configuration gives every device the policy that it has after a restart with it.
func TestReconfigureIsARestart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first, second, third := drawConfig(rt, "first"), drawConfig(rt, "second"), drawConfig(rt, "third")
		synctest.Test(t, func(t *testing.T) {
			k, origin := newShelf(t), time.Now()
			l := begin(t, k, first, origin)
			l.pulse()
			for i, kind := range []string{"a", "b", "c"} {
				for n := range 3 {
					h := liveness.Hello{}
					if n == 2 {
						h.Announced = liveness.Policy{Timeout: 70 * unit}
					}
					l.openAs(fmt.Sprint(kind, n+1), h, nil)
				}
				if err := l.registry.SetPolicy(fmt.Sprint(kind, 1), liveness.Policy{Timeout: time.Duration(i*30) * unit}); err != nil && i > 0 {
					rt.Logf("own policy: %v", err) // less than what the file says
				}
			}
			l.listen(unit)
			l.sessions["a2"].Bye(l.now())
			if _, err := l.registry.Disconnect("b2"); err != nil {
				t.Error(err)
			}
			l.listen(12 * unit)
			for _, cfg := range []liveness.Config{second, third} {
				l.reconfigure(cfg)
			}
			synctest.Wait()
			k.checkpoint(l.registry)
			reloaded, groups := described(l.registry), grouped(l.registry)
			l.stop()
			l = begin(t, k, third, origin)
			defer func() { l.stop() }()
			if got := described(l.registry); got != reloaded {
				rt.Fatalf("after a restart:\n%s\nafter Reconfigure:\n%s", got, reloaded)
			}
			if got := grouped(l.registry); got != groups {
				rt.Fatalf("groups after a restart:\n%s\nafter Reconfigure:\n%s", got, groups)
			}
		})
	})
}

// described returns what the rules say of all devices.
func described(r *liveness.Registry) string {
	views, _ := r.List(nil, 0, 100)
	var lines []string
	for _, v := range views {
		said, holds := liveness.Announced(r, v.ID), r.Operator().PolicyOf(v.ID)
		lines = append(lines, fmt.Sprintln(v.ID, v.Num, v.Group, v.From, v.Own, v.Policy, v.Seq, said, holds))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// grouped returns what is counted of the groups.
func grouped(r *liveness.Registry) string {
	var text strings.Builder
	for _, g := range r.Groups() {
		_, _ = fmt.Fprintln(&text, g.Name, g.Match, g.Members, g.Silent, g.Outage, g.Policy)
	}
	return text.String()
}

// Configurations replace each other while devices beat as they are to: nobody is ever judged.
func TestReconfigureUnderLoad(t *testing.T) {
	registry := newRegistry(t, newLog(t, 0), liveness.Config{Policy: liveness.Policy{Timeout: time.Minute}})
	defer start(t, registry)()
	source := addSource(t, registry, liveness.SourceConfig{Name: "edge"})
	source.Pulse(time.Now())
	const devices = 2000
	sessions := make([]liveness.Session, devices)
	for i := range sessions {
		if _, err := source.Open(&sessions[i], fmt.Sprint("d", i), liveness.Hello{}, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		for ctx.Err() == nil {
			now := source.Pulse(time.Now())
			for i := range sessions {
				sessions[i].Beat(now)
			}
			source.Watermark(0, now)
		}
	}()
	for i := range atLevel(25, 50) {
		cfg := liveness.Config{Policy: liveness.Policy{Timeout: time.Duration(20+i%7) * time.Second}}
		for g := range i % 4 {
			cfg.Groups = append(cfg.Groups, liveness.GroupConfig{Name: fmt.Sprint("g", g+i%2), Match: fmt.Sprintf("*%d", g), Policy: liveness.Policy{Timeout: time.Duration(30+i%3) * time.Second}})
		}
		if _, err := registry.Reconfigure(cfg); err != nil {
			t.Error(err)
		}
		members, want := 0, 0
		for _, g := range registry.Groups() {
			members += g.Members
		}
		if want = len(cfg.Groups) * devices / 10; members != want {
			t.Errorf("%d are members of groups, want %d", members, want)
		}
	}
	stop()
	<-beating
	if st := registry.Stats(); st.States[liveness.Offline] != 0 || st.Verdicts != 0 || st.Devices != devices {
		t.Errorf("%+v", st)
	}
}

// What a device is left of its former timeout changes nothing else of it: it is probed before it is judged,
// its sleep ends when it said, and a session that replaces it is an event.
func TestReconfigureLeavesTheRest(t *testing.T) {
	fleet := liveness.Policy{Timeout: 60 * unit, Interval: 30 * unit, Probes: 2, ProbeWait: 5 * unit}
	inRig(t, liveness.Config{Policy: fleet}, liveness.SourceConfig{}, func(r *rig) {
		p := &peer{}
		r.openAs("probed", liveness.Hello{}, p)
		asleep := r.open("asleep")
		if _, err := asleep.Sleep(r.now(), 30*unit); err != nil {
			r.Error(err)
		}
		r.signal("elsewhere", liveness.Signal{Epoch: 1})
		wakes := r.device("asleep").Sleep
		r.listen(20 * unit)
		fleet.Timeout = 20 * unit
		r.reconfigure(liveness.Config{Policy: fleet})
		if v := r.device("asleep"); !v.Granted || !v.Sleep.Equal(wakes) {
			r.Errorf("asleep is %+v, want it to sleep until %v", v, wakes)
		}
		r.events()
		r.signal("elsewhere", liveness.Signal{Epoch: 2})
		r.want("elsewhere:2 device.session_replaced at 20 seen 20 due 40 silent 0")
		r.listen(40*unit - step)
		r.wantState("probed", liveness.Suspect)
		if p.asked != 2 {
			r.Errorf("it was probed %d times, want 2", p.asked)
		}
		r.listen(step)
		r.wantState("probed", liveness.Offline)
	})
}
