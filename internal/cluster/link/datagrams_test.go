package link_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/liveness"
)

// inDatagrams runs a test with a judge, and two ears that hear devices without connections.
func inDatagrams(t *testing.T, f func(f *fleet, a *node, one, two *listener)) {
	t.Helper()
	inFleet(t, func(f0 *fleet, a *node) {
		one, two := f0.ear("one", hearsDatagrams), f0.ear("two", hearsDatagrams)
		defer one.stop()
		defer two.stop()
		f0.wait(time.Second)
		f(f0, a, one, two)
	})
}

// speaks opens the session of a device without a connection, and waits for the answer. It is expected
// every 20 s.
func (l *listener) speaks(id string) (*link.Session, *far) {
	l.fleet.Helper()
	var o outcome
	p := &far{}
	h := liveness.Hello{Announced: liveness.Policy{Timeout: 30 * time.Second, Interval: 20 * time.Second}}
	s := l.OpenDatagrams(id, h, p, l.fleet.now(), o.done)
	l.fleet.wait(10 * time.Millisecond)
	o.want(l.fleet, nil)
	return s, p
}

// slow is a connection on which what comes takes a while.
type slow struct{ net.Conn }

func (s slow) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	time.Sleep(20 * time.Millisecond)
	return n, err
}

// A device without a connection may send to any ear: that is no event, and its session has one epoch.
// Each ear has a source for such devices.
func TestDatagramsWander(t *testing.T) {
	inDatagrams(t, func(f *fleet, a *node, one, two *listener) {
		first, p := one.speaks("d")
		f.beat(time.Second, first)
		second, _ := two.speaks("d")
		p.want(t, "replaced")
		if first.Epoch() != 1 || second.Epoch() != 1 || first.Beat(f.now()) || !second.Beat(f.now()) {
			t.Errorf("epochs %d and %d", first.Epoch(), second.Epoch())
		}
		f.wait(time.Second)
		if v := a.wantState("d", liveness.Online); v.Source != "gateway-udp/two" {
			t.Errorf("the source is %s", v.Source)
		}
		third, _ := one.speaks("d")
		third.Bye(f.now(), nil)
		f.wait(time.Second)
		a.want("d:1 device.online", "d:2 device.offline bye")
	})
}

// A heartbeat that an ear has read counts, also if the session is elsewhere by the time that it is told.
func TestDatagramIsToldLate(t *testing.T) {
	inDatagrams(t, func(f *fleet, a *node, one, two *listener) {
		early, _ := one.speaks("early")
		late, p := one.speaks("late")
		f.wait(2 * time.Second)
		began := f.now()
		f.breakLinks(true) // those of one
		f.wait(100 * time.Millisecond)
		early.Beat(f.now())
		two.speaks("early")
		f.wait(500 * time.Millisecond)
		two.speaks("late")
		f.wait(500 * time.Millisecond)
		heard := f.now()
		late.Beat(heard)
		f.breakLinks(false)
		f.wait(1500 * time.Millisecond)
		p.want(t, "replaced")
		v := a.wantState("late", liveness.Online)
		if at := v.LastSeen.Sub(f.start) + time.Hour; (at-heard).Abs() > 20*time.Millisecond || v.Source != "gateway-udp/two" {
			t.Errorf("heard by %s at %v, want at %v", v.Source, at-began, heard-began)
		}
		if at := a.wantState("early", liveness.Online).LastSeen.Sub(f.start) + time.Hour; (at - heard + time.Second).Abs() > 50*time.Millisecond {
			t.Errorf("the other was heard %v before", heard-at)
		}
		if !late.Ended() || one.Sessions() != 0 {
			t.Errorf("the ear has %d sessions", one.Sessions())
		}
		a.want("early:1 device.online", "late:1 device.online")
	})
}

