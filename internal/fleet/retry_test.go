//go:build linux

package fleet_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/fleet"
)

// count returns how many steps of a device have an action, and its last step.
func count(d fleet.Device, a fleet.Action) (n int, last fleet.Step) {
	for _, s := range d.Steps {
		if s.Action == a {
			n++
			last = s
		}
	}
	return n, last
}

// Devices that are dropped come back by themselves, also when the gateway refuses them for a while; one that was ordered to stop does not.
func TestDialsAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var denied atomic.Bool
	s := newLineServer(t, time.Minute, func(string) bool { return denied.Load() })
	f, err := fleet.New(fleet.Config{
		Addr: s.addr(), Devices: 20, TTL: time.Minute, Interval: 100 * time.Millisecond,
		RetryMin: 5 * time.Millisecond, RetryMax: 40 * time.Millisecond, Seed: 1, Journal: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := f.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f.Run(running) }()
	for device, action := range []fleet.Action{fleet.Silent, fleet.Close, fleet.Reset, fleet.Bye} {
		if err := f.Do(device, action, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(ctx, t, "the orders", func() bool { return len(f.Truth()[3].Steps) > 0 })
	denied.Store(true)
	s.hang(true)
	waitFor(ctx, t, "refusals", func() bool {
		n, step := count(f.Truth()[19], fleet.Reconnect)
		return n == 1 && strings.Contains(step.Err, "not welcome")
	})
	denied.Store(false)
	all := func() bool {
		for _, d := range f.Truth()[4:] {
			if d.State != fleet.ConnOpen || d.Epoch < 2 {
				return false
			}
		}
		return true
	}
	waitFor(ctx, t, "all to be back", all)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	truth := f.Truth()
	for i, d := range truth {
		dropped, _ := count(d, fleet.Dropped)
		back, step := count(d, fleet.Reconnect)
		if i < 4 && (dropped != 0 || back != 0 || d.State == fleet.ConnOpen) {
			t.Errorf("%s was ordered to stop: %v, %+v", d.ID, d.State, d.Steps)
		}
		if i >= 4 && (dropped != 1 || back != 1 || step.Err != "" || step.Hello.IsZero()) {
			t.Errorf("%s was dropped: %v, %+v", d.ID, d.State, d.Steps)
		}
		checkJournal(t, d)
	}
}

// checkJournal checks that a journal has the greetings and the heartbeats, in order.
func checkJournal(t *testing.T, d fleet.Device) {
	t.Helper()
	var greetings, beats uint64
	var last int64
	for _, s := range d.Signs {
		if s.Granted != 0 {
			greetings++
		} else {
			beats++
		}
		if s.At < last || (s.Granted != 0 && s.Granted < s.At) {
			t.Errorf("%s: sign %+v after %d", d.ID, s, last)
		}
		last = s.At
	}
	if greetings != d.Epoch || beats != d.Heartbeats || last != d.LastHeartbeat.UnixNano() {
		t.Errorf("%s: %d greetings, %d heartbeats in the journal, last %d; want %d, %d, %d",
			d.ID, greetings, beats, last, d.Epoch, d.Heartbeats, d.LastHeartbeat.UnixNano())
	}
}

// Orders to a device that waits before it dials again.
func TestOrdersWhileWaiting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := newLineServer(t, time.Minute, nil)
	f, err := fleet.New(fleet.Config{
		Addr: s.addr(), Devices: 3, TTL: time.Minute, RetryMin: time.Hour, RetryMax: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := f.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f.Run(running) }()
	s.hang(true)
	waitFor(ctx, t, "the drops", func() bool {
		for _, d := range f.Truth() {
			if len(d.Steps) < 2 {
				return false
			}
		}
		return true
	})
	for device, action := range []fleet.Action{fleet.Close, fleet.Reconnect, fleet.Silent} {
		if err := f.Do(device, action, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Do(2, fleet.Reconnect, time.Time{}); err != nil { // it gave up: now it may
		t.Fatal(err)
	}
	waitFor(ctx, t, "the return", func() bool { return f.Truth()[2].Epoch == 2 })
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	truth := f.Truth()
	for i, want := range []string{"no open connection", "dial again by itself", ""} {
		if got := truth[i].Steps[2]; !strings.Contains(got.Err, want) || (want == "") != (got.Err == "") {
			t.Errorf("%v of a device that waits: %q, want %q", got.Action, got.Err, want)
		}
	}
}
