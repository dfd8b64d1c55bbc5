package liveness_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// The model implements the documentation as plainly as it can: a silence is as long as the time for which the
// source listened, since the device was expected, while the clocks were not in a window.

const (
	quietMaxGap   = 2 * time.Minute
	quietInterval = 3 * time.Minute
	quietGrace    = quietInterval + 7*time.Minute
	quietAgo      = time.Second / 2 // how long ago heartbeats came: so no step is due at the very instant of a pulse
)

// quietPolicies are what devices have, whether a minute is in one of the windows, and whether it is one at which
// the device is expected.
var quietPolicies = []struct {
	text   string
	in     func(berlin, utc time.Time) bool
	expect string
	due    func(berlin, utc time.Time) bool
}{
	{expect: "* * * * *", due: func(_, _ time.Time) bool { return true }},
	{expect: "30 2 * * * Europe/Berlin", due: func(b, _ time.Time) bool {
		skipped := b.Hour() == 3 && b.Minute() == 0 && b.Add(-time.Minute).Hour() == 1
		again := b.Add(-time.Hour).Hour() == 2
		return skipped || b.Hour() == 2 && b.Minute() == 30 && !again
	}},
	{expect: "15 3 * * 1-5", due: func(_, u time.Time) bool {
		return u.Hour() == 3 && u.Minute() == 15 && u.Weekday() != time.Saturday && u.Weekday() != time.Sunday
	}},
	{expect: "*/20 2,8 * * * Europe/Berlin", due: func(b, _ time.Time) bool { return (b.Hour() == 2 || b.Hour() == 8) && b.Minute()%20 == 0 }},
	{
		expect: "0 21 * * *", due: func(_, u time.Time) bool { return u.Hour() == 21 && u.Minute() == 0 },
		text: "22:00-06:00 Europe/Berlin", in: func(b, _ time.Time) bool { return b.Hour() >= 22 || b.Hour() < 6 },
	},
	{text: "22:00-06:00 Europe/Berlin", in: func(b, _ time.Time) bool { return b.Hour() >= 22 || b.Hour() < 6 }},
	{text: "02:00-03:00 Europe/Berlin", in: func(b, _ time.Time) bool { return b.Hour() == 2 }},
	{text: "Sat,Sun 00:00-24:00; Mon-Fri 12:00-13:00", in: func(_, u time.Time) bool {
		return u.Weekday() == time.Saturday || u.Weekday() == time.Sunday || u.Hour() == 12
	}},
	{text: "00:10-24:00", in: func(_, u time.Time) bool { return u.Hour() > 0 || u.Minute() >= 10 }},
	{},
}

type quietOp struct {
	kind      string
	device, n int
}

func quietOps() *rapid.Generator[[]quietOp] {
	kinds := []string{"listen", "listen", "listen", "listen", "beat", "beat", "stall", "cut", "restart"}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) quietOp {
		return quietOp{
			kind:   rapid.SampledFrom(kinds).Draw(t, "kind"),
			device: rapid.IntRange(0, 2).Draw(t, "device"),
			n:      rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 600)).Draw(t, "n"),
		}
	}), 1, 15)
}

type quietDevice struct {
	id            string
	policy        int
	timeout, late time.Duration
	state         string
	last          time.Duration
	cut           time.Duration // of the latest cut since it was heard, -1 if there was none
	events        []string

	known                bool // the two below
	lateAt, offlineAfter time.Duration
}

// quietTurn is an instant at which listening time goes on.
type quietTurn struct {
	listened time.Duration
	wall     time.Time
}

type quietStall struct{ at, length time.Duration }

// quietModel counts in listening time. Its clock has passed now.
type quietModel struct {
	berlin  *time.Location
	begin   time.Time
	now     time.Duration
	turns   []quietTurn
	stalls  []quietStall
	devices []*quietDevice
}

