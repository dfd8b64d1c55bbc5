package link_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// What an ear heard while the judge did not listen to it counts from when it was heard, and not from
// as long before the judge ceased to listen.
func TestHeardInAnOutage(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		ear := f.ear("one")
		defer ear.stop()
		f.wait(100 * time.Millisecond)
		ear.open("d1")
		f.wait(time.Minute)
		f.breakLinks(true)
		f.wait(20 * time.Second)
		heard, now := f.now(), time.Now()
		var o outcome
		ear.Open("d2", liveness.Hello{}, &far{}, heard, o.done)
		f.wait(3 * time.Second)
		f.breakLinks(false)
		f.wait(1500 * time.Millisecond)
		o.want(t, nil)
		v, err := a.registry.Device("d2")
		if err != nil || v.LastSeen.Before(now.Add(-200*time.Millisecond)) || v.LastSeen.After(now.Add(5*time.Second)) {
			t.Errorf("last seen at %v, which is %v after its hello, %v", v.LastSeen, v.LastSeen.Sub(now), err)
		}
	})
}
