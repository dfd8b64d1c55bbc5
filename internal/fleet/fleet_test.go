//go:build linux

package fleet_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newFleet makes a fleet that is closed with the test.
func newFleet(t *testing.T, cfg fleet.Config) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return f
}

// start connects the fleet and runs it until the returned func is called, or
// the test ends.
func start(ctx context.Context, t *testing.T, f *fleet.Fleet) (stop func()) {
	t.Helper()
	if err := f.Connect(ctx); err != nil {
		t.Fatalf("Connect() = %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	ended := false
	stop = func() {
		cancel()
		if ended {
			return
		}
		ended = true
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// limit bounds a test.
func limit(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// do orders an action at once.
func do(t *testing.T, f *fleet.Fleet, device int, a fleet.Action) {
	t.Helper()
	if err := f.Do(device, a, time.Time{}); err != nil {
		t.Fatalf("Do(%d, %v) = %v", device, a, err)
	}
}

func TestHeartbeatsKeepThePlan(t *testing.T) {
	ctx := limit(t, time.Minute)
	srv := newLineServer(t, time.Minute, nil)
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 10, Interval: 50 * time.Millisecond})
	began := time.Now()
	stop := start(ctx, t, f)
	waitFor(ctx, t, "answers", func() bool { return f.Stats().Answers >= 100 })
	stop()
	s := f.Stats()
	// 10 devices × 20/s; whole rounds may be missing if this machine stalls.
	planned := uint64(time.Since(began)/(50*time.Millisecond)+1) * 10
	if s.Heartbeats > planned {
		t.Errorf("%d heartbeats, planned %d", s.Heartbeats, planned)
	}
	var least, most uint64 = 1 << 63, 0
	for _, d := range f.Truth() {
		least, most = min(least, d.Heartbeats), max(most, d.Heartbeats)
	}
	if most-least > 2 {
		t.Errorf("heartbeats per device from %d to %d, want them even", least, most)
	}
}

func TestConnectNamesTheRefused(t *testing.T) {
	ctx := limit(t, time.Minute)
	srv := newLineServer(t, time.Minute, func(id string) bool { return strings.HasSuffix(id, "7") })
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 30})
	err := f.Connect(ctx)
	if !errors.Is(err, fleet.ErrNotConnected) || !strings.Contains(err.Error(), "3 of 30 without; first dev-000007: refused ERR not welcome") {
		t.Errorf("Connect() = %v", err)
	}
	d := f.Truth()[7]
	if d.State != fleet.ConnRefused || d.End.LastLine != "ERR not welcome" || !d.ConnectedAt.IsZero() {
		t.Errorf("Truth()[7] = %+v", d)
	}
}

func TestConnectToNobody(t *testing.T) {
	ctx := limit(t, time.Minute)
	srv := newLineServer(t, time.Minute, nil)
	srv.stop()
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 3})
	err := f.Connect(ctx)
	if !errors.Is(err, fleet.ErrNotConnected) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Connect() = %v", err)
	}
}

// A listener that never accepts: the kernel completes the handshakes.
func TestConnectToStalledGateway(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f := newFleet(t, fleet.Config{
		Addr: ln.Addr().String(), Devices: 3, SourceIPs: []netip.Addr{netip.MustParseAddr("127.0.0.9")},
	})
	err = f.Connect(limit(t, 100*time.Millisecond))
	if !errors.Is(err, fleet.ErrNotConnected) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Connect() = %v", err)
	}
	if d := f.Truth()[0]; d.State != fleet.ConnGreeting || !d.LastHeartbeat.IsZero() {
		t.Errorf("Truth()[0] = %+v, want one that greets, and no heartbeat", d)
	}
}

func TestPeerEndsConnections(t *testing.T) {
	for name, c := range map[string]struct {
		reset     bool
		line, why string
	}{
		"with a last line": {false, "ERR going down", "EOF"},
		"reset":            {true, "OK 1 ttl=60", "connection reset by peer"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limit(t, time.Minute)
			srv := newLineServer(t, time.Minute, nil)
			f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 5})
			start(ctx, t, f)
			srv.hang(c.reset)
			waitFor(ctx, t, "drops", func() bool {
				return !slices.ContainsFunc(f.Truth(), func(d fleet.Device) bool { return len(d.Steps) == 0 })
			})
			for _, d := range f.Truth() {
				if d.State != fleet.ConnLost || d.End.Cause != c.why || d.Steps[0].Action != fleet.Dropped {
					t.Errorf("%s: %v, %+v, %v", d.ID, d.State, d.End, d.Steps)
				}
				if pong := strings.HasPrefix(d.End.LastLine, "PONG"); d.End.LastLine != c.line && !pong {
					t.Errorf("%s: last line %q, want %q", d.ID, d.End.LastLine, c.line)
				}
			}
			do(t, f, 2, fleet.Reconnect)
			waitFor(ctx, t, "return", func() bool { return f.Truth()[2].State == fleet.ConnOpen })
			if d := f.Truth()[2]; d.Epoch != 2 || len(d.Steps) != 2 {
				t.Errorf("after Reconnect: epoch %d, steps %v", d.Epoch, d.Steps)
			}
		})
	}
}

