package replay_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// inRig runs a test in a bubble. The fleet has a timeout of 3 min and a group of meters.
func inRig(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, liveness.Config{
			Policy: liveness.Policy{Timeout: planTimeout, Interval: time.Minute},
			Groups: []liveness.GroupConfig{{Name: "meters", Match: "meter/*", Outage: liveness.OutageConfig{Share: 0.9, MinDevices: 2}}},
		})
		defer r.stop()
		f(r)
	})
}

// beats lets devices beat once a minute for some times.
func (r *rig) beats(n int, ids ...string) {
	for range n {
		for _, id := range ids {
			if r.sessions[id] != nil {
				r.sessions[id].Beat(r.now())
			} else if _, err := r.source.Apply(id, liveness.Signal{At: r.now()}); err != nil {
				r.Fatal(err)
			}
		}
		r.listen(time.Minute)
	}
}

// ask answers a question.
func (r *rig) ask(q replay.Question) *replay.Answer {
	r.Helper()
	r.checkpoint()
	a, err := replay.New(r.registry, &r.memory).Run(context.Background(), q, time.Now())
	if err != nil {
		r.Fatal(err)
	}
	return a
}

func at(values ...time.Duration) replay.Question { return replay.Question{Values: values} }

func TestFalseAlarmsAndOutages(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("meter/1")
		r.open("valve")
		r.beats(10, "meter/1", "valve", "sensor")
		r.listen(90 * time.Second) // 150 s of silence of all, which each ends in its session
		r.beats(10, "meter/1", "valve", "sensor")
		r.listen(6 * time.Minute) // 7 min: valve comes with another session
		r.open("valve")
		r.beats(1, "meter/1", "sensor")
		r.listen(10 * time.Minute) // valve is silent for 11 min so far
		a := r.ask(at(100*time.Second, 2*time.Minute, 3*time.Minute, 5*time.Minute, 10*time.Minute))
		type want struct {
			falseAlarms, seen int
			delay             time.Duration
			bound             bool
		}
		// meter/1: 150 s and 7 min are false alarms. valve: 150 s; 7 min is an outage, so is what goes on.
		// sensor has no sessions: 150 s is a false alarm, and 7 min, more than twice the timeout, an outage.
		// meter/1 and sensor are silent for 11 min, too.
		for i, w := range []want{
			{4, 5, 100 * time.Second, false},
			{4, 5, 2 * time.Minute, false},
			{1, 5, 3 * time.Minute, false},
			{1, 5, 5 * time.Minute, false},
			{0, 3, 10 * time.Minute, false},
		} {
			p := a.Points[i]
			if p.FalseAlarms != w.falseAlarms || p.Seen != w.seen || (p.Mean.Duration()-w.delay).Abs() > time.Second || p.Bound != w.bound {
				t.Errorf("%s: %d false alarms, %d seen after %v, bound %v, want %+v", p.Sentence, p.FalseAlarms, p.Seen, p.Mean.Duration(), p.Bound, w)
			}
		}
		if a.Today.FalseAlarms != 1 || a.Outages != 5 || a.Silences != 9 || a.Devices != 3 || a.Today.Value.Duration() != planTimeout {
			t.Errorf("answer = %+v", a)
		}
		if p := a.Points[1]; p.Sooner != 5 || (p.SoonerBy.Duration()-time.Minute).Abs() > time.Second || !strings.Contains(p.Sentence, "5 outages seen 1m sooner") {
			t.Errorf("sooner = %+v", p)
		}
	})
}

// hearing is the far end of a session that is told of verdicts.
type hearing struct{}

func (hearing) Replaced()   {}
func (hearing) Dismissed()  {}
func (hearing) Judged()     {}
func (hearing) Committed()  {}
func (hearing) Probe() bool { return false }

// A gateway ends the connection of a device that is judged. That another session follows does not show that
// the device was gone: up to twice the timeout it was only slow.
func TestEndedForTheVerdict(t *testing.T) {
	inRig(t, func(r *rig) {
		open := func() *liveness.Session {
			s := new(liveness.Session)
			if _, err := r.source.Open(s, "valve", liveness.Hello{}, hearing{}, r.now()); err != nil {
				r.Fatal(err)
			}
			r.sessions["valve"] = s
			return s
		}
		s := open()
		r.beats(10, "valve")
		for _, silence := range []time.Duration{4 * time.Minute, 8 * time.Minute} {
			r.listen(planTimeout + time.Second)
			s.Close(r.now(), liveness.Closed)
			r.listen(silence - planTimeout)
			s = open()
			r.beats(3, "valve")
		}
		a := r.ask(at(3*time.Minute, 5*time.Minute, 7*time.Minute))
		if a.Today.FalseAlarms != 1 || a.Today.Seen != 1 || a.Outages != 1 {
			t.Errorf("today %d false alarms and %d of %d outages, want one of each: %+v", a.Today.FalseAlarms, a.Today.Seen, a.Outages, a)
		}
		for i, want := range []int{1, 1, 0} {
			if p := a.Points[i]; p.FalseAlarms != want || p.Seen != 1 || p.Closed != 0 {
				t.Errorf("%s: %d false alarms, %d seen, %d closed; want %d, 1, 0", p.Sentence, p.FalseAlarms, p.Seen, p.Closed, want)
			}
		}
	})
}

