package cron_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/schedule"
)

// see lets devices say hello, and goodbye if they are to be offline, and waits until that is in the store: before that they are pending.
func (r *rig) see(offline bool, ids ...string) {
	r.Helper()
	for _, id := range ids {
		session := &liveness.Session{}
		_, err := r.source.Open(session, id, liveness.Hello{}, nil, r.source.Time(time.Now()))
		r.check(err)
		if offline {
			session.Bye(r.source.Time(time.Now()))
		}
	}
	for _, id := range ids {
		r.until(id+" is kept", func() bool {
			v, err := r.registry.Device(id)
			r.check(err)
			return v.State != liveness.Pending
		})
	}
}

// covered returns the devices that are in maintenance.
func (r *rig) covered() string {
	var ids []string
	views, _ := r.registry.List(nil, 0, 1000)
	for _, v := range views {
		if v.Maintenance {
			ids = append(ids, v.ID)
		}
	}
	return strings.Join(sorted(ids), " ")
}

func sorted(list []string) []string {
	for i := range list {
		for j := i; j > 0 && list[j] < list[j-1]; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

func (r *rig) untilCovered(want string) {
	r.Helper()
	r.until("in maintenance are: "+want, func() bool { return r.covered() == want })
}

// A report counts the devices that are offline, and lists some.
func TestReport(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.see(true, "site-7/a", "site-7/b", "c")
	r.see(false, "d")
	r.put("all", "report", "0 0 1 1 *", `{"url":"https://example.org/hook","limit":2}`, nil)
	r.put("site", "report", "0 0 1 1 *", `{"url":"https://example.org/hook","group":"site-*","device":"*b"}`, nil)
	r.put("long", "report", "0 0 1 1 *", `{"url":"https://example.org/hook","min_offline_ms":3600000}`, nil)
	for i, c := range []struct {
		name      string
		count     int
		listed    int
		truncated bool
	}{{"all", 3, 2, true}, {"site", 1, 1, false}, {"long", 0, 0, false}} {
		_, err := r.cron.RunNow(t.Context(), c.name)
		r.check(err)
		r.ended(c.name, 1)
		var body struct {
			Schedule  string
			Count     int
			Devices   []struct{ ID, Group, Reason string }
			Truncated bool
		}
		r.check(json.Unmarshal([]byte(r.bodies()[i]), &body))
		if body.Schedule != c.name || body.Count != c.count || len(body.Devices) != c.listed || body.Truncated != c.truncated {
			t.Errorf("%s: %+v", c.name, body)
		}
		if c.name == "site" && fmt.Sprint(body.Devices) != "[{site-7/b site-7 bye}]" {
			t.Errorf("%+v", body.Devices)
		}
	}
}

// A window covers its devices, those that come later too; at its end all but what others cover are as before.
func TestWindow(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.see(false, "a1", "a2", "b1")
	r.check(r.registry.SetMaintenance("a1", true))
	r.put("one", "maintenance", "0 13 * * *", `{"for_ms":3600000,"device":"a*","url":"https://example.org/hook"}`, nil)
	r.put("two", "maintenance", "30 13 * * *", `{"for_ms":3600000,"device":"?2"}`, nil)
	r.set(time.Hour)
	r.untilCovered("a1 a2")
	r.until("its start is reported", func() bool { return len(r.bodies()) == 1 }) // which counts the devices
	r.see(false, "a3", "b2")
	r.untilCovered("a1 a2 a3")
	r.until("only a window goes on", func() bool { st := r.cron.Stats(); return st.Windows == 1 && st.Running == 0 })
	r.set(95 * time.Minute)
	r.untilCovered("a1 a2 a3 b2")
	r.see(true, "a2", "a3")
	r.check(r.registry.SetMaintenance("a1", false))
	r.set(2 * time.Hour)
	one := r.ended("one", 1)[0]
	if one.State != cron.Done || !strings.HasPrefix(one.Output, "3 devices, 2 of them offline at the end; job ") {
		t.Errorf("run %+v", one)
	}
	r.untilCovered("a2 b2")
	r.set(3 * time.Hour)
	if two := r.ended("two", 1)[0]; two.Output != "2 devices, 1 of them offline at the end" {
		t.Errorf("run %+v", two)
	}
	r.untilCovered("")
	bodies := r.bodies()
	if len(bodies) != 2 || !strings.Contains(bodies[0], `"phase":"started","until":"2026-03-02T14:00:00Z","covered":2`) ||
		!strings.Contains(bodies[1], `"phase":"ended","until":"2026-03-02T14:00:00Z","covered":3,"offline":2,"devices":[{"id":"a`) {
		t.Errorf("bodies %q", bodies)
	}
}

// A window survives a restart, ends on time, and at once if that has passed meanwhile; nobody is told twice.
func TestWindowRestart(t *testing.T) {
	for _, passed := range []bool{false, true} {
		t.Run(fmt.Sprint("passed=", passed), func(t *testing.T) {
			r := newRig(t, cron.Config{})
			r.see(false, "a", "b")
			r.put("w", "maintenance", "0 13 * * *", `{"for_ms":3600000,"device":"a","url":"https://example.org/hook"}`, nil)
			r.set(time.Hour)
			r.untilCovered("a")
			r.until("it is told", func() bool { return len(r.bodies()) == 1 })
			r.close()
			r.set(90 * time.Minute)
			if passed {
				r.set(5 * time.Hour)
			}
			r.open()
			if got := r.covered(); got != "a" {
				t.Errorf("after the restart, in maintenance: %q", got)
			}
			r.run()
			if !passed {
				r.until("it goes on", func() bool { return r.cron.Stats().Windows == 1 })
				if got := r.covered(); got != "a" {
					t.Errorf("in maintenance: %q", got)
				}
				r.set(2 * time.Hour)
			}
			if run := r.ended("w", 1)[0]; run.State != cron.Done || run.Attempt != 2 {
				t.Errorf("run %+v", run)
			}
			r.untilCovered("")
			if bodies := r.bodies(); len(bodies) != 2 {
				t.Errorf("bodies %q", bodies)
			}
		})
	}
}

// Silence that a window excused before a restart is excused after it: up to the window's end, or what was left of the timeout after it.
func TestWindowRestartExcuses(t *testing.T) {
	const timeout, grace = 10 * time.Minute, 210 * time.Second
	for _, c := range []struct {
		name            string
		listened, again time.Duration // when the process before listened last, and when the next one begins
		silence         string
		notBefore       time.Duration // after the restart
	}{
		{"open", 90 * time.Minute, 100 * time.Minute, "excused", 20*time.Minute + timeout},
		{"ended meanwhile", 90 * time.Minute, 5 * time.Hour, "excused", timeout},
		{"ended lately", 124 * time.Minute, 5 * time.Hour, "excused", timeout - 4*time.Minute},
		{"ended long ago", 131 * time.Minute, 5 * time.Hour, "excused", grace},
		{"counts", 90 * time.Minute, 100 * time.Minute, "counts", grace},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, cron.Config{})
			r.see(false, "a", "b")
			r.check(r.registry.SetPolicy("a", liveness.Policy{Timeout: timeout}))
			r.put("w", "maintenance", "0 13 * * *", `{"for_ms":3600000,"device":"a","silence":"`+c.silence+`"}`, nil)
			r.set(time.Hour)
			r.untilCovered("a")
			if r.set(c.listened); c.listened > 2*time.Hour {
				r.set(2 * time.Hour)
				r.ended("w", 1)
				r.set(c.listened)
			}
			r.close()
			r.set(c.again)
			r.open()
			r.check(r.cron.Restore(t.Context(), start.Add(c.listened)))
			v, err := r.registry.Device("a")
			r.check(err)
			if got := v.NotBefore - v.Now; (got - c.notBefore).Abs() > time.Second {
				t.Errorf("it is not judged for %v, want %v", got, c.notBefore)
			}
		})
	}
}