// What comes in the moment in which the session is replaced counts, too, and so does what the judge is
// asked then.
func TestDatagramMeetsReplacement(t *testing.T) {
	inDatagrams(t, func(f *fleet, a *node, _, two *listener) {
		far := f.ear("far", hearsDatagrams, func(c *link.EarConfig) {
			c.Dial = wrapped(f.dial("far"), func(c net.Conn) net.Conn { return slow{c} })
		})
		defer far.stop()
		f.wait(time.Second)
		s := far.OpenDatagrams("d", liveness.Hello{}, nil, f.now(), nil)
		asks := far.OpenDatagrams("asks", liveness.Hello{}, nil, f.now(), nil)
		f.wait(time.Second)
		two.OpenDatagrams("d", liveness.Hello{}, nil, f.now(), nil)
		two.OpenDatagrams("asks", liveness.Hello{}, nil, f.now(), nil)
		f.wait(5 * time.Millisecond)
		heard := f.now()
		if !s.Beat(heard) {
			t.Fatal("the ear knows already")
		}
		var o outcome
		asks.Sleep(heard, time.Hour, o.done)
		f.wait(time.Second)
		o.want(t, liveness.ErrReplaced)
		for _, id := range []string{"d", "asks"} {
			v := a.wantState(id, liveness.Online)
			if at := v.LastSeen.Sub(f.start) + time.Hour; (at-heard).Abs() > 2*time.Millisecond || v.Source != "gateway-udp/two" {
				t.Errorf("%s was heard by %s, %v too late", id, v.Source, at-heard)
			}
		}
	})
}

// While an ear loses datagrams, its devices are unknown, and nobody is judged who may have sent to it.
// Devices with connections are judged as ever. Afterwards each device has its grace.
func TestDatagramsAreLost(t *testing.T) {
	inDatagrams(t, func(f *fleet, a *node, one, two *listener) {
		one.speaks("here")
		two.speaks("there")
		one.open("connected")
		f.wait(25 * time.Second)
		one.lose(true)
		f.wait(10 * time.Second)
		a.wantState("here", liveness.Unknown)
		a.wantState("there", liveness.Online)
		a.want("here:1 device.online", "there:1 device.online", "connected:1 device.online", "connected:2 device.offline silence")
		one.lose(false)
		f.wait(29 * time.Second)
		a.want()
		f.wait(2 * time.Second)
		a.want("here:2 device.offline silence", "there:2 device.offline silence")
	})
}

// What was lost while the link was broken, or before a new judge was there, is known afterwards.
func TestDatagramsAreLostMeanwhile(t *testing.T) {
	inDatagrams(t, func(f *fleet, a *node, one, two *listener) {
		one.speaks("d")
		f.wait(25 * time.Second)
		f.breakLinks(true)
		one.lose(true)
		f.wait(time.Second)
		one.lose(false)
		f.breakLinks(false)
		f.wait(10 * time.Second)
		a.wantState("d", liveness.Unknown)
		kept := a.checkpoint()
		one.lose(true)
		f.wait(time.Second)
		one.lose(false)
		a.die()
		f.wait(time.Second)
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.wait(25 * time.Second)
		a.wantState("d", liveness.Unknown)
		a.want("d:1 device.online")
		f.wait(60 * time.Second)
		a.want("d:2 device.offline silence")
	})
}

// A device whose ear lives through the death of a judge has the silence that it had. It may have been heard
// by another one, of which only the judge knew: so it has its grace.
func TestDatagramsOutlive(t *testing.T) {
	inDatagrams(t, func(f *fleet, a *node, one, two *listener) {
		lives, p := one.speaks("lives")
		one.speaks("dying")
		f.wait(20 * time.Second)
		lives.Beat(f.now())
		f.wait(time.Second)
		kept := a.checkpoint()
		a.die()
		f.wait(time.Second)
		lives.Beat(f.now())
		a = a.successor(kept, secondTerm)
		defer a.stop()
		f.wait(5 * time.Second)
		a.wantState("lives", liveness.Online)
		a.want("lives:1 device.online", "dying:1 device.online")
		lives.Beat(f.now())
		f.wait(4 * time.Second)
		if v := a.wantState("dying", liveness.Online); v.HeardSilence < 31*time.Second {
			t.Errorf("silent for %v", v.HeardSilence)
		}
		lives.Beat(f.now())
		f.wait(19 * time.Second)
		a.want()
		lives.Beat(f.now())
		f.wait(5 * time.Second)
		a.want("dying:2 device.offline silence")
		p.want(t)
	})
}

// An ear that did not say how its datagrams pass cannot have devices that send them.
func TestNoDatagrams(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		e := f.ear("one")
		defer e.stop()
		f.wait(time.Second)
		var o outcome
		s := e.OpenDatagrams("d", liveness.Hello{}, nil, f.now(), o.done)
		synctest.Wait()
		if o.calls != 1 || o.err == nil || errors.Is(o.err, liveness.ErrBusy) || !s.Ended() {
			t.Errorf("done was called %d times, with %v", o.calls, o.err)
		}
	})
}
