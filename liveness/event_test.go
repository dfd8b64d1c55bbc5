package liveness_test

import (
	"testing"

	"github.com/holter-iot/holter/liveness"
)

// No two events have one id, whatever their subjects are called.
func TestEventID(t *testing.T) {
	tests := []struct {
		kind    liveness.Type
		subject string
		want    string
	}{
		{liveness.DeviceOnline, "pump", "pump:7"},
		{liveness.DeviceOffline, "a/b:3", "a/b:3:7"},
		{liveness.SourceDeaf, "edge", "source/edge:7"},
		{liveness.SourceHeard, "edge/2", "source/edge/2:7"},
		{liveness.GroupOutageStarted, "edge", "group/edge:7"},
		{liveness.GroupOutageEnded, "source/edge", "group/source/edge:7"},
		{liveness.DeviceLate, "source/edge", "device/source/edge:7"},
		{liveness.DeviceLate, "group/edge", "device/group/edge:7"},
		{liveness.DeviceLate, "device/source/edge", "device/device/source/edge:7"},
		{liveness.DeviceLate, "sources/edge", "sources/edge:7"},
	}
	seen := make(map[string]bool)
	for _, tt := range tests {
		e := liveness.Event{Type: tt.kind, Subject: tt.subject, Seq: 7}
		if got := e.ID(); got != tt.want || seen[got] {
			t.Errorf("ID of %v of %q = %q, want %q, and no other", tt.kind, tt.subject, got, tt.want)
		}
		seen[e.ID()] = true
	}
}

func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	check := func(name string, ok bool) {
		t.Helper()
		if seen[name] || (name != "invalid") != ok {
			t.Errorf("name %q", name)
		}
		if ok {
			seen[name] = true
		}
	}
	for i := liveness.DeviceOnline; i <= liveness.GroupOutageEnded+1; i++ {
		check(i.String(), i <= liveness.GroupOutageEnded)
	}
	for i := liveness.NeverSeen; i <= liveness.Pending+1; i++ {
		check(i.String(), i <= liveness.Pending)
	}
	for i := liveness.NoReason; i <= liveness.Reported+1; i++ {
		check(i.String(), i <= liveness.Reported)
	}
}

// What an event tells of the state is what is listed.
func TestStateAfter(t *testing.T) {
	states := map[liveness.Type]liveness.State{
		liveness.DeviceOnline: liveness.Online, liveness.DeviceLate: liveness.Late, liveness.DeviceOffline: liveness.Offline,
		liveness.DeviceSleeping: liveness.Sleeping, liveness.DeviceForgotten: liveness.NeverSeen,
	}
	for kind := liveness.DeviceOnline; kind <= liveness.GroupOutageEnded; kind++ {
		want, told := states[kind]
		if got, ok := kind.StateAfter(); got != want || ok != told {
			t.Errorf("StateAfter(%v) = %v, %v, want %v, %v", kind, got, ok, want, told)
		}
	}
}
