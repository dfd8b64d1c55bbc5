package link_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// mute is a connection that loses what is written while on is set.
type mute struct {
	net.Conn

	on *atomic.Bool
}

func (m mute) Write(p []byte) (int, error) {
	if m.on.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

// The end of a session that the judge does not hear of, because the link breaks, is told again.
func TestEndsAreToldAgain(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		var lost atomic.Bool
		e := f.ear("one", func(c *link.EarConfig) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				conn, err := dial(ctx, address)
				return mute{conn, &lost}, err
			}
		})
		defer e.stop()
		closed, _ := e.open("closed")
		gone, _ := e.open("gone")
		stays, _ := e.open("stays")
		f.beat(5*time.Second, stays)
		a.want("closed:1 device.online", "gone:1 device.online", "stays:1 device.online")
		lost.Store(true)
		closed.Beat(f.now())
		heard := time.Now()
		f.wait(300 * time.Millisecond)
		closed.Close(f.now(), liveness.Protocol)
		var o outcome
		gone.Bye(f.now(), o.done)
		f.wait(300 * time.Millisecond)
		f.breakLinks(true)
		lost.Store(false)
		f.breakLinks(false)
		f.beat(1500*time.Millisecond, stays)
		o.want(t, liveness.ErrBusy)
		a.want("gone:2 device.offline bye")
		f.beat(20*time.Second, stays)
		a.want("closed:2 device.offline protocol")
		if v := a.wantState("closed", liveness.Offline); v.LastSeen.Before(heard) {
			t.Errorf("last seen %v before its last heartbeat", heard.Sub(v.LastSeen))
		}
		if n := e.Sessions(); n != 1 {
			t.Errorf("the ear has %d sessions, want 1", n)
		}
	})
}

// A goodbye that is told again, because the judge read it after the link broke, causes no event.
func TestByeToldTwice(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		e.holdPasses(true) // no mark confirms anything
		gone, _ := e.open("gone")
		asleep, _ := e.open("asleep")
		asleep.Sleep(f.now(), time.Hour, nil)
		f.wait(100 * time.Millisecond)
		gone.Bye(f.now(), nil)
		f.wait(100 * time.Millisecond)
		a.want("gone:1 device.online", "asleep:1 device.online", "asleep:2 device.sleeping", "gone:2 device.offline bye")
		f.breakLinks(true)
		f.wait(1200 * time.Millisecond)
		asleep.Bye(f.now(), nil)
		f.breakLinks(false)
		f.wait(1500 * time.Millisecond)
		a.want("asleep:3 device.offline bye")
		e.holdPasses(false)
		f.wait(time.Second)
		a.want()
		if n := e.Sessions(); n != 0 {
			t.Errorf("the ear has %d sessions, want none", n)
		}
	})
}

// A link that breaks causes no event, and what sleeps or is offline stays so.
func TestLinkCut(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, p := e.open("d")
		sleeper, _ := e.open("sleeps")
		var o outcome
		sleeper.Sleep(f.now(), time.Hour, o.done)
		judged, jp := e.open("judged")
		closed, _ := e.open("closed")
		for range 31 {
			f.beat(time.Second, s, closed)
		}
		jp.want(t, "judged")
		a.want("d:1 device.online", "sleeps:1 device.online", "sleeps:2 device.sleeping", "judged:1 device.online", "closed:1 device.online", "judged:2 device.offline silence")
		for range 3 {
			f.breakLinks(true)
			f.beat(time.Second, s)
			f.breakLinks(false)
			f.wait(1500 * time.Millisecond)
			a.wantState("d", liveness.Online) // also before it is heard again
			a.wantState("sleeps", liveness.Sleeping)
			a.wantState("judged", liveness.Offline)
			f.beat(4*time.Second, s, closed)
		}
		a.want()
		p.want(t)
		if v := a.registry.Sources(); len(v) != 1 || len(v[0].View().Deaf) != 0 {
			t.Error("the source was deaf")
		}
		v := a.wantState("d", liveness.Online)
		if !v.Connected || v.Epoch != 1 || e.lettings() != 0 {
			t.Errorf("view %+v, let go %d times", v, e.lettings())
		}
		a.wantState("sleeps", liveness.Sleeping)
		f.breakLinks(true)
		f.beat(time.Second, s)
		closed.Close(f.now(), liveness.Closed)
		f.breakLinks(false)
		f.beat(5*time.Second, s, sleeper, judged)
		a.want("sleeps:3 device.online", "judged:3 device.online")
		f.beat(20*time.Second, s, sleeper, judged)
		a.want("closed:2 device.offline closed")
		f.beat(time.Minute, s, sleeper, judged)
		a.want()
		if n := a.judge.Views()[0].Sessions; n != 3 {
			t.Errorf("%d sessions at the judge", n)
		}
	})
}

