package liveness_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

// outages returns the lines of the group events since the last call.
func (r *rig) outages() (lines []string) {
	r.Helper()
	for _, e := range r.events() {
		if e.Type == liveness.GroupOutageStarted || e.Type == liveness.GroupOutageEnded {
			lines = append(lines, r.line(&e))
		}
	}
	return lines
}

func (r *rig) wantOutages(want ...string) {
	r.Helper()
	if got := r.outages(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("outages at %g: %v, want %v", r.units(time.Now()), got, want)
	}
}

// openAll opens sessions of devices PREFIX0 to PREFIXn-1.
func (r *rig) openAll(prefix string, n int) {
	r.Helper()
	for i := range n {
		r.open(fmt.Sprint(prefix, i))
	}
}

// beatSite sends heartbeats of the devices site/FROM to site/TO-1.
func (r *rig) beatSite(from, to int) {
	for i := from; i < to; i++ {
		r.sessions[fmt.Sprint("site/", i)].Beat(r.now())
	}
}

func outageConfig(share float64, least int) liveness.Config {
	return liveness.Config{
		Policy: liveness.Policy{Timeout: 10 * unit, CloseGrace: unit},
		Groups: []liveness.GroupConfig{
			{Name: "site", Match: "site/*", Outage: liveness.OutageConfig{Share: share, Window: 12 * unit, MinDevices: least}},
			{Name: "all", Match: "*", Outage: liveness.OutageConfig{Share: share, Window: 12 * unit, MinDevices: least}},
		},
	}
}

func TestOutage(t *testing.T) {
	inRig(t, outageConfig(0.5, 4), liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 10)
		r.openAll("else/", 3)
		r.listen(5 * unit)
		r.beatSite(4, 10) // 0 to 3 fall silent at 10: four of ten
		r.listen(5 * unit)
		r.wantOutages()
		r.beatSite(5, 10) // 4 at 15
		r.listen(5 * unit)
		r.wantOutages("group/site:1 group.outage.started at 15 5 of 10")
		if g := r.registry.Groups(); g[0] != (liveness.GroupView{Name: "site", Match: "site/*", Members: 10, Silent: 5, Outage: true}) ||
			g[1] != (liveness.GroupView{Name: "all", Match: "*", Members: 3, Silent: 3}) {
			r.Errorf("Groups = %+v", g)
		}
		r.listen(5 * unit) // the others, at 20: no other outage
		events := r.events()
		if len(events) != 5 {
			r.Errorf("%d events, want 5", len(events))
		}
		for _, e := range events {
			if !e.Outage || e.Group != "site" {
				r.Errorf("%s does not belong to the outage of its group", r.line(&e))
			}
		}
		r.beatSite(0, 7) // three of ten are silent: more than a quarter
		r.wantOutages()
		r.beatSite(7, 8)
		r.wantOutages("group/site:2 group.outage.ended at 20 2 of 10")
		r.beatSite(8, 10)
		for _, e := range r.events() {
			if e.Outage {
				r.Errorf("%s after the outage belongs to it", r.line(&e))
			}
		}
	})
}

// An outage needs its share within the window.
func TestOutageWindow(t *testing.T) {
	inRig(t, outageConfig(0.5, 2), liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 8)
		for i := range 8 { // one falls silent every five
			r.sessions[fmt.Sprint("site/", i)].Close(r.now(), liveness.Closed)
			for range 5 {
				r.beatSite(i+1, 8)
				r.listen(unit)
			}
		}
		r.wantOutages()
		if g := r.registry.Groups()[0]; g.Silent != 8 || g.Outage {
			r.Errorf("Groups = %+v", g)
		}
	})
}

// Devices that fall silent again and again are no outage of the group: each counts once, and not
// when it is back.
func TestOutageCountsMembersOnce(t *testing.T) {
	inRig(t, outageConfig(0.3, 3), liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 10)
		for range 20 {
			r.sessions["site/0"].Close(r.now(), liveness.Closed)
			r.sessions["site/1"].Close(r.now(), liveness.Closed)
			r.listen(unit)
			r.beatSite(2, 10)
			r.open("site/0")
			r.open("site/1")
		}
		r.wantOutages()
		if g := r.registry.Groups()[0]; g.Silent != 0 {
			r.Errorf("Groups = %+v", g)
		}
	})
}

// A device that said goodbye is not silent, before or after.
func TestOutageWithoutGoodbyes(t *testing.T) {
	inRig(t, outageConfig(0.3, 3), liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 10)
		for i := range 10 {
			r.sessions[fmt.Sprint("site/", i)].Bye(r.now())
		}
		r.wantOutages()
		r.openAll("site/", 10)
		r.listen(10 * unit)
		r.wantOutages("group/site:1 group.outage.started at 10 3 of 10")
		for i := range 10 { // a goodbye after the verdict ends the silence
			r.sessions[fmt.Sprint("site/", i)].Bye(r.now())
		}
		r.wantOutages("group/site:2 group.outage.ended at 10 1 of 10")
		if g := r.registry.Groups()[0]; g.Silent != 0 || g.Members != 10 {
			r.Errorf("Groups = %+v", g)
		}
	})
}

func TestOutageMinDevices(t *testing.T) {
	inRig(t, outageConfig(0.1, 4), liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 3)
		r.listen(10 * unit)
		r.wantOutages()
		r.openAll("site/", 4)
		r.listen(10 * unit)
		r.wantOutages("group/site:1 group.outage.started at 20 4 of 4")
	})
}

