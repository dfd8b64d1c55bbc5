package liveness_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/liveness"
)

// The end of a connection that is heard after a cut counts after the close grace, whatever the reconnect grace; nothing else is told of the
// device before, and what puts its verdict off is what it says. One that a retained message tells of may be from before, and a cut or a
// stall that comes after the end, or a stall before it, leaves the device its time.
func TestEndAfterGap(t *testing.T) {
	const online, offline = "a:1 device.online at 1 seen 1 due 31 silent 0", "a:2 device.offline will at "
	cut := func(r *rig) { r.cut(unit) }
	for _, tt := range []struct {
		name     string
		retained bool
		before   func(r *rig) // the signal
		after    func(r *rig)
		state    liveness.State // after it
		want     string         // the verdict
	}{
		{"no gap", false, func(*rig) {}, func(*rig) {}, liveness.Online, offline + "4 seen 1 due 4 silent 3"},
		{"cut", false, cut, func(*rig) {}, liveness.Unknown, offline + "5 seen 1 due 5 silent 3"},
		{"cut, after the end", false, func(*rig) {}, cut, liveness.Unknown, offline + "13 seen 1 due 13 silent 11"},
		{"cut, retained", true, cut, func(*rig) {}, liveness.Unknown, offline + "13 seen 1 due 13 silent 11"},
		{"cut twice", false, cut, cut, liveness.Unknown, offline + "14 seen 1 due 14 silent 11"},
		{"cut, and retained later", false, cut, func(r *rig) {
			if _, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Disconnected, At: r.now(), Reason: liveness.Will, Retained: true}); err != nil {
				r.Fatal(err)
			}
		}, liveness.Unknown, offline + "5 seen 1 due 5 silent 3"},
		{"stall", false, func(r *rig) { r.deafen(5 * unit) }, func(*rig) {}, liveness.Online, offline + "12 seen 1 due 12 silent 6"},
		{"cut, stall after it", false, cut, func(r *rig) { r.deafen(5 * unit) }, liveness.Unknown, offline + "13 seen 1 due 13 silent 6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policy := liveness.Policy{Timeout: 30 * unit, Interval: unit, CloseGrace: 3 * unit}
			inRig(t, liveness.Config{Policy: policy}, liveness.SourceConfig{ReconnectGrace: 10 * unit}, func(r *rig) {
				r.listen(unit)
				if _, err := r.source.Apply("a", liveness.Signal{At: r.now()}); err != nil {
					t.Fatal(err)
				}
				r.want(online)
				tt.before(r)
				if _, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Disconnected, At: r.now(), Reason: liveness.Will, Retained: tt.retained}); err != nil {
					t.Fatal(err)
				}
				tt.after(r)
				r.wantState("a", tt.state)
				v := r.device("a")
				if waits := strings.Contains(tt.want, "silent 11") || strings.Contains(tt.want, "silent 6"); v.Closing != liveness.Will || (v.NotBefore != 0) != waits || (v.Grace != 0) != waits {
					t.Errorf("a device that waits for the end of the gap (%v) is %+v", waits, v)
				}
				for range 200 {
					r.listen(step)
					if r.device("a").State == liveness.Offline {
						break
					}
				}
				for _, e := range r.events() {
					if e.Subject != "a" {
						continue
					}
					if got := r.line(&e); got != tt.want {
						t.Errorf("got  %s\nwant %s", got, tt.want)
					}
					if !e.Deadline.Equal(v.Deadline) {
						t.Errorf("the deadline was %v before, and %v after", r.units(v.Deadline), r.units(e.Deadline))
					}
				}
			})
		})
	}
}

// A device that is heard again after such an end has none of it left.
func TestBackAfterEnd(t *testing.T) {
	inRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, CloseGrace: 3 * unit}}, liveness.SourceConfig{}, func(r *rig) {
		apply := func(sig liveness.Signal) {
			t.Helper()
			sig.At = r.now()
			if _, err := r.source.Apply("a", sig); err != nil {
				t.Fatal(err)
			}
		}
		r.listen(unit)
		apply(liveness.Signal{})
		r.cut(unit)
		apply(liveness.Signal{Kind: liveness.Disconnected, Reason: liveness.Will})
		r.listen(2 * unit)
		apply(liveness.Signal{})
		r.listen(20 * unit)
		r.wantState("a", liveness.Online)
		if v := r.device("a"); v.Closing != liveness.NoReason || v.NotBefore != 0 {
			t.Errorf("the device is %+v", v)
		}
	})
}