// A device that came back elsewhere while the link was lost is replaced when it is resumed.
func TestResumeStale(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one, two := f.ear("one"), f.ear("two")
		defer one.stop()
		defer two.stop()
		s, p := one.open("d")
		numbered, np := one.open("n")
		f.breakLinks(true)
		f.wait(100 * time.Millisecond)
		again, _ := two.open("d")
		var o outcome
		same := two.Open("n", liveness.Hello{Epoch: 1}, nil, f.now(), o.done)
		f.wait(100 * time.Millisecond)
		f.breakLinks(false)
		f.beat(5*time.Second, again, same)
		p.want(t, "replaced")
		np.want(t, "replaced")
		if s.Beat(f.now()) || numbered.Beat(f.now()) {
			t.Error("Beat = true on a session that was replaced")
		}
		f.beat(time.Minute, again, same)
		a.wantState("d", liveness.Online)
		a.want("d:1 device.online", "n:1 device.online", "d:2 device.session_replaced", "n:2 device.session_replaced")
	})
}

// What is asked without a link waits for the next, or fails.
func TestAskWithoutLink(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, _ := e.open("d")
		f.breakLinks(true)
		f.wait(100 * time.Millisecond)
		var opened, fail, late outcome
		e.Open("n", liveness.Hello{}, nil, f.now(), opened.done)
		s.Fail(f.now(), "x", fail.done)
		f.wait(time.Second)
		opened.wantNone(t)
		fail.wantNone(t)
		f.breakLinks(false)
		f.wait(2 * time.Second)
		opened.want(t, nil)
		fail.want(t, nil)
		a.want("d:1 device.online", "d:2 device.failed", "n:1 device.online")
		f.breakLinks(true)
		f.wait(3 * time.Second)
		if e.lettings() != 1 || e.Ready() {
			t.Errorf("let go %d times, ready %v", e.lettings(), e.Ready())
		}
		e.Open("l", liveness.Hello{}, nil, f.now(), late.done)
		f.wait(4900 * time.Millisecond)
		late.wantNone(t)
		f.wait(200 * time.Millisecond)
		late.want(t, liveness.ErrBusy)
		if e.Sessions() != 0 {
			t.Errorf("%d sessions", e.Sessions())
		}
	})
}

// An ear that is cut off lets go before the judge gives its devices to others.
func TestFence(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e, two := f.ear("one"), f.ear("two")
		defer e.stop()
		defer two.stop()
		s, _ := e.open("d")
		f.wait(time.Second)
		s.Beat(f.now())
		f.wait(time.Second)
		f.breakLinks(true)
		f.wait(2500 * time.Millisecond)
		if e.lettings() != 0 || !e.Ready() || !s.Beat(f.now()) {
			t.Errorf("let go %d times, ready %v", e.lettings(), e.Ready())
		}
		f.wait(300 * time.Millisecond)
		if e.lettings() != 1 || e.Ready() || s.Beat(f.now()) || e.Sessions() != 0 {
			t.Errorf("let go %d times, ready %v, %d sessions", e.lettings(), e.Ready(), e.Sessions())
		}
		f.breakLinks(false)
		f.wait(3 * time.Second)
		if !e.Ready() || e.lettings() != 1 {
			t.Errorf("ready %v, let go %d times", e.Ready(), e.lettings())
		}
		again, _ := e.open("d")
		f.beat(time.Minute, again)
		a.want("d:1 device.online")
	})
}

