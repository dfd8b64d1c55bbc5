package link_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// A device may say hello again: its session goes on with another epoch and policy, and an epoch that
// is too low changes nothing.
func TestReopen(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, p := e.open("d")
		hello := func(epoch uint64) *outcome {
			o := &outcome{}
			s.Reopen(f.now(), liveness.Hello{Epoch: epoch, Announced: liveness.Policy{Timeout: 10 * time.Second, Interval: 2 * time.Second}}, o.done)
			f.wait(10 * time.Millisecond)
			return o
		}
		again := hello(7)
		if w := again.want(t, nil); w.Epoch != 7 || w.Policy.Timeout != 10*time.Second || s.Epoch() != 7 {
			t.Errorf("welcome %+v, epoch %d", w, s.Epoch())
		}
		stale := hello(6)
		stale.want(t, liveness.ErrStaleEpoch)
		if views := a.judge.Views(); views[0].Sessions != 1 || e.Stats().Sessions != 1 {
			t.Errorf("%+v and %+v, want a session", views, e.Stats())
		}
		f.beat(30*time.Second, s)
		if v := a.wantState("d", liveness.Online); !v.Connected || v.Epoch != 7 {
			t.Errorf("view %+v", v)
		}
		p.want(t)
		f.wait(11 * time.Second)
		a.want("d:1 device.online", "d:2 device.changed", "d:3 device.offline silence")
		if st := e.Stats(); !st.Ready || st.Joins != 1 || st.Unanswered != 0 {
			t.Errorf("Stats = %+v", st)
		}
	})
}