// A schedule that is changed or deleted changes or ends its window.
func TestWindowChanges(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.see(false, "a", "b")
	r.put("w", "maintenance", "0 13 * * *", `{"for_ms":3600000,"device":"a","silence":"excused"}`, nil)
	_, err := r.cron.RunNow(t.Context(), "w")
	r.check(err)
	r.untilCovered("a")
	r.put("w", "maintenance", "0 13 * * *", `{"for_ms":7200000,"device":"b"}`, nil)
	r.untilCovered("b")
	r.check(r.cron.Delete(t.Context(), "w"))
	r.untilCovered("")
	r.until("it has ended", func() bool { return r.cron.Stats().Windows == 0 })
}

// Windows of one schedule that overlap are all opened, whether asked for or scheduled, and cover until the last one closes.
func TestWindowsOverlap(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.see(false, "a")
	// The policies are those of a schedule that was kept when they counted.
	_, err := r.cron.Table().Put(t.Context(), cron.Schedule{
		Name: "w", Kind: "maintenance", Spec: "0 13 * * *", Settings: []byte(`{"for_ms":3600000,"device":"a"}`), Misfire: int(schedule.MisfireAll(2)),
		Jitter: 24 * time.Hour, Began: start, Last: start, Due: start.Add(time.Hour), Claim: 1,
	})
	r.check(err)
	r.set(55 * time.Minute)
	_, err = r.cron.RunNow(t.Context(), "w")
	r.check(err)
	r.untilCovered("a")
	r.set(time.Hour)
	r.until("both are open", func() bool { return r.cron.Stats().Windows == 2 })
	r.set(115 * time.Minute)
	r.ended("w", 1)
	if got := r.covered(); got != "a" {
		t.Errorf("in maintenance: %q", got)
	}
	r.set(2 * time.Hour)
	r.ended("w", 2)
	r.untilCovered("")
	r.want("w", "1 done 55m0s", "2 done 1h0m0s")
}