// wire is a hand-made ear.
type wire struct {
	*fleet

	linkpb.Link_JoinClient

	conn *grpc.ClientConn
	stop context.CancelFunc
}

func (f *fleet) wire() *wire {
	f.Helper()
	dial := f.dial("wire")
	conn, err := grpc.NewClient("passthrough:///a", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, address) }))
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := linkpb.NewLinkClient(conn).Join(ctx)
	if err != nil {
		f.Fatal(err)
	}
	return &wire{fleet: f, Link_JoinClient: s, conn: conn, stop: cancel}
}

func (w *wire) close() {
	w.stop()
	_ = w.conn.Close()
}

func (w *wire) say(frames ...*linkpb.EarFrame) {
	w.Helper()
	if err := w.Send(&linkpb.FromEar{Frames: frames}); err != nil {
		w.Fatal(err)
	}
}

// end reads until the stream ends, and returns why.
func (w *wire) end() error {
	for {
		if _, err := w.Recv(); err != nil {
			return err
		}
	}
}

func join(j *linkpb.Join) *linkpb.EarFrame {
	return &linkpb.EarFrame{Body: &linkpb.EarFrame_Join{Join: j}}
}

func ask(a *linkpb.Ask) *linkpb.EarFrame { return &linkpb.EarFrame{Body: &linkpb.EarFrame_Ask{Ask: a}} }

func opening(gen uint32, id string) *linkpb.EarFrame {
	return ask(&linkpb.Ask{Gen: gen, Call: 1, What: &linkpb.Ask_Open{Open: &linkpb.Open{Id: id}}})
}

// An ear that says nothing is removed after 3 s, and must come back as another.
func TestSilentEar(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		w := f.wire()
		defer w.close()
		w.say(join(&linkpb.Join{Wire: 1, Name: "one", Incarnation: 1}))
		w.say(opening(1, "d"))
		f.wait(2900 * time.Millisecond)
		if n := len(a.judge.Views()); n != 1 {
			t.Fatalf("%d ears", n)
		}
		f.wait(300 * time.Millisecond)
		if n := len(a.judge.Views()); n != 0 {
			t.Errorf("%d ears", n)
		}
		if err := w.end(); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the stream ended with %v", err)
		}
		v := a.wantState("d", liveness.Unknown)
		if v.Connected {
			t.Error("still connected")
		}
		again := f.wire()
		defer again.close()
		again.say(join(&linkpb.Join{Wire: 1, Name: "one", Incarnation: 1}))
		if err := again.end(); status.Code(err) != codes.Aborted {
			t.Errorf("the stream ended with %v", err)
		}
		a.want("d:1 device.online")
	})
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		join *linkpb.Join
		want codes.Code
	}{
		{"wire", &linkpb.Join{Name: "x"}, codes.Unimplemented},
		{"fleet", &linkpb.Join{Wire: 1, Name: "x", Fleet: "g"}, codes.PermissionDenied},
		{"name", &linkpb.Join{Wire: 1, Name: "one", Incarnation: 7}, codes.AlreadyExists},
		{"no name", &linkpb.Join{Wire: 1}, codes.InvalidArgument},
		{"bad name", &linkpb.Join{Wire: 1, Name: "x "}, codes.InvalidArgument},
		{"term", &linkpb.Join{Wire: 1, Name: "x", Term: 9}, codes.FailedPrecondition},
		{"nothing", nil, codes.InvalidArgument},
	}
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		f.wait(time.Second)
		for _, tt := range tests {
			w := f.wire()
			if tt.join == nil {
				w.say()
			} else {
				w.say(join(tt.join))
			}
			if err := w.end(); status.Code(err) != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
			w.close()
		}
		if n := len(a.judge.Views()); n != 1 {
			t.Errorf("%d ears", n)
		}
	})
}

