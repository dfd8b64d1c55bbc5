package liveness_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

func TestDeviceView(t *testing.T) {
	fleet := liveness.Config{
		Groups:  []liveness.GroupConfig{{Name: "site", Match: "site/*"}},
		Devices: map[string]liveness.Policy{"site/configured": {Timeout: 50 * unit}},
	}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		if _, err := r.registry.Device("a"); !errors.Is(err, liveness.ErrUnknownDevice) {
			r.Errorf("Device of an unknown id = %v", err)
		}
		if r.registry.Operator().Known("a") || !r.registry.Operator().Known("site/configured") {
			r.Error("Known is wrong")
		}
		policy := liveness.Policy{Interval: 50 * unit / 3, Timeout: 50 * unit, CloseGrace: 10 * s, SleepLimit: 24 * 3600 * s, RecoverAfter: 1, Learn: judgement.LearnSuggest, LearnBudget: 1, LearnMax: 24 * 3600 * s}
		want := liveness.View{
			ID: "site/configured", State: liveness.NeverSeen, Policy: policy, From: "device", Group: "site",
		}
		check := func() {
			r.Helper()
			got := r.device("site/configured")
			for _, at := range []struct {
				name      string
				got, want float64
			}{
				{"Since", r.units(got.Since), r.units(want.Since)},
				{"LastSeen", r.units(got.LastSeen), r.units(want.LastSeen)},
				{"Deadline", r.units(got.Deadline), r.units(want.Deadline)},
			} {
				if at.got != at.want {
					r.Errorf("at %g: %s = %g, want %g", inUnits(r.now()), at.name, at.got, at.want)
				}
			}
			w := want
			w.Since, w.LastSeen, w.Deadline, w.Deaf = got.Since, got.LastSeen, got.Deadline, got.Deaf
			w.Grace, w.GraceMax = got.Grace, got.GraceMax
			if !reflect.DeepEqual(got, w) {
				r.Errorf("at %g: Device =\n%+v, want\n%+v", inUnits(r.now()), got, w)
			}
		}
		want.Since = r.start
		check()
		r.listen(2 * unit)
		session := r.open("site/configured")
		want.State, want.Connected, want.Seq, want.Epoch, want.Source = liveness.Online, true, 1, 1, "edge"
		want.Num = 1
		want.Since, want.LastSeen, want.Deadline = r.start.Add(2*unit), r.start.Add(2*unit), r.start.Add(52*unit)
		want.Last, want.Now = 2*unit, 2*unit
		check()
		r.listen(40 * unit)
		want.Now, want.HeardSilence = 42*unit, 40*unit
		check()
		r.deafen(7 * unit)
		want.Now, want.HeardSilence, want.NotBefore = 43*unit, 41*unit, 50*unit
		want.Deadline = r.start.Add((52 + 7) * unit)
		check()
		if d := r.device("site/configured").Deaf; len(d) != 1 || r.units(d[0].From) != 43 || r.units(d[0].To) != 50 || d[0].Listened != 43*unit {
			r.Errorf("Deaf = %+v", d)
		}
		session.Beat(r.now())
		want.State, want.Last, want.HeardSilence, want.NotBefore = liveness.Online, 43*unit, 0, 0
		want.LastSeen, want.Deadline = r.start.Add(50*unit), r.start.Add(100*unit)
		check()
		if d := r.device("site/configured").Deaf; len(d) != 0 {
			r.Errorf("Deaf = %+v", d)
		}
		session.Close(r.now(), liveness.Protocol)
		want.Connected, want.Closing, want.JudgedBy, want.Deadline = false, liveness.Protocol, 10*s, r.start.Add(50*unit).Add(10*s)
		check()
		r.listen(20 * unit)
		want.State, want.Closing, want.Reason, want.Seq = liveness.Offline, liveness.NoReason, liveness.Protocol, 2
		want.Now, want.HeardSilence = 63*unit, 20*unit
		got := r.device("site/configured")
		want.Since, want.Deadline = got.Since, got.Deadline
		if !got.Deadline.IsZero() {
			r.Errorf("an offline device has the deadline %v", got.Deadline)
		}
		check()
	})
}

