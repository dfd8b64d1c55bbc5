package gateway_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// rig is a gateway that runs for the length of a test.
type rig struct {
	t         *testing.T
	gateway   *gateway.Gateway
	registry  *liveness.Registry
	log       *eventlog.Log
	addr      string
	stop      func() // ends it and waits; may be called more than once
	elsewhere *judge // nil unless judgesElsewhere
}

func startRig(t *testing.T, fleet liveness.Config, cfg gateway.Config) *rig {
	t.Helper()
	return startGated(t, fleet, cfg, nil)
}

// unlimited returns a listener whose connections may send as much as they like.
func unlimited() []gateway.Listener {
	return []gateway.Listener{{Address: "127.0.0.1:0", MaxMessages: -1, MaxBytes: -1}}
}

// gatedLog is a log that takes events only once its gate, if it has one, is closed.
type gatedLog struct {
	*eventlog.Log

	gate chan struct{}
}

func (l gatedLog) Append(ctx context.Context, events []liveness.Event) error {
	if l.gate != nil {
		<-l.gate
	}
	return l.Log.Append(ctx, events)
}

func startGated(t *testing.T, fleet liveness.Config, cfg gateway.Config, gate chan struct{}) *rig {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	r := startOn(t, gatedLog{log, gate}, fleet, cfg)
	r.log = log
	return r
}

// startOn is startRig with a sink of one's own.
func startOn(t *testing.T, sink liveness.Sink, fleet liveness.Config, cfg gateway.Config) *rig {
	t.Helper()
	fleet.MinTimeout = cmp.Or(fleet.MinTimeout, time.Millisecond) // tests are not to wait for long
	registry, err := liveness.New(sink, fleet)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen == nil {
		cfg.Listen = []gateway.Listener{{Address: "127.0.0.1:0"}}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	listens := registry
	var elsewhere *judge
	if judgesElsewhere {
		elsewhere, listens = newJudge(t, registry)
		cfg.Judge = elsewhere
	}
	g, err := gateway.New(t.Context(), listens, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if elsewhere != nil {
		elsewhere.gateway, elsewhere.packets = g, cfg.Listen[0].Packets
		go elsewhere.run(ctx)
		go func() { _ = listens.Run(ctx) }()
	}
	registryCtx, endRegistry := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		registryEnded := make(chan error)
		go func() { registryEnded <- registry.Run(registryCtx) }()
		if err := g.Run(ctx); err != nil {
			t.Errorf("gateway: %v", err)
		}
		endRegistry()
		if err := <-registryEnded; err != nil {
			t.Errorf("registry: %v", err)
		}
	}()
	r := &rig{t: t, gateway: g, registry: registry, elsewhere: elsewhere, addr: g.Addrs()[0].String()}
	r.stop = func() { cancel(); <-ended }
	t.Cleanup(r.stop)
	return r
}

// device is a connection typed into by hand.
type device struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (r *rig) dial() *device {
	r.t.Helper()
	c, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	d := &device{t: r.t, conn: c}
	d.init()
	return d
}

func (d *device) init() { d.in = bufio.NewReader(d.conn) }

// dialUntil connects and says hello, again and again, until the answer is OK.
func (r *rig) dialUntil(say string) *device {
	r.t.Helper()
	for range 1000 {
		d := r.dial()
		if _, err := io.WriteString(d.conn, say); err == nil && strings.HasPrefix(d.hear(), "OK ") {
			return d
		}
		_ = d.conn.Close()
	}
	r.t.Fatal("never heard OK")
	return nil
}

func (d *device) say(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d.conn, text); err != nil {
		d.t.Fatal(err)
	}
}

// hear returns the next line, or the error that ended the connection.
func (d *device) hear() string {
	d.t.Helper()
	text, err := d.in.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(text, "\n")
}

func (d *device) expect(want string) {
	d.t.Helper()
	if got := d.hear(); got != want && !(strings.HasSuffix(want, "…") && strings.HasPrefix(got, strings.TrimSuffix(want, "…"))) {
		d.t.Fatalf("heard %q, want %q, from %v at %v", got, want, d.conn.RemoteAddr(), d.conn.LocalAddr())
	}
}

// events waits until there are n events of devices and returns all of these: those of a source come
// whenever the machine does not run the test for a while.
func (r *rig) events(n int) []liveness.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all, events []liveness.Event
	for len(events) < n {
		var err error
		if all, err = r.log.Wait(ctx, all, uint64(len(all)), n); err != nil {
			r.t.Fatalf("after %d of %d events: %v", len(events), n, err)
		}
		events = slices.DeleteFunc(slices.Clone(all), func(e liveness.Event) bool {
			return e.Type == liveness.SourceDeaf || e.Type == liveness.SourceHeard
		})
	}
	return events
}

func (r *rig) story(n int) string {
	var s []string
	for _, e := range r.events(n) {
		s = append(s, strings.TrimSpace(fmt.Sprint(e.ID(), " ", e.Type, " ", e.Reason)))
	}
	return strings.Join(s, "; ")
}

func TestThread(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{})
	d := r.dial()
	d.say("HELLO sensor-1 ttl=300ms\n")
	d.expect("OK 1 ttl=0.3")
	d.say("PING 7\nping\n")
	d.expect("PONG 7")
	d.expect("PONG")
	d.expect("BYE silence")
	if got, want := r.story(2), "sensor-1:1 device.online; sensor-1:2 device.offline silence"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	e := r.events(2)[1]
	if e.HeardSilence < 300*time.Millisecond {
		t.Errorf("heard silence = %v, want at least 300ms", e.HeardSilence)
	}
}