// Two sides speak the lesser of their versions, unless one of them knows that no more.
func TestVersions(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		w := f.wire()
		defer w.close()
		w.say(join(&linkpb.Join{Wire: 9, Name: "later", Incarnation: 1}))
		m, err := w.Recv()
		if err != nil || m.GetFrames()[0].GetJoined().GetWire() != 1 {
			t.Errorf("an ear that knows version 9 is told %v, %v", m, err)
		}
		for version, want := range []bool{false, true, false} {
			l := bufconn.Listen(1 << 16)
			server := grpc.NewServer()
			linkpb.RegisterLinkServer(server, speaker{version: uint32(version)})
			go func() { _ = server.Serve(l) }()
			name := fmt.Sprintf("version%d", version)
			f.mu.Lock()
			f.nodes[name] = &node{listener: l}
			f.mu.Unlock()
			e := f.ear(name, func(c *link.EarConfig) { c.Judges = []string{name} })
			f.wait(time.Second)
			if e.Ready() != want {
				t.Errorf("a judge that speaks version %d: joined: %v, want %v", version, e.Ready(), want)
			}
			e.stop()
			server.Stop()
		}
	})
}

// speaker is a judge that says only what version of the frames it speaks.
type speaker struct {
	linkpb.UnimplementedLinkServer

	version uint32
}

func (s speaker) Join(stream linkpb.Link_JoinServer) error {
	joined := &linkpb.JudgeFrame{Body: &linkpb.JudgeFrame_Joined{Joined: &linkpb.Joined{Wire: s.version}}}
	err := stream.Send(&linkpb.FromJudge{Frames: []*linkpb.JudgeFrame{joined}})
	<-stream.Context().Done()
	return err
}

// Frames of a session that has ended do nothing to the next at its slot; what makes no sense ends
// the stream.
func TestLateFrames(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		w := f.wire()
		defer w.close()
		w.say(join(&linkpb.Join{Wire: 1, Name: "one", Incarnation: 1}))
		w.say(opening(1, "old"))
		w.say(opening(2, "new"))
		f.wait(time.Second)
		a.want("old:1 device.online", "new:1 device.online")
		w.say(
			&linkpb.EarFrame{Body: &linkpb.EarFrame_Close{Close: &linkpb.Close{Gen: 1, Why: 3}}},
			ask(&linkpb.Ask{Gen: 1, What: &linkpb.Ask_Bye{}}),
			opening(1, "older"),
			&linkpb.EarFrame{Body: &linkpb.EarFrame_Beats{Beats: &linkpb.Beats{Slots: []uint32{0, 5}, Gens: []uint32{1, 1}, AgesUs: []uint64{0, 1 << 63}}}},
		)
		f.wait(time.Second)
		if v := a.wantState("new", liveness.Online); !v.Connected {
			t.Error("a late frame ended the session")
		}
		a.want()
		w.say(ask(&linkpb.Ask{Slot: 1 << 25, Gen: 1, What: &linkpb.Ask_Bye{}}))
		if err := w.end(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// An ear goes where the standby says that the judge is.
func TestRedirect(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		var isJudge atomic.Bool
		b := f.node("b", link.JudgeConfig{Redirect: func() (string, bool) { return "a", isJudge.Load() }})
		defer b.stop()
		e := f.ear("one", func(c *link.EarConfig) { c.Judges = []string{"b"} })
		defer e.stop()
		f.wait(500 * time.Millisecond)
		if !e.Ready() {
			t.Error("the ear has not found the judge")
		}
	})
}