// Devices that have been silent for long do not keep an outage from ending.
func TestOutageEndsBesideDeadDevices(t *testing.T) {
	inRig(t, outageConfig(0.3, 3), liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 20)
		for i := range 8 {
			r.sessions[fmt.Sprint("site/", i)].Close(r.now(), liveness.Closed)
			for range 10 {
				r.listen(unit)
				r.beatSite(i+1, 20)
			}
		}
		r.wantOutages()
		r.listen(10 * unit)
		r.wantOutages("group/site:1 group.outage.started at 90 14 of 20")
		r.beatSite(8, 20)
		r.wantOutages("group/site:2 group.outage.ended at 90 11 of 20")
	})
}

// A group without a Share has no outages.
func TestOutageOff(t *testing.T) {
	inRig(t, outageConfig(0, 1), liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 3)
		r.listen(10 * unit)
		r.wantOutages()
	})
}

// A share that has no exact binary form is reached all the same.
func TestOutageShareIsExact(t *testing.T) {
	fleet := outageConfig(0.07, 1)
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		r.openAll("site/", 100)
		r.listen(5 * unit)
		r.beatSite(7, 100)
		r.listen(5 * unit)
		r.wantOutages("group/site:1 group.outage.started at 10 7 of 100")
	})
}

// Devices that were dead before an outage do not end it by coming back, and it goes on, and ends,
// after a restart.
func TestOutageSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, outageConfig(0.3, 4), origin)
		l.pulse()
		l.openAll("site/", 20)
		for i := range 5 { // 0 to 4 die one by one
			for range 4 {
				l.listen(5 * unit)
				l.beatSite(i+1, 20)
			}
		}
		for range 4 {
			l.listen(5 * unit)
			l.beatSite(5, 20)
		}
		l.wantOutages()
		for range 3 { // 5 to 11 fall together
			l.listen(5 * unit)
			l.beatSite(12, 20)
		}
		if got := l.outages(); len(got) != 1 {
			t.Fatalf("outages %v, want one that began", got)
		}
		for i := range 3 { // 0 to 2 are back
			l.open(fmt.Sprint("site/", i))
		}
		for i := 10; i < 12; i++ {
			if err := l.registry.SetMaintenance(fmt.Sprint("site/", i), true); err != nil {
				t.Fatal(err)
			}
		}
		l.wantOutages()
		before := l.registry.Groups()[0]
		k.checkpoint(l.registry)
		l.stop()

		l = begin(t, k, outageConfig(0.3, 4), origin)
		if g := l.registry.Groups()[0]; g != before || !g.Outage || g.Silent != 7 {
			t.Errorf("after the restart %+v, before it %+v", g, before)
		}
		l.pulse()
		for i := range 9 { // 3 and 4, which died before, and 5 to 8: one of the outage is left
			l.open(fmt.Sprint("site/", i))
			if got := l.outages(); i == 6 != (len(got) == 1) { // then no more than 15 % of those that fell are silent
				t.Errorf("with %d back: %v", i+1, got)
			}
		}
		l.stop()
	})
}

// A process that dies between the last event of a device and that of its group leaves no outage
// behind.
func TestOutageWithNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newShelf(t)
		k.groups["site"] = keep.GroupRecord{Name: "site", Seq: 7, Outage: true, From: time.Now().Add(-time.Hour)}
		l := begin(t, k, outageConfig(0.3, 4), time.Now())
		l.pulse()
		l.listen(2 * unit)
		if got := l.outages(); len(got) != 1 || !strings.HasPrefix(got[0], "group/site:8 group.outage.ended") {
			t.Errorf("outages %v, want the end of one", got)
		}
		l.stop()
	})
}

// An outage outlasts a restart whose devices are restored one by one, although one of them is about
// to come online and a second passes in between. It ends when enough of all its devices are back.
func TestOutageWhileRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := begin(t, newShelf(t), outageConfig(0.3, 4), time.Now())
		defer l.stop()
		if err := l.registry.Keeper().RestoreSource(keep.SourceRecord{Name: "edge", Listened: 100 * unit, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		fell := time.Now().Add(-10 * unit)
		l.registry.Keeper().RestoreGroup(keep.GroupRecord{Name: "site", Seq: 7, Outage: true, From: fell.Add(-unit)})
		time.Sleep(2 * time.Second)
		for i := range 8 {
			rec := keep.Record{
				Num: uint32(i + 1), ID: fmt.Sprint("site/", i), State: liveness.Offline, Reason: liveness.Silence, Source: "edge",
				Last: 60 * unit, Until: 90 * unit, Since: fell, Seq: 2,
			}
			if i == 0 { // its heartbeat was answered, and the process died before that was committed
				rec.Heard = 99 * unit
			}
			if err := l.registry.Keeper().Restore(rec); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		l.wantState("site/0", liveness.Unknown)
		l.pulse()
		l.wantOutages()
		if g := l.registry.Groups()[0]; !g.Outage || g.Silent != 7 || g.Members != 8 {
			t.Errorf("Groups = %+v, want an outage of 7 of 8", g)
		}
		for i := range 7 {
			l.open(fmt.Sprint("site/", i))
			if got := l.outages(); i == 6 != (len(got) == 1) { // then no more than 15 % are silent
				t.Errorf("with %d back: %v", i+1, got)
			}
		}
	})
}