func TestScope(t *testing.T) {
	inRig(t, func(r *rig) {
		ids := []string{"meter/1", "meter/2", "valve"}
		for _, id := range ids {
			r.open(id)
		}
		r.beats(10, ids...)
		r.listen(3 * time.Minute)
		r.beats(2, ids...)
		for _, tt := range []struct {
			name string
			q    replay.Question
			want int
		}{
			{"all", replay.Question{}, 3}, {"group", replay.Question{Group: "meters"}, 2}, {"device", replay.Question{Device: "valve"}, 1},
		} {
			if a := r.ask(tt.q); a.Today.FalseAlarms != tt.want || a.Devices != tt.want {
				t.Errorf("%s: %d false alarms of %d devices, want %d", tt.name, a.Today.FalseAlarms, a.Devices, tt.want)
			}
		}
	})
}

func TestBounds(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("valve")
		r.beats(10, "valve")
		r.listen(time.Minute)
		r.beats(10, "valve")
		a := r.ask(at(30*time.Second, 40*time.Second, 170*time.Second))
		if from := a.ExactFrom.Duration(); from < 80*time.Second || from > 120*time.Second {
			t.Errorf("exact from %v, want half of the timeout or a little more", from)
		}
		if a.Points[0].Bounds != 1 || !a.Points[0].Bound || a.Points[2].Bound || !strings.Contains(a.Points[0].Sentence, "at least") {
			t.Errorf("points = %+v", a.Points)
		}
	})
}

func TestWindows(t *testing.T) {
	inRig(t, func(r *rig) {
		start := time.Now()
		r.open("early")
		r.beats(30, "early")
		r.listen(4 * time.Minute)
		r.beats(30, "early")
		middle := time.Now()
		r.open("late")
		r.beats(10, "early", "late")
		r.listen(4 * time.Minute)
		r.beats(20, "early", "late")
		if a := r.ask(replay.Question{}); !a.Clipped || !a.From.Equal(start) || !a.KnownFrom.Equal(start) || a.Today.FalseAlarms != 3 {
			t.Errorf("all = %+v", a)
		}
		first := r.ask(replay.Question{From: start, To: middle})
		second := r.ask(replay.Question{From: middle})
		if first.Clipped || first.Today.FalseAlarms != 1 || second.Today.FalseAlarms != 2 {
			t.Errorf("%d and %d false alarms, want 1 and 2", first.Today.FalseAlarms, second.Today.FalseAlarms)
		}
		if first.Devices != 1 || first.Unknown != 1 || second.Devices != 2 {
			t.Errorf("%d and %d devices, want 1 and 2", first.Devices, second.Devices)
		}
		if got := second.DeviceMonths * 30 * 24 * 60; math.Abs(got-2*34) > 4 {
			t.Errorf("two devices for 34 minutes are %.1f device-minutes", got)
		}
	})
}

func TestDamagedRecords(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("valve")
		r.beats(10, "valve")
		r.listen(4 * time.Minute)
		r.beats(3, "valve")
		r.checkpoint()
		r.memory.damaged = 1
		if a := r.ask(replay.Question{}); a.Damaged != 1 || a.Silences != 1 {
			t.Errorf("answer = %+v, want one part damaged, and a silence from the others", a)
		}
	})
}

func TestMaintenanceIsToldApart(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("valve")
		r.beats(10, "valve")
		r.listen(4 * time.Minute)
		r.beats(3, "valve")
		r.checkpoint()
		for i := range r.memory.gaps {
			r.memory.gaps[i].Suppressed = true
		}
		if a := r.ask(replay.Question{}); a.Today.FalseAlarms != 0 || a.Suppressed != 1 || a.Silences != 0 {
			t.Errorf("answer = %+v", a)
		}
	})
}

