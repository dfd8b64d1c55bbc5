package link_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/liveness"
)

// wrapped makes other connections of those that a function dials.
func wrapped(dial func(context.Context, string) (net.Conn, error), wrap func(net.Conn) net.Conn) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
}

// deaf is a connection that loses what comes while on is set.
type deaf struct {
	net.Conn

	on *atomic.Bool
}

func (d deaf) Read(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if err != nil || !d.on.Load() {
			return n, err
		}
	}
}

// leaves has an ear leave its judge.
func (l *listener) leaves() {
	l.fleet.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.Leave(ctx); err != nil {
		l.fleet.Errorf("Leave = %v", err)
	}
	synctest.Wait()
}

// names returns those of the judge's ears; a star marks one that drains.
func (n *node) names() (all []string) {
	synctest.Wait()
	for _, v := range n.judge.Views() {
		if v.Draining {
			v.Name += "*"
		}
		all = append(all, v.Name)
	}
	return all
}

func (n *node) wantEars(want ...string) {
	n.fleet.Helper()
	if got := n.names(); !slices.Equal(got, want) {
		n.fleet.Errorf("the ears are %q, want %q", got, want)
	}
}

// When an ear ends in order, a device that comes back at another has no event, one that does not is
// judged after its grace, and nobody else waits.
func TestDrain(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one, two := f.ear("one"), f.ear("two")
		defer one.stop()
		defer two.stop()
		f.wait(time.Second)
		h := liveness.Hello{Announced: liveness.Policy{Timeout: 6 * time.Second, Interval: 2 * time.Second}}
		open := func(e *listener, id string) *link.Session {
			s := e.Open(id, h, nil, f.now(), nil)
			f.wait(10 * time.Millisecond)
			return s
		}
		dies, comes, other := open(one, "dies"), open(one, "comes"), open(two, "other")
		open(two, "silent")
		a.want("dies:1 device.online", "comes:1 device.online", "silent:1 device.online", "other:1 device.online")
		f.beat(4*time.Second, dies, comes, other)
		one.Draining()
		a.wantEars("one*", "two")
		f.beat(time.Second, other)
		dies.Release(f.now())
		comes.Release(f.now())
		f.wait(10 * time.Millisecond)
		if dies.Beat(f.now()) || one.Sessions() != 0 {
			t.Errorf("a session that was released is open, %d are", one.Sessions())
		}
		one.leaves()
		a.wantEars("two")
		left := time.Now()
		f.beat(1100*time.Millisecond, other) // silent was heard 5 s before
		a.want("silent:2 device.offline silence")
		f.beat(10*time.Second, other)
		a.wantState("dies", liveness.Online)
		back := open(two, "comes")
		a.want()
		f.beat(5*time.Second, back, other)
		a.want("dies:2 device.offline silence")
		if v := a.wantState("dies", liveness.Offline); v.Since.Sub(left) > 14*time.Second {
			t.Errorf("it was judged %v after its ear had left, want its grace of 12s, and a little", v.Since.Sub(left))
		}
		f.beat(30*time.Second, back, other)
		a.want()
		for _, s := range a.registry.Sources() {
			if v := s.View(); v.Retired != (v.Name == "gateway/one") || len(v.Deaf) != 0 {
				t.Errorf("the source %s is retired: %v, and was deaf: %v", v.Name, v.Retired, v.Deaf)
			}
		}
	})
}

// An ear that was asked to drain is told again if its link breaks, and so is the judge that it drains,
// what it has released, and that it leaves.
func TestDrainIsToldAgain(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		var asked atomic.Int32
		var lost atomic.Bool
		two := f.ear("two")
		defer two.stop()
		one := f.ear("one", func(c *link.EarConfig) {
			c.Drain = func() { asked.Add(1) }
			c.Dial = wrapped(c.Dial, func(conn net.Conn) net.Conn { return mute{conn, &lost} })
		})
		defer one.stop()
		stays, _ := two.open("stays")
		s, p := one.open("d")
		f.wait(time.Second)
		if !a.judge.Drain("one") || a.judge.Drain("nobody") || a.judge.Remove("nobody") {
			t.Error("an ear is not known, or one that is not there is")
		}
		f.wait(100 * time.Millisecond)
		a.want("stays:1 device.online", "d:1 device.online")
		f.breakLinks(false)
		f.beat(2*time.Second, stays)
		if asked.Load() != 2 {
			t.Errorf("the ear was asked %d times, want once by each link", asked.Load())
		}
		one.Draining()
		a.wantEars("one*", "two")
		lost.Store(true) // what the ear says from now on
		s.Release(f.now())
		f.wait(300 * time.Millisecond)
		f.breakLinks(true)
		lost.Store(false)
		left := make(chan error, 1)
		go func() { left <- one.Leave(context.Background()) }()
		f.beat(time.Second, stays)
		f.breakLinks(false)
		f.beat(2*time.Second, stays)
		if err := <-left; err != nil {
			t.Errorf("Leave = %v", err)
		}
		a.wantEars("two")
		var o outcome
		one.Open("n", liveness.Hello{}, nil, f.now(), o.done)
		f.wait(10 * time.Millisecond)
		o.want(t, liveness.ErrBusy)
		for range 8 {
			f.beat(5*time.Second, stays)
		}
		p.want(t)
		a.want("d:2 device.offline silence")
		if one.lettings() != 0 || one.Ready() {
			t.Errorf("the ear let go %d times, and is ready: %v", one.lettings(), one.Ready())
		}
	})
}