// A judge whose process is gone is started again, perhaps: its ears hold on for longer than if nothing
// could be reached.
func TestVacant(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, p := e.open("d")
		f.beat(10*time.Second, s)
		a.want("d:1 device.online")
		kept := a.checkpoint()
		a.die()
		f.beat(8*time.Second, s)
		a = a.successor(kept, secondTerm)
		f.beat(40*time.Second, s)
		a.want()
		p.want(t)
		a.die()
		f.wait(8 * time.Second)
		if e.lettings() != 0 {
			t.Error("the ear lets go too early")
		}
		f.wait(2 * time.Second)
		if e.lettings() != 1 || s.Beat(f.now()) {
			t.Errorf("the ear has let go %d times", e.lettings())
		}
	})
}

// The next judge needs long to read its state. As long as it says so, its ears hold on; once nobody
// does, they let go.
func TestStarting(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		no := func() (string, bool) { return "", false }
		c := f.node("c", link.JudgeConfig{Redirect: no}) // a standby that does not help
		b := f.node("b", link.JudgeConfig{Redirect: no, Starting: func() bool { return true }})
		e := f.ear("one", func(c *link.EarConfig) { c.Judges = []string{"a", "gone", "b", "c"} })
		defer e.stop()
		s, p := e.open("d")
		f.beat(10*time.Second, s)
		a.want("d:1 device.online")
		kept := a.checkpoint()
		a.die()
		f.beat(40*time.Second, s)
		if e.Ready() || e.lettings() != 0 {
			t.Errorf("without a judge: ready %v, let go %d times", e.Ready(), e.lettings())
		}
		b.stop()
		c.stop()
		a = a.successor(kept, secondTerm)
		f.beat(40*time.Second, s)
		a.want()
		if !e.Ready() || s.Epoch() != 1 {
			t.Errorf("ready %v, epoch %d", e.Ready(), s.Epoch())
		}
		a.die()
		b = f.node("b", link.JudgeConfig{Redirect: no, Starting: func() bool { return true }})
		f.beat(10*time.Second, s)
		p.want(t)
		b.stop()
		f.mu.Lock()
		delete(f.nodes, "b")
		f.mu.Unlock()
		f.wait(2 * time.Second)
		if e.lettings() != 0 {
			t.Error("the ear lets go too early")
		}
		f.wait(time.Second)
		if e.lettings() != 1 || s.Beat(f.now()) {
			t.Errorf("the ear has let go %d times", e.lettings())
		}
	})
}

// Unread input at an ear holds all verdicts back, and is not deaf time.
func TestBehind(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one, two := f.ear("one"), f.ear("two")
		defer one.stop()
		defer two.stop()
		s, _ := one.open("d")
		two.open("other")
		f.wait(28 * time.Second)
		heard := f.now()
		one.holdPasses(true)
		f.wait(5 * time.Second)
		a.want("d:1 device.online", "other:1 device.online")
		if v := a.judge.Views(); len(v) != 2 || v[0].Behind < 4*time.Second {
			t.Errorf("Views = %+v", v)
		}
		s.Beat(heard)
		one.holdPasses(false)
		f.wait(time.Second)
		a.want("other:2 device.offline silence")
		f.wait(28 * time.Second)
		a.want("d:2 device.offline silence")
	})
}

func TestEarConfig(t *testing.T) {
	for _, cfg := range []link.EarConfig{{}, {Name: "x"}, {Judges: []string{"a"}}, {Name: "x ", Judges: []string{"a"}}} {
		if _, err := link.NewEar(cfg); err == nil {
			t.Errorf("NewEar(%+v) = nil", cfg)
		}
	}
}