// A device that has to send several heartbeats in a row is judged once, however often it falls silent before it is
// online again.
func TestRecoveringIsJudgedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, liveness.Config{
			Policy: liveness.Policy{Timeout: planTimeout, Interval: time.Minute, RecoverAfter: 3},
			Groups: []liveness.GroupConfig{{Name: "meters", Match: "meter/*", Outage: liveness.OutageConfig{Share: 0.9, MinDevices: 1}}},
		})
		defer r.stop()
		r.beats(10, "meter/1")
		for range 7 {
			r.beats(1, "meter/1")
			r.listen(4 * time.Minute)
		}
		r.beats(10, "meter/1")
		a := r.ask(at(planTimeout, 270*time.Second, 10*time.Minute))
		for i, want := range []struct{ verdicts, notifications int }{{1, 2}, {1, 2}, {0, 0}} {
			if p := a.Points[i]; p.FalseAlarms+p.Seen != want.verdicts || p.Notifications != want.notifications {
				t.Errorf("%v: %d verdicts, %d notifications, want %+v", p.Value.Duration(), p.FalseAlarms+p.Seen, p.Notifications, want)
			}
		}
		if today := &a.Today; today.FalseAlarms+today.Seen != 1 || today.Notifications != 2 || a.Silences != 1 {
			t.Errorf("today: %+v of %d silences, want one verdict and its end", today, a.Silences)
		}
		a = r.ask(replay.Question{Field: replay.OutageShare, Shares: []float64{0.5}})
		if p := a.Points[0]; p.GroupOutages != 1 || p.Notifications != 3 {
			t.Errorf("%d outages of the group, %d notifications, want one that began and ended, and the end of the device's", p.GroupOutages, p.Notifications)
		}
	})
}

func TestOverlapsAreLeftOut(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("valve")
		r.beats(10, "valve")
		r.listen(4 * time.Minute)
		r.beats(3, "valve")
		r.checkpoint()
		r.memory.gaps = append(r.memory.gaps, r.memory.gaps[len(r.memory.gaps)-1])
		if a := r.ask(replay.Question{}); a.Today.FalseAlarms != 1 || a.Overlaps != 1 {
			t.Errorf("%d false alarms, %d overlaps, want 1 and 1", a.Today.FalseAlarms, a.Overlaps)
		}
	})
}

func TestOtherSettings(t *testing.T) {
	inRig(t, func(r *rig) {
		ids := []string{"meter/1", "meter/2", "meter/3", "meter/4"}
		for _, id := range ids {
			r.open(id)
		}
		r.beats(10, ids...)
		r.sessions["meter/1"].Close(r.now(), liveness.Closed)
		r.listen(20 * time.Second) // its close grace is 10 s
		r.open("meter/1")
		r.beats(10, ids...)
		r.listen(4 * time.Minute)
		r.beats(1, ids...)
		a := r.ask(replay.Question{Field: replay.LateAfter, Values: []time.Duration{2 * time.Minute, 10 * time.Minute}})
		if a.Points[0].Lates != 4 || a.Points[1].Lates != 0 || a.Today.Lates != 0 {
			t.Errorf("late: %+v", a.Points)
		}
		a = r.ask(replay.Question{Field: replay.CloseGrace, Values: []time.Duration{3 * time.Second, 6 * time.Second, 30 * time.Second}})
		if a.Points[0].Closed != 1 || !a.Points[0].Bound || a.Points[1].Closed != 1 || a.Points[1].Bound || a.Points[2].Closed != 0 {
			t.Errorf("close grace: %+v", a.Points)
		}
		a = r.ask(replay.Question{Field: replay.OutageShare, Group: "meters", Shares: []float64{0.5, 1}})
		if a.Points[0].GroupOutages != 1 || a.Points[1].GroupOutages != 1 || a.Today.GroupOutages != 1 {
			t.Errorf("outage share: %+v", a.Points)
		}
		if n := a.Points[0].Notifications; n < 2 || n >= 10 {
			t.Errorf("%d notifications, want those of an outage, and of what came before it", n)
		}
	})
}

func TestLearnedPoint(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("valve")
		r.beats(5, "valve")
		if a := r.ask(replay.Question{}); a.Learned != nil {
			t.Errorf("learned = %+v, want none yet", a.Learned)
		}
		r.beats(240, "valve")
		a := r.ask(replay.Question{})
		if a.Learned == nil || a.Learned.Value == 0 || a.Learned.Sentence == "" || a.Sentence != a.Learned.Sentence {
			t.Errorf("learned = %+v; %s", a.Learned, a.Sentence)
		}
	})
}