func (m *quietModel) wall(listened time.Duration) time.Time {
	i := len(m.turns) - 1
	for i > 0 && m.turns[i].listened > listened {
		i--
	}
	return m.turns[i].wall.Add(listened - m.turns[i].listened)
}

// expected returns when a device is expected that was heard last at an instant, the zero time if its policy has
// no schedule. It goes from minute to minute of the clock, in both directions.
func (m *quietModel) expected(d *quietDevice, heard time.Time) time.Time {
	p := quietPolicies[d.policy]
	if p.expect == "" {
		return time.Time{}
	}
	next := func(after time.Time) time.Time {
		at := after.Truncate(time.Minute).Add(time.Minute)
		for !p.due(at.In(m.berlin), at.UTC()) {
			at = at.Add(time.Minute)
		}
		return at
	}
	at := next(heard)
	early := at.Sub(heard)
	if early >= min(time.Minute, d.timeout/2) {
		return at
	}
	for before := heard.Truncate(time.Minute); heard.Sub(before) < early; before = before.Add(-time.Minute) {
		if p.due(before.In(m.berlin), before.UTC()) {
			return at
		}
	}
	return next(at)
}

// after returns when so much time has passed that counts: nothing does before an instant. It goes on from minute
// to minute of the clock.
func (m *quietModel) after(d *quietDevice, from, left time.Duration, expected time.Time) time.Duration {
	in := quietPolicies[d.policy].in
	for left > 0 {
		wall := m.wall(from)
		part := wall.Truncate(time.Minute).Add(time.Minute).Sub(wall)
		for _, t := range m.turns {
			if t.listened > from {
				part = min(part, t.listened-from)
			}
		}
		if !wall.Before(expected) && (in == nil || !in(wall.In(m.berlin), wall.UTC())) {
			part = min(part, left)
			left -= part
		}
		from += part
	}
	return from
}

// due works out when the device is late and when it is judged.
func (m *quietModel) due(d *quietDevice) {
	notBefore, anytime, expected := time.Duration(0), time.Time{}, m.expected(d, m.wall(d.last))
	if d.cut >= 0 {
		notBefore = m.after(d, d.cut, quietGrace, anytime)
	}
	for _, st := range m.stalls {
		if d.last < st.at {
			notBefore = max(notBefore, m.after(d, st.at, min(quietGrace, st.length), anytime))
		}
	}
	notBefore = min(notBefore, m.after(d, d.last, d.timeout+3*quietGrace, expected))
	if d.cut >= 0 {
		notBefore = max(notBefore, d.cut+timer.Resolution)
	}
	d.lateAt, d.offlineAfter = max(m.after(d, d.last, d.late, expected), notBefore), max(m.after(d, d.last, d.timeout, expected), notBefore)
	d.known = true
}

// roundUp returns the tick of the timers at an instant or after it.
func roundUp(at time.Duration) time.Duration {
	return (at + timer.Resolution - 1).Truncate(timer.Resolution)
}

// listen moves the clock, and does what is due.
func (m *quietModel) listen(on time.Duration) {
	m.now += on
	for _, d := range m.devices {
		if d.state != "online" && d.state != "late" {
			continue
		}
		if !d.known {
			m.due(d)
		}
		switch {
		case m.now >= roundUp(d.offlineAfter):
			d.state = "offline"
			d.events = append(d.events, fmt.Sprintf("offline due %v at %v", m.since(d.offlineAfter), m.since(m.now)))
		case d.state == "online" && d.late > 0 && m.now >= roundUp(d.lateAt):
			d.state = "late"
			d.events = append(d.events, fmt.Sprintf("late at %v", m.since(m.now)))
		}
	}
}

// since returns the wall time of a listening time, to a second.
func (m *quietModel) since(listened time.Duration) time.Duration {
	return m.wall(listened).Sub(m.begin).Round(time.Second)
}

// turn is the end of a gap.
func (m *quietModel) turn(length time.Duration) {
	m.turns = append(m.turns, quietTurn{m.now, m.wall(m.now).Add(length)})
	for _, d := range m.devices {
		d.known = false
	}
}

