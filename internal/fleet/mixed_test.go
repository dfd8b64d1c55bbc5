//go:build linux

package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/fleet"
)

// mix are the orders by index modulo 20; all other devices stay well.
var mix = []fleet.Action{
	fleet.Silent, fleet.Close, fleet.Reset, fleet.Bye, fleet.Reconnect, fleet.Duplicate,
}

func TestFleetAgainstServer(t *testing.T) {
	const devices, ttl = 2000, 3 * time.Second
	ctx := limit(t, time.Minute)
	srv := newLineServer(t, ttl, nil)
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: devices, TTL: ttl, Interval: time.Second})
	stop := start(ctx, t, f)
	from := time.Now().Add(100 * time.Millisecond)
	for i := range devices {
		if k := i % 20; k < len(mix) {
			if err := f.Do(i, mix[k], from.Add(time.Duration(i)*time.Millisecond/4)); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(ctx, t, "orders", func() bool { return settled(f.Truth()) })
	waitFor(ctx, t, "offlines", func() bool { return verdicts(srv, f.Truth()) })
	stop()
	events, err := fleet.Events(ctx, srv.feed(t))
	if err != nil {
		t.Fatal(err)
	}
	truth := f.Truth()
	r := fleet.Score(truth, events, fleet.Options{})
	t.Logf("%v", &r)
	if !r.Clean() || r.Due < 4*devices/20 || r.Judged < r.Due {
		t.Fatalf("Score: %d due, %d judged:\n%v", r.Due, r.Judged, &r)
	}
	for _, d := range truth {
		checkDevice(t, d, srv.peer(d.ID))
	}
	checkStats(t, f.Stats())
}

// settled reports whether every order was carried out to the end.
func settled(truth []fleet.Device) bool {
	for _, d := range truth {
		k := d.Index % 20
		if k >= len(mix) {
			continue
		}
		if len(d.Steps) == 0 {
			return false
		}
		last := d.Steps[len(d.Steps)-1]
		redial := mix[k] == fleet.Reconnect || mix[k] == fleet.Duplicate
		if redial && last.Answered.IsZero() {
			return false
		}
	}
	return true
}

// verdicts reports whether each device that was told to go is offline. The first
// four actions of mix are such.
func verdicts(srv *lineServer, truth []fleet.Device) bool {
	return !slices.ContainsFunc(truth, func(d fleet.Device) bool {
		return d.Index%20 < 4 && srv.peer(d.ID).online
	})
}

// checkDevice compares the truth with what the server saw.
func checkDevice(t *testing.T, d fleet.Device, p peer) {
	t.Helper()
	var action fleet.Action
	wantState, wantEnds := fleet.ConnOpen, []string(nil)
	if k := d.Index % 20; k < len(mix) {
		action = mix[k]
		wantState = []fleet.ConnState{
			fleet.ConnOpen, fleet.ConnClosed, fleet.ConnClosed, fleet.ConnClosed, fleet.ConnOpen, fleet.ConnOpen,
		}[k]
		wantEnds = [][]string{{"silent"}, {"EOF"}, {"reset"}, {"bye"}, nil, nil}[k]
	}
	if d.State != wantState {
		t.Errorf("%s after %v: state %v, want %v (%+v)", d.ID, action, d.State, wantState, d)
	}
	if action == fleet.Reconnect {
		return // the server may have met the new connection before the reset
	}
	if action == fleet.Duplicate {
		if len(d.Replaced) != 1 || d.Replaced[0].At.IsZero() || d.Epoch != 2 {
			t.Errorf("%s: replaced %+v, epoch %d, want one that ended, and 2", d.ID, d.Replaced, d.Epoch)
		}
		return // its first connection may have lost answers
	}
	if !slices.Equal(p.ends, wantEnds) {
		t.Errorf("%s after %v: server saw %q, want %q", d.ID, action, p.ends, wantEnds)
	}
	if action == 0 || action == fleet.Reset {
		return // its last heartbeat may be on its way, or lost by the reset
	}
	if p.last.Before(d.LastHeartbeat) || d.Heartbeats != p.pings {
		t.Errorf("%s after %v: %d heartbeats sent, the last at %v; server counted %d, the last at %v",
			d.ID, action, d.Heartbeats, d.LastHeartbeat, p.pings, p.last)
	}
}

func checkStats(t *testing.T, s fleet.Stats) {
	t.Helper()
	t.Logf("heartbeats %d, answers %d; RTT p50 %d µs p99 %d µs; lateness p50 %d µs p99 %d µs",
		s.Heartbeats, s.Answers, s.RTT.ValueAtQuantile(50), s.RTT.ValueAtQuantile(99),
		s.Lateness.ValueAtQuantile(50), s.Lateness.ValueAtQuantile(99))
	if s.Answers == 0 || s.Answers > s.Heartbeats || s.RTT.TotalCount() != int64(s.Answers) {
		t.Errorf("Stats() = %d heartbeats, %d answers, %d round trips", s.Heartbeats, s.Answers, s.RTT.TotalCount())
	}
	if s.Other != 0 || s.Blocked != 0 {
		t.Errorf("Stats() = %d other lines, %d blocked, want none", s.Other, s.Blocked)
	}
}