// An ear whose judge has removed it, but that has not heard so, has left.
func TestLeftWithoutAnswer(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		var lost atomic.Bool
		one := f.ear("one", func(c *link.EarConfig) {
			c.Dial = wrapped(c.Dial, func(conn net.Conn) net.Conn { return deaf{conn, &lost} })
		})
		defer one.stop()
		f.wait(time.Second)
		lost.Store(true)
		left := make(chan error, 1)
		go func() { left <- one.Leave(context.Background()) }()
		f.wait(100 * time.Millisecond)
		a.wantEars()
		f.breakLinks(false)
		lost.Store(false)
		if err := <-left; err != nil {
			t.Errorf("Leave = %v", err)
		}
		f.wait(10 * time.Second)
		a.wantEars()
	})
}

// A judge that dies while an ear drains leaves the next one nothing to guess: it is told of what was
// released meanwhile, and that the ear leaves.
func TestDrainOutlivesJudge(t *testing.T) {
	inFailover(t, func(f *fleet, a *node, e *listener) {
		two := f.earOfBoth("two")
		defer two.stop()
		before, _ := e.open("before")
		after, _ := e.open("after")
		f.beat(20*time.Second, before, after)
		kept := a.checkpoint()
		f.beat(5*time.Second, before, after)
		e.Draining()
		before.Release(f.now())
		f.beat(time.Second, after)
		a.die()
		after.Release(f.now())
		f.wait(2 * time.Second)
		next := a.successor(kept, secondTerm)
		defer next.stop()
		f.wait(2 * time.Second)
		next.wantEars("one*", "two")
		e.leaves()
		next.wantEars("two")
		f.wait(15 * time.Second)
		next.want("before:1 device.online", "after:1 device.online")
		f.wait(20 * time.Second)
		if v := next.wantState("after", liveness.Offline); v.LastSeen.Before(time.Now().Add(-45 * time.Second)) {
			t.Errorf("it was heard last %v ago, want the last heartbeat at its ear", time.Since(v.LastSeen))
		}
		f.wait(time.Minute)
		next.want("before:2 device.offline silence", "after:2 device.offline silence")
	})
}

// An ear that cannot tell a judge that it leaves says so.
func TestLeaveWithoutJudge(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		alone := f.ear("alone", func(c *link.EarConfig) { c.Judges = []string{"nowhere"} })
		defer alone.stop()
		f.wait(time.Second)
		if err := alone.Leave(context.Background()); err == nil {
			t.Error("Leave of an ear that never had a judge = nil")
		}
		one := f.ear("one")
		defer one.stop()
		f.wait(time.Second)
		f.breakLinks(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := one.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Leave with a context that ends = %v", err)
		}
		two := f.ear("two", func(c *link.EarConfig) { c.Dial = f.dial("one") })
		defer two.stop()
		f.breakLinks(false)
		f.wait(time.Second)
		f.breakLinks(true)
		began := time.Now()
		if err := two.Leave(context.Background()); err == nil || time.Since(began) > 3*time.Second {
			t.Errorf("Leave without a link = %v after %v", err, time.Since(began))
		}
	})
}

// An ear that is removed by hand lets go of its connections, and comes back as another incarnation.
func TestRemove(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one := f.ear("one")
		defer one.stop()
		s, _ := one.open("d")
		f.wait(time.Second)
		if !a.judge.Remove("one") {
			t.Error("Remove = false")
		}
		f.wait(time.Second)
		if one.lettings() != 1 || s.Beat(f.now()) || one.Sessions() != 0 {
			t.Errorf("the ear let go %d times, and has %d sessions", one.lettings(), one.Sessions())
		}
		a.wantEars("one")
		a.wantState("d", liveness.Unknown)
		again, _ := one.open("d")
		f.beat(time.Minute, again)
		a.want("d:1 device.online")
	})
}

// The judge releases what an ear has left open, and goes on without it at once.
func TestLeaveWithSessions(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one, two := f.ear("one"), f.ear("two")
		defer one.stop()
		defer two.stop()
		one.open("d")
		one.leaves()
		if v := a.wantState("d", liveness.Online); v.Connected || !v.Released {
			t.Errorf("%+v", v)
		}
		f.wait(time.Minute)
		a.want("d:1 device.online", "d:2 device.offline silence")
	})
}