func (m *quietModel) cut(length time.Duration) {
	m.turn(length)
	m.stalls = nil
	for _, d := range m.devices {
		d.cut = m.now
	}
	m.listen(0)
}

func (m *quietModel) stall(length time.Duration) {
	before := m.now // what the clock showed when the stall was noticed
	m.now += quietMaxGap
	m.turn(length)
	m.stalls = slices.DeleteFunc(m.stalls, func(st quietStall) bool { return st.length <= length || st.at+st.length <= before })
	m.stalls = append(m.stalls, quietStall{m.now, length})
	m.listen(0)
}

// heard is a heartbeat.
func (m *quietModel) heard(d *quietDevice) {
	d.last, d.cut, d.known = roundUp(m.now-quietAgo), -1, false
	if d.state != "online" {
		d.state = "online"
		d.events = append(d.events, "online")
	}
}

// quietRun is a registry beside the model.
type quietRun struct {
	*testing.T

	shelf    *shelf
	registry *liveness.Registry
	source   *liveness.Source
	stop     func()
}

func (r *quietRun) restart(away time.Duration) {
	if r.stop != nil {
		r.shelf.checkpoint(r.registry)
		r.stop()
		time.Sleep(away)
	}
	r.registry = newRegistry(r.T, r.shelf, liveness.Config{})
	r.source = addSource(r.T, r.registry, liveness.SourceConfig{
		Name: "edge", MaxGap: quietMaxGap, ReconnectGrace: quietGrace - quietInterval, ReconnectGraceMax: time.Hour,
	})
	if err := r.shelf.restore(r.registry); err != nil {
		r.Fatal(err)
	}
	r.stop = start(r.T, r.registry)
	r.pulse()
}

func (r *quietRun) pulse() {
	listened := r.source.Pulse(time.Now())
	synctest.Wait() // what a turn of the clock puts off otherwise is armed anew
	r.source.Watermark(0, listened)
	synctest.Wait()
}

func (r *quietRun) beat(d *quietDevice) {
	p := liveness.Policy{
		Interval: quietInterval, Timeout: d.timeout, LateAfter: d.late,
		Quiet: quietPolicies[d.policy].text, Expect: quietPolicies[d.policy].expect,
	}
	if _, err := r.source.Apply(d.id, liveness.Signal{At: r.source.Time(time.Now()) - quietAgo, Announced: p}); err != nil {
		r.Error(err)
	}
	synctest.Wait()
}

func (r *quietRun) do(m *quietModel, o quietOp) {
	away := time.Duration(o.n) * time.Minute
	switch o.kind {
	case "listen":
		for range o.n {
			r.listen(m, time.Minute)
		}
	case "beat":
		r.beat(m.devices[o.device])
		m.heard(m.devices[o.device])
	case "stall":
		time.Sleep(quietMaxGap + away)
		r.pulse()
		m.stall(away)
	case "cut":
		r.source.Deafen(time.Now())
		time.Sleep(away)
		m.now += 2*timer.Resolution - m.now%timer.Resolution // beyond all heartbeats
		r.pulse()
		m.cut(m.begin.Add(time.Since(m.begin)).Sub(m.wall(m.now)))
	case "restart":
		r.restart(away)
		m.cut(away)
	}
	if o.kind != "listen" && o.kind != "beat" {
		r.listen(m, time.Second)
	}
}

func (r *quietRun) listen(m *quietModel, d time.Duration) {
	time.Sleep(d)
	r.pulse()
	m.listen(d)
}