// What a crash left is put right at the start.
func TestWindowRepair(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.see(false, "a", "b")
	_, _, err := r.registry.Operator().Cover(0, 100, "", func(string, string) (operate.Window, bool) { return operate.Window{Name: "window gone"}, true })
	r.check(err)
	r.restart()
	r.untilCovered("")
}

// The events that a window makes for its devices alarm nobody: no storm.
func TestWindowHushed(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.see(false, "a")
	r.check(r.delivery.PutEndpoint(t.Context(), jobs.Endpoint{Name: "ops", Kind: "webhook", Target: "https://example.org/"}))
	r.check(r.delivery.PutRoute(t.Context(), jobs.Route{Name: "all", Queue: 1, Endpoint: 1}))
	r.put("w", "maintenance", "0 0 1 1 *", `{"for_ms":60000,"device":"*"}`, nil)
	_, err := r.cron.RunNow(t.Context(), "w")
	r.check(err)
	r.untilCovered("a")
	r.see(true, "a")
	r.set(time.Minute)
	r.untilCovered("")
	r.check(r.registry.SetMaintenance("a", true))
	jobs := func() []jobs.View {
		views, err := r.delivery.Jobs().List(t.Context(), jobs.Filter{}, 100, time.Now())
		r.check(err)
		return views
	}
	r.until("the operator's event has a job", func() bool { return len(jobs()) > 0 })
	if got := jobs(); len(got) != 1 {
		t.Errorf("jobs %+v", got)
	}
}

// Ending a window over very many devices holds nothing else up for long, and what follows is complete.
func TestWindowLarge(t *testing.T) {
	r := newRig(t, cron.Config{})
	const devices = 1000
	ids := make([]string, devices)
	for i := range ids {
		ids[i] = fmt.Sprint("d", i)
	}
	r.see(false, ids...)
	r.put("w", "maintenance", "0 0 1 1 *", `{"for_ms":60000,"device":"d*"}`, nil)
	_, err := r.cron.RunNow(t.Context(), "w")
	r.check(err)
	count := func() (n int) {
		views, _ := r.registry.List(nil, 0, devices)
		for i := range views {
			if views[i].Maintenance {
				n++
			}
		}
		return n
	}
	r.until("all are covered", func() bool { return count() == devices })
	r.set(time.Minute)
	r.until("none is", func() bool { return count() == 0 })
	r.ended("w", 1)
}