func TestStats(t *testing.T) {
	fleet := liveness.Config{
		Policy:  liveness.Policy{LateAfter: 20 * unit, CloseGrace: unit},
		Devices: map[string]liveness.Policy{"never 1": {}, "never 2": {}},
	}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		for i := range 60 {
			session := r.open(strconv.Itoa(i))
			switch i % 6 {
			case 0:
				session.Bye(r.now())
			case 1:
				session.Sleep(r.now(), 100*unit)
			case 2:
				session.Close(r.now(), liveness.Closed)
			case 3:
				defer session.Beat(0)
			}
		}
		for range 35 {
			r.listen(unit)
			for i := 3; i < 60; i += 6 {
				r.sessions[strconv.Itoa(i)].Beat(r.now())
			}
			if i := 4 + 6*int(inUnits(r.now())/4); i < 60 {
				r.sessions[strconv.Itoa(i)].Beat(r.now())
			}
			synctest.Wait()
			count := map[liveness.State]int{}
			views, next := r.registry.List(nil, 0, 1000)
			for _, v := range views {
				count[v.State]++
			}
			got := r.registry.Stats()
			maps.DeleteFunc(got.States, func(_ liveness.State, n int) bool { return n == 0 })
			if got.Devices != 62 || next != 0 || len(views) != 62 || !maps.Equal(got.States, count) {
				r.Fatalf("at %g: Stats = %+v, counted %v", inUnits(r.now()), got, count)
			}
		}
	})
}

func TestListPages(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		if views, next := r.registry.List(nil, 0, 10); len(views) != 0 || next != 0 {
			r.Errorf("List of none = %v, %d", views, next)
		}
		r.openAll("d", 500)
		for _, limit := range []int{1, 7, 64, 499, 500, 501} {
			seen := make(map[string]bool)
			var page []liveness.View
			for next, more := liveness.Cursor(0), true; more; more = next != 0 {
				page, next = r.registry.List(page[:0], next, limit)
				if len(page) > limit || len(page) < limit && next != 0 {
					r.Fatalf("a page of %d has %d, next %d", limit, len(page), next)
				}
				for _, v := range page {
					if seen[v.ID] {
						r.Fatalf("%s comes twice", v.ID)
					}
					seen[v.ID] = true
				}
			}
			if len(seen) != 500 {
				r.Errorf("pages of %d have %d devices", limit, len(seen))
			}
		}
		for _, from := range []liveness.Cursor{1 << 63, 63<<32 | 1<<31, 64 << 32} {
			if views, next := r.registry.List(nil, from, 10); len(views) != 0 || next != 0 {
				r.Errorf("List from nowhere = %d views, %d", len(views), next)
			}
		}
	})
}

// A caller that pages through the devices while others are added gets each of the old ones once.
func TestListWhileDevicesAreAdded(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.openAll("old", 300)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 1000 {
				if _, err := r.source.Open(new(liveness.Session), fmt.Sprint("new", i), liveness.Hello{}, nil, 0); err != nil {
					r.Error(err)
				}
			}
		})
		seen := make(map[string]int)
		for next, more := liveness.Cursor(0), true; more; more = next != 0 {
			var page []liveness.View
			page, next = r.registry.List(nil, next, 3)
			for _, v := range page {
				seen[v.ID]++
			}
		}
		wg.Wait()
		for i := range 300 {
			if n := seen[fmt.Sprint("old", i)]; n != 1 {
				r.Errorf("old%d comes %d times", i, n)
			}
		}
		for id, n := range seen {
			if n != 1 {
				r.Errorf("%s comes %d times", id, n)
			}
		}
	})
}

// A session that was never opened does nothing.
func TestZeroSession(t *testing.T) {
	var session liveness.Session
	if session.Beat(0) || session.Fail(0, "x") == nil || session.Bye(0) || session.Close(0, liveness.Closed) || session.Judged() {
		t.Error("a zero session does something")
	}
}

// However often a source was deaf since a device's last heartbeat, what its view says of that adds up to the silence by
// the wall clock, in this process and in the next.
func TestDeafTimeAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		cfg := liveness.Config{Policy: liveness.Policy{Timeout: time.Hour}}
		l := begin(t, k, cfg, origin)
		defer func() { l.stop() }()
		l.pulse()
		l.open("a")
		check := func(when string, intervals int) {
			t.Helper()
			v := l.device("a")
			sum := v.DeafBefore
			for _, d := range v.Deaf {
				sum += d.To.Sub(d.From)
			}
			if want := time.Since(v.LastSeen) - v.HeardSilence; (sum-want).Abs() > time.Millisecond || len(v.Deaf) != intervals {
				t.Errorf("%s: deaf for %v, want %v; %v of it before the %d intervals that are listed, want %d", when, sum, want, v.DeafBefore, len(v.Deaf), intervals)
			}
		}
		for n := range 300 {
			l.deafen(time.Duration(1+n%7) * unit)
			l.listen(step)
			check(fmt.Sprint("after ", n+1), min(n+1, 64))
		}
		k.checkpoint(l.registry)
		l.stop()
		l = begin(t, k, cfg, origin)
		time.Sleep(5 * unit)
		l.pulse()
		check("after a restart", 64)
		l.sessions["a"] = l.open("a")
		l.deafen(2 * unit)
		check("when it was heard", 1)
	})
}