// told returns what the events say of a device, as the model does.
func (r *quietRun) told(begin time.Time) map[string][]string {
	events, err := r.shelf.Read(nil, 0, 1<<20)
	if err != nil {
		r.Fatal(err)
	}
	told := make(map[string][]string)
	for _, e := range events {
		line := ""
		switch e.Type {
		case liveness.DeviceOnline:
			line = "online"
		case liveness.DeviceLate:
			line = fmt.Sprintf("late at %v", e.Time.Sub(begin).Round(time.Second))
		case liveness.DeviceOffline:
			line = fmt.Sprintf("offline due %v at %v", e.Deadline.Sub(begin).Round(time.Second), e.Time.Sub(begin).Round(time.Second))
		default:
			continue
		}
		told[e.Subject] = append(told[e.Subject], line)
	}
	return told
}

// check compares what was told, and what is shown.
func (r *quietRun) check(m *quietModel) {
	told := r.told(m.begin)
	for _, d := range m.devices {
		if !slices.Equal(told[d.id], d.events) {
			r.Errorf("%s, %q %q, timeout %v, late %v:\n%s\nwant\n%s", d.id, quietPolicies[d.policy].text, quietPolicies[d.policy].expect, d.timeout, d.late,
				strings.Join(told[d.id], "\n"), strings.Join(d.events, "\n"))
		}
		if d.state != "online" && d.state != "late" {
			continue
		}
		v, err := r.registry.Device(d.id)
		if err != nil {
			r.Fatal(err)
		}
		m.due(d)
		if want := m.wall(d.offlineAfter); v.Deadline.Sub(want).Abs() > time.Second {
			r.Errorf("%s is due at %v, want %v: %+v", d.id, v.Deadline, want, v)
		}
	}
}

func TestQuietModel(t *testing.T) {
	fewer(t, 20)
	rapid.Check(t, func(rt *rapid.T) {
		ops := quietOps().Draw(rt, "ops")
		day := rapid.SampledFrom([]int{0, 84, 85, 301, 302}).Draw(rt, "day") // of the year 2000, in which clocks were changed on days 85 and 302
		second := rapid.IntRange(0, 24*60*60-1).Draw(rt, "second")
		var devices []*quietDevice
		for i := range 3 {
			timeout := rapid.IntRange(4, 300).Draw(rt, "timeout")
			devices = append(devices, &quietDevice{
				id: fmt.Sprint("d", i), cut: -1, timeout: time.Duration(timeout) * time.Minute,
				late: time.Duration(rapid.IntRange(0, timeout-1).Draw(rt, "late")) * time.Minute, policy: rapid.IntRange(0, len(quietPolicies)-1).Draw(rt, "policy"),
			})
		}
		failed := !t.Run("run", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				berlin, err := time.LoadLocation("Europe/Berlin")
				if err != nil {
					t.Fatal(err)
				}
				// No look at the clock falls on a whole second, at which windows change: the timers round to ticks.
				time.Sleep(time.Duration(day)*24*time.Hour + time.Duration(second)*time.Second + 250*time.Millisecond)
				m := &quietModel{berlin: berlin, begin: time.Now(), turns: []quietTurn{{0, time.Now()}}, devices: devices}
				r := &quietRun{T: t, shelf: newShelf(t)}
				r.restart(0)
				defer func() { r.stop() }()
				r.listen(m, time.Second)
				for _, d := range devices {
					r.beat(d)
					m.heard(d)
				}
				for _, o := range ops {
					r.do(m, o)
				}
				r.check(m)
			})
		})
		if failed {
			rt.FailNow()
		}
	})
}

// inQuiet runs a test in which it is 21:50, devices are silent for 10 minutes and have windows from 22:00 on.
func inQuiet(t *testing.T, p liveness.Policy, f func(r *rig)) {
	t.Helper()
	p.Timeout, p.Quiet = 10*time.Minute, "22:00-06:00"
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(21*time.Hour + 50*time.Minute)
		r := &rig{T: t, log: newLog(t, 0), start: time.Now(), sessions: make(map[string]*liveness.Session)}
		r.registry = newRegistry(t, r.log, liveness.Config{Policy: p})
		defer start(t, r.registry)()
		r.source = r.addSource(liveness.SourceConfig{Name: "edge", MaxGap: time.Minute})
		f(r)
	})
}