func TestQuestionsThatMakeNoSense(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("valve")
		r.beats(5, "valve")
		now := time.Now()
		for _, tt := range []struct {
			name string
			q    replay.Question
			err  error
			text string
		}{
			{"unknown group", replay.Question{Group: "x"}, replay.ErrUnknown, `group "x"`},
			{"unknown device", replay.Question{Device: "x"}, replay.ErrUnknown, `device "x"`},
			{"both", replay.Question{Group: "meters", Device: "valve"}, replay.ErrBad, "not about both"},
			{"from in the future", replay.Question{From: now.Add(time.Hour), To: now.Add(2 * time.Hour)}, replay.ErrBad, "still to come"},
			{"to before from", replay.Question{From: now.Add(-time.Hour), To: now.Add(-2 * time.Hour)}, replay.ErrBad, "not after from"},
			{"to is from", replay.Question{From: now.Add(-time.Hour), To: now.Add(-time.Hour)}, replay.ErrBad, "not after from"},
			{"beyond a year", replay.Question{From: now.Add(-367 * 24 * time.Hour)}, replay.ErrBad, "366 days ago"},
			{"before the first record", replay.Question{From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)}, replay.ErrBad, "recorded since"},
			{"zero", at(0), replay.ErrBad, "not between"},
			{"negative", at(-time.Second), replay.ErrBad, "not between"},
			{"beyond a year of timeout", at(400 * 24 * time.Hour), replay.ErrBad, "not between"},
			{"too many", at(make([]time.Duration, 61)...), replay.ErrBad, "61 values"},
			{"what", replay.Question{Field: "interval"}, replay.ErrBad, "no setting"},
			{"share of a timeout", replay.Question{Shares: []float64{0.5}}, replay.ErrBad, "one setting"},
			{"share of a device", replay.Question{Field: replay.OutageShare, Device: "valve"}, replay.ErrBad, "about groups"},
			{"share", replay.Question{Field: replay.OutageShare, Shares: []float64{math.NaN()}}, replay.ErrBad, "not a share"},
		} {
			_, err := replay.New(r.registry, &r.memory).Run(context.Background(), tt.q, now)
			if !errors.Is(err, tt.err) || !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.text)
			}
		}
		none := memory{}
		if _, err := replay.New(r.registry, &none).Run(context.Background(), replay.Question{}, now); !errors.Is(err, replay.ErrBad) {
			t.Errorf("no records: %v", err)
		}
	})
}

func TestRunIsAlone(t *testing.T) {
	inRig(t, func(r *rig) {
		r.open("valve")
		r.beats(5, "valve")
		r.memory.wait = make(chan struct{})
		e := replay.New(r.registry, &r.memory)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		r.memory.gaps = append(r.memory.gaps, judgement.Gap{Num: 1, At: time.Now().Add(-time.Second)})
		go func() {
			_, err := e.Run(ctx, replay.Question{}, time.Now())
			done <- err
		}()
		synctest.Wait()
		if _, err := e.Run(context.Background(), replay.Question{}, time.Now()); !errors.Is(err, replay.ErrBusy) {
			t.Errorf("a second question: %v", err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run with a context that is done = %v", err)
		}
		r.memory.wait = nil
		if _, err := e.Run(context.Background(), replay.Question{}, time.Now()); err != nil {
			t.Errorf("the next question: %v", err)
		}
		r.memory.err = errors.New("no disk")
		if _, err := e.Run(context.Background(), replay.Question{}, time.Now()); !errors.Is(err, r.memory.err) {
			t.Errorf("Run = %v, want that of the records", err)
		}
	})
}

func TestParseSpans(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []time.Duration
	}{
		{"90s", []time.Duration{90 * time.Second}},
		{"3m, 60s,60,90s", []time.Duration{time.Minute, 90 * time.Second, 3 * time.Minute}},
		{"60s..60s", []time.Duration{time.Minute}},
		{"60s..70s", []time.Duration{time.Minute, 65 * time.Second, 70 * time.Second}},
	} {
		if got, err := replay.ParseSpans(tt.text); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("ParseSpans(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"60s..10m", "1s..366d", "0.1..0.2"} {
		got, err := replay.ParseSpans(text)
		if err != nil || len(got) < 2 || len(got) > replay.MaxValues || !slices.IsSorted(got) {
			t.Errorf("ParseSpans(%q) = %v, %v", text, got, err)
		}
	}
	var many []string
	for i := range 61 {
		many = append(many, strconv.Itoa(i+1))
	}
	for _, text := range []string{
		"", "x", "-5s", "0", "10m..60s", "60s..", "..60s", "60s..x", "60s..90s..3m", "1s..400d", "NaN", "inf", "1e300", "60s,,90s", strings.Join(many, ","),
	} {
		if got, err := replay.ParseSpans(text); !errors.Is(err, replay.ErrBad) {
			t.Errorf("ParseSpans(%q) = %v, %v, want an error", text, got, err)
		}
	}
}

func TestParseShares(t *testing.T) {
	got, err := replay.ParseShares("0.05..0.5")
	if err != nil || got[0] != 0.05 || got[len(got)-1] != 0.5 || len(got) < 10 {
		t.Errorf("ParseShares = %v, %v", got, err)
	}
	for _, text := range []string{"", "x", "0", "-0.1", "1.5", "NaN", "0.5..0.1", "10%"} {
		if got, err := replay.ParseShares(text); !errors.Is(err, replay.ErrBad) {
			t.Errorf("ParseShares(%q) = %v, %v, want an error", text, got, err)
		}
	}
}