func TestRefusedDuplicate(t *testing.T) {
	ctx := limit(t, time.Minute)
	full := make(chan struct{}) // closed: nobody else may come
	srv := newLineServer(t, time.Minute, func(string) bool {
		select {
		case <-full:
			return true
		default:
			return false
		}
	})
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 1, Interval: 20 * time.Millisecond})
	start(ctx, t, f)
	close(full)
	do(t, f, 0, fleet.Duplicate)
	waitFor(ctx, t, "refusal", func() bool {
		d := f.Truth()[0]
		return len(d.Steps) == 1 && d.Steps[0].Err != ""
	})
	before := f.Truth()[0]
	if before.State != fleet.ConnOpen || before.Steps[0].Err != "ERR not welcome" || len(before.Replaced) != 0 {
		t.Errorf("Truth()[0] = %+v", before)
	}
	waitFor(ctx, t, "heartbeats of the first connection", func() bool {
		return f.Truth()[0].Answers > before.Answers+1
	})
}

func TestOrdersThatCannotBe(t *testing.T) {
	ctx := limit(t, time.Minute)
	srv := newLineServer(t, time.Minute, nil)
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 2})
	for _, o := range []struct {
		device int
		action fleet.Action
	}{{-1, fleet.Silent}, {2, fleet.Silent}, {0, 0}, {0, fleet.Dropped}} {
		if err := f.Do(o.device, o.action, time.Time{}); !errors.Is(err, fleet.ErrOrder) {
			t.Errorf("Do(%d, %v) = %v, want ErrOrder", o.device, o.action, err)
		}
	}
	start(ctx, t, f)
	do(t, f, 0, fleet.Reset)
	do(t, f, 0, fleet.Close)
	do(t, f, 1, fleet.Reconnect) // of an open connection: two steps
	do(t, f, 1, fleet.Silent)    // while it dials
	waitFor(ctx, t, "orders", func() bool {
		d := f.Truth()
		return len(d[0].Steps) == 2 && len(d[1].Steps) == 3 && d[1].State == fleet.ConnOpen
	})
	d := f.Truth()
	if d[0].Steps[0].Err != "" || d[0].Steps[1].Err != "no open connection" {
		t.Errorf("device 0: %+v", d[0].Steps)
	}
	if s := d[1].Steps; s[0].Action != fleet.Reset || s[1].Answered.IsZero() || s[2].Err != "a dial is under way" {
		t.Errorf("device 1: %+v", s)
	}
	if err := f.Run(ctx); !errors.Is(err, fleet.ErrBusy) {
		t.Errorf("second Run() = %v, want ErrBusy", err)
	}
}

func TestClosedFleet(t *testing.T) {
	ctx := limit(t, time.Minute)
	srv := newLineServer(t, time.Minute, nil)
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 4})
	if err := f.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	do(t, f, 0, fleet.Silent)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	waitFor(ctx, t, "Run", func() bool { return len(f.Truth()[0].Steps) == 1 })
	if err := f.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if err := <-done; !errors.Is(err, fleet.ErrClosed) {
		t.Errorf("Run() = %v, want ErrClosed", err)
	}
	if err := f.Do(0, fleet.Silent, time.Time{}); !errors.Is(err, fleet.ErrClosed) {
		t.Errorf("Do() = %v, want ErrClosed", err)
	}
	if err := f.Connect(ctx); !errors.Is(err, fleet.ErrClosed) {
		t.Errorf("Connect() = %v, want ErrClosed", err)
	}
	if d := f.Truth()[3]; d.State != fleet.ConnOpen {
		t.Errorf("Truth()[3] = %+v, want it as it was", d)
	}
}

// A device whose last heartbeat was ordered is silent, and its history says which of its signs of life were answered.
func TestLast(t *testing.T) {
	ctx := limit(t, time.Minute)
	srv := newLineServer(t, time.Minute, nil)
	f := newFleet(t, fleet.Config{Addr: srv.addr(), Devices: 2, Interval: 59 * time.Second, Journal: true})
	start(ctx, t, f)
	do(t, f, 0, fleet.Last)
	device := func() fleet.Device { return f.Truth()[0] }
	waitFor(ctx, t, "an answer", func() bool {
		d := device()
		return len(d.Steps) == 1 && d.Signs[len(d.Signs)-1].Answered != 0 && d.Signs[len(d.Signs)-1].Granted == 0
	})
	d := device()
	for i, s := range d.Signs {
		if s.Answered < s.At {
			t.Errorf("sign %d of %d at %d is answered at %d", i, len(d.Signs), s.At, s.Answered)
		}
	}
	last := d.Signs[len(d.Signs)-1].At
	if d.Steps[0].Action != fleet.Silent || d.Steps[0].At.UnixNano() < last || d.Steps[0].LastHeartbeat.UnixNano() != last {
		t.Errorf("the history has %+v after a heartbeat at %d", d.Steps, last)
	}
}