// at lets the source listen until a time of the day.
func (r *rig) at(clock string) {
	r.Helper()
	at, err := time.Parse("15:04:05", clock)
	if err != nil {
		r.Fatal(err)
	}
	const day = 24 * time.Hour
	for {
		now := time.Now()
		left := (time.Duration(at.Hour()-now.Hour())*time.Hour + time.Duration(at.Minute()-now.Minute())*time.Minute + time.Duration(at.Second()-now.Second())*time.Second + day) % day
		if left == 0 {
			return
		}
		step := time.Second
		if left > time.Minute && (now.Hour() >= 22 || now.Hour() < 5) { // nothing is due in a window
			step = 30 * time.Second
		}
		time.Sleep(step)
		r.pulse()
	}
}

func TestCloseInQuiet(t *testing.T) {
	tests := []struct{ name, heard, closed, offline, reason string }{
		{"before the window", "21:50:00", "21:59:49", "21:59:59", "closed"},
		{"across its beginning", "21:55:00", "21:59:51", "06:05:01", "closed"},
		{"in it", "21:55:00", "23:00:00", "06:05:01", "closed"},
		{"before its end", "23:00:00", "05:59:55", "06:10:00", "closed"},
		{"after its end", "23:00:00", "06:00:01", "06:00:11", "closed"},
		{"a goodbye", "21:55:00", "23:00:00", "23:00:00", "bye"},
		{"silence", "21:55:00", "", "06:05:01", "silence"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inQuiet(t, liveness.Policy{CloseGrace: 10 * time.Second}, func(r *rig) {
				r.at("21:50:01")
				s := r.open("a")
				if tt.heard != "21:50:00" {
					r.at(tt.heard)
					s.Beat(r.now())
				}
				if tt.closed != "" {
					r.at(tt.closed)
					if tt.reason == "bye" {
						s.Bye(r.now())
					} else {
						s.Close(r.now(), liveness.Closed)
					}
				}
				r.at("06:20:00")
				events := r.events()
				last := events[len(events)-1]
				want, err := time.Parse("15:04:05", tt.offline)
				if err != nil {
					r.Fatal(err)
				}
				off := last.Time.Sub(time.Date(last.Time.Year(), last.Time.Month(), last.Time.Day(), want.Hour(), want.Minute(), want.Second(), 0, time.UTC))
				if len(events) != 2 || last.Reason.String() != tt.reason || off.Abs() > 1100*time.Millisecond {
					r.Errorf("%d events, the last %v %v at %v, want %s at %s", len(events), last.Type, last.Reason, last.Time, tt.reason, tt.offline)
				}
			})
		})
	}
}

// Nobody is asked in a window, and the view says what does not count.
func TestProbesInQuiet(t *testing.T) {
	inQuiet(t, liveness.Policy{Probes: 3, ProbeWait: time.Minute, LateAfter: 8 * time.Minute}, func(r *rig) {
		p := new(peer)
		r.at("21:50:01")
		s := r.openAs("a", liveness.Hello{}, p)
		r.at("21:51:31")
		s.Beat(r.now()) // 8m29s before the window, so that 1m31s are left after it
		r.at("21:59:55")
		r.wantState("a", liveness.Late)
		r.at("06:00:00")
		if v := r.device("a"); p.asked != 0 || v.Quieted.Round(time.Second) != 8*time.Hour || v.QuietBy.Round(time.Second) != 8*time.Hour {
			r.Errorf("asked %d times, %v and %v do not count", p.asked, v.Quieted, v.QuietBy)
		}
		r.at("06:01:00")
		r.wantState("a", liveness.Suspect)
		r.at("06:01:33")
		r.wantState("a", liveness.Offline)
		if p.asked != 1 {
			r.Errorf("asked %d times", p.asked)
		}
	})
}