// However many judges there are, an ear that has none asks each of them every second: it finds the one that takes over in time.
func TestEachJudgeIsAsked(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		judges := []string{"x", "y", "z", "u", "v"}
		var mu sync.Mutex // guards asked
		asked, longest := map[string]time.Duration{}, time.Duration(0)
		e := f.ear("one", func(c *link.EarConfig) {
			c.Judges = judges
			c.Dial = func(_ context.Context, address string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				if at, again := asked[address]; again {
					longest = max(longest, f.now()-at)
				}
				asked[address] = f.now()
				return nil, syscall.ECONNREFUSED
			}
		})
		f.wait(time.Minute)
		e.stop()
		mu.Lock()
		defer mu.Unlock()
		if len(asked) != len(judges) || longest > time.Second || longest < 500*time.Millisecond {
			t.Errorf("%d of %d judges were asked, with up to %v between", len(asked), len(judges), longest)
		}
	})
}

// An ear's end fails what it has asked, and calls every done once.
func TestEnd(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		e := f.ear("one", func(c *link.EarConfig) { c.Judges = []string{"nowhere"} })
		var before, after outcome
		e.Open("d", liveness.Hello{}, nil, f.now(), before.done)
		f.wait(time.Second)
		e.stop()
		before.want(t, liveness.ErrBusy)
		e.Open("", liveness.Hello{}, nil, f.now(), after.done)
		f.wait(time.Second)
		after.want(t, liveness.ErrInvalidID)
	})
}

// A device that is about to be judged is asked by its ear.
func TestProbe(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, p := e.open("d")
		if err := a.registry.SetPolicy("d", liveness.Policy{Probes: 2, ProbeWait: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		f.wait(21 * time.Second)
		p.want(t, "probe")
		s.Beat(f.now())
		f.wait(21 * time.Second)
		p.want(t, "probe")
		f.wait(10 * time.Second)
		p.want(t, "probe", "judged")
	})
}

// An ear that is told that it was removed lets go at once.
func TestRemoved(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, _ := e.open("d")
		e.holdPasses(true)
		f.beat(29*time.Second, s)
		if e.lettings() != 0 {
			t.Errorf("let go %d times", e.lettings())
		}
		f.wait(2 * time.Second)
		if e.lettings() != 1 || s.Beat(f.now()) {
			t.Errorf("let go %d times", e.lettings())
		}
		e.holdPasses(false)
		f.wait(2 * time.Second)
		if !e.Ready() {
			t.Error("the ear has not joined again")
		}
		again, _ := e.open("d")
		f.beat(40*time.Second, again)
		a.want("d:1 device.online")
	})
}

// What an ear does not resume before its first mark has ended: its end was lost with the link.
func TestNotResumed(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		w := f.wire()
		w.say(join(&linkpb.Join{Wire: 1, Name: "one", Incarnation: 1}))
		w.say(opening(1, "d"))
		f.wait(time.Second)
		w.close()
		f.wait(100 * time.Millisecond)
		if v := a.wantState("d", liveness.Online); !v.Connected || len(a.judge.Views()) != 1 {
			t.Error("the session has ended with the link")
		}
		w = f.wire()
		defer w.close()
		w.say(join(&linkpb.Join{Wire: 1, Name: "one", Incarnation: 1}))
		w.answerRound()
		f.wait(10 * time.Millisecond)
		if v := a.wantState("d", liveness.Online); v.Connected {
			t.Error("the session is open still")
		}
		w.say(opening(1, "d")) // its number has passed, but nobody has it
		f.wait(10 * time.Millisecond)
		if v := a.wantState("d", liveness.Online); !v.Connected || v.Epoch != 2 {
			t.Errorf("view %+v", v)
		}
		a.want("d:1 device.online")
	})
}

// answerRound waits for a round, and answers it.
func (w *wire) answerRound() {
	w.Helper()
	for {
		m, err := w.Recv()
		if err != nil {
			w.Fatal(err)
		}
		for _, frame := range m.GetFrames() {
			if round := frame.GetRound(); round != nil {
				w.say(&linkpb.EarFrame{Body: &linkpb.EarFrame_Mark{Mark: &linkpb.Mark{Round: round.GetRound()}}})
				return
			}
		}
	}
}
