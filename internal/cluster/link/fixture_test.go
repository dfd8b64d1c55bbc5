package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// fleet is judges and ears in a synctest bubble.
type fleet struct {
	*testing.T

	start time.Time
	nodes map[string]*node // by address

	mu    sync.Mutex // guards conns and cut
	conns map[string][]net.Conn
	cut   map[string]bool // ears that reach nobody
}

// node is a process that may be the judge.
type node struct {
	fleet    *fleet
	registry *liveness.Registry
	judge    *link.Judge
	gate     *gate
	listener *bufconn.Listener
	read     uint64
	stop     func()
}

// gate is a sink that can be shut.
type gate struct {
	*eventlog.Log

	mu      sync.Mutex
	shut    bool
	records map[string]keep.Record // of devices, as of their latest events
	seqs    map[string]uint64      // of sources
}

var errShut = errors.New("shut")

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

func (g *gate) Append(ctx context.Context, events []liveness.Event) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return errShut
	}
	for i := range events {
		if e := &events[i]; e.Record != nil {
			g.records[e.Subject] = *e.Record
		} else {
			g.seqs[e.Subject] = e.Seq
		}
	}
	return g.Log.Append(ctx, events)
}

// inFleet runs a test with a judge at "a", whose devices have a timeout of 30 s.
func inFleet(t *testing.T, f func(f *fleet, a *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &fleet{T: t, start: time.Now(), nodes: make(map[string]*node), conns: make(map[string][]net.Conn), cut: make(map[string]bool)}
		a := fl.node("a", link.JudgeConfig{Fleet: "f", Node: "a"})
		defer a.stop()
		f(fl, a)
	})
}

func (f *fleet) node(address string, cfg link.JudgeConfig) *node {
	f.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		f.Fatal(err)
	}
	return f.nodeOn(address, cfg, &gate{Log: log, records: make(map[string]keep.Record), seqs: make(map[string]uint64)}, func(*liveness.Registry) error { return nil })
}

// nodeOn is a node that keeps its events somewhere, and whose registry is prepared.
func (f *fleet) nodeOn(address string, cfg link.JudgeConfig, g *gate, prepare func(*liveness.Registry) error) *node {
	f.Helper()
	n := &node{fleet: f, gate: g, listener: bufconn.Listen(1 << 20)}
	var err error
	n.registry, err = liveness.New(n.gate, liveness.Config{Policy: liveness.Policy{Timeout: 30 * time.Second}})
	if err == nil {
		err = prepare(n.registry)
	}
	if err != nil {
		f.Fatal(err)
	}
	n.judge = link.NewJudge(n.registry, cfg)
	server := grpc.NewServer()
	n.judge.Register(server)
	var registry, running sync.WaitGroup
	registryCtx, stopRegistry := context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	registry.Go(func() {
		if err := n.registry.Run(registryCtx); err != nil && !errors.Is(err, errShut) {
			f.Errorf("Registry.Run = %v", err)
		}
	})
	running.Go(func() { _ = n.judge.Run(ctx) })
	serving := make(chan struct{})
	go func() {
		defer close(serving)
		_ = server.Serve(n.listener)
	}()
	n.stop = sync.OnceFunc(func() {
		stop()
		running.Wait()
		server.Stop()
		<-serving
		stopRegistry()
		registry.Wait()
	})
	synctest.Wait()
	f.mu.Lock()
	f.nodes[address] = n
	f.mu.Unlock()
	return n
}

// dial connects an ear with a node.
func (f *fleet) dial(name string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		f.mu.Lock()
		n, cut := f.nodes[address], f.cut[name]
		f.mu.Unlock()
		switch {
		case cut:
			return nil, errors.New("no route")
		case n == nil:
			return nil, syscall.ECONNREFUSED
		}
		conn, err := n.listener.DialContext(ctx)
		if err == nil {
			f.mu.Lock()
			f.conns[name] = append(f.conns[name], conn)
			f.mu.Unlock()
		}
		return conn, err
	}
}

// breakLinks closes the connections of the ear "one", and lets it have none until mended.
func (f *fleet) breakLinks(cut bool) {
	const name = "one"
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[name] = cut
	for _, c := range f.conns[name] {
		_ = c.Close()
	}
	f.conns[name] = nil
}

// listener is an ear with what it was told.
type listener struct {
	*link.Ear

	fleet *fleet
	stop  func()
	ends  error // with which Run does

	drains  bool
	left    chan struct{} // closed when it has left; nil before
	stalled bool          // it reads nothing
	killed  bool          // its process is gone
	until   time.Time
	died    time.Time                // when it was killed
	known   map[string]*link.Session // of devices without connections
	unread  []*wanderer              // whose datagrams it has not read

	mu     sync.Mutex
	letGo  int
	joined int      // times that it had a judge after none
	passes []func() // held back
	hold   bool
	losses uint64 // of datagrams: odd while they are lost
}

func (f *fleet) ear(name string, change ...func(*link.EarConfig)) *listener {
	f.Helper()
	l := &listener{fleet: f, known: make(map[string]*link.Session)}
	cfg := link.EarConfig{Name: name, Judges: []string{"a"}, Dial: f.dial(name), Now: f.now, Version: "v1", Pass: l.pass}
	cfg.LetGo = func(string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.letGo++
	}
	cfg.Joined = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.joined++
	}
	for _, c := range change {
		c(&cfg)
	}
	if cfg.PassDatagrams != nil {
		cfg.PassDatagrams = l.passDatagrams
	}
	var err error
	if l.Ear, err = link.NewEar(cfg); err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	l.stop = sync.OnceFunc(func() {
		l.holdPasses(false)
		cancel()
		if err := <-done; !errors.Is(err, l.ends) {
			f.Errorf("Run = %v, want %v", err, l.ends)
		}
	})
	return l
}

func (l *listener) pass(done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold {
		l.passes = append(l.passes, done)
		return
	}
	go done()
}

// hearsDatagrams has an ear hear devices without connections, too.
func hearsDatagrams(c *link.EarConfig) { c.PassDatagrams = func(func(uint64)) {} }

func (l *listener) passDatagrams(done func(uint64)) {
	if losses := l.lossCount(); losses%2 == 1 {
		go done(losses)
		return
	}
	l.pass(func() { done(l.lossCount()) })
}

func (l *listener) lossCount() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.losses
}

// lose has the ear lose datagrams, or no longer.
func (l *listener) lose(lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (l.losses%2 == 1) != lost {
		l.losses++
	}
}

// holdPasses has the ear handle nothing, or again what has come.
func (l *listener) holdPasses(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
	for _, done := range l.passes {
		go done()
	}
	l.passes = nil
}

func (l *listener) lettings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.letGo
}

func (l *listener) joinings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joined
}

func (f *fleet) now() time.Duration { return time.Since(f.start) + time.Hour }

// wait lets time pass.
func (f *fleet) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// far is a peer that notes what it is told.
type far struct {
	mu   sync.Mutex
	told []string
}

func (p *far) tell(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, what)
}

func (p *far) Replaced()  { p.tell("replaced") }
func (p *far) Dismissed() { p.tell("dismissed") }
func (p *far) Judged()    { p.tell("judged") }
func (p *far) Committed() { p.tell("committed") }
func (p *far) Probe() bool {
	p.tell("probe")
	return true
}

func (p *far) want(tb testing.TB, want ...string) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.told, want) {
		tb.Errorf("the peer was told %v, want %v", p.told, want)
	}
	p.told = nil
}

// outcome is what done was called with.
type outcome struct {
	mu      sync.Mutex
	calls   int
	welcome liveness.Welcome
	err     error
}

func (o *outcome) done(w liveness.Welcome, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	o.welcome, o.err = w, err
}

// want checks that done was called once, with an error that is want.
func (o *outcome) want(tb testing.TB, want error) liveness.Welcome {
	tb.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls != 1 || !errors.Is(o.err, want) {
		tb.Errorf("done was called %d times, with %v, want once with %v", o.calls, o.err, want)
	}
	return o.welcome
}

func (o *outcome) wantNone(tb testing.TB) {
	tb.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls != 0 {
		tb.Errorf("done was called %d times, with %v, want not yet", o.calls, o.err)
	}
}

// open opens a session, and waits for the answer.
func (l *listener) open(id string) (*link.Session, *far) {
	l.fleet.Helper()
	var o outcome
	p := &far{}
	s := l.Open(id, liveness.Hello{}, p, l.fleet.now(), o.done)
	l.fleet.wait(10 * time.Millisecond)
	o.want(l.fleet, nil)
	return s, p
}

// want compares the devices' events since the last call, without their times.
func (n *node) want(lines ...string) {
	n.fleet.Helper()
	synctest.Wait()
	events, err := n.gate.Read(nil, n.read, 1<<20)
	if err != nil {
		n.fleet.Fatal(err)
	}
	var got []string
	for _, e := range events {
		n.read = e.Offset
		if e.Type == liveness.SourceDeaf || e.Type == liveness.SourceHeard {
			continue
		}
		line := fmt.Sprintf("%s %v", e.ID(), e.Type)
		if e.Reason != liveness.NoReason {
			line += " " + e.Reason.String()
		}
		got = append(got, line)
	}
	bySubject := func(a, b string) int { // of different devices the order is left open
		idA, _, _ := strings.Cut(a, ":")
		idB, _, _ := strings.Cut(b, ":")
		return strings.Compare(idA, idB)
	}
	slices.SortStableFunc(got, bySubject)
	slices.SortStableFunc(lines, bySubject)
	if !slices.Equal(got, lines) {
		n.fleet.Errorf("events %q, want %q", got, lines)
	}
}

func (n *node) wantState(id string, want liveness.State) liveness.View {
	n.fleet.Helper()
	synctest.Wait()
	v, err := n.registry.Device(id)
	if err != nil {
		n.fleet.Fatal(err)
	}
	if v.State != want {
		n.fleet.Errorf("%s is %v, want %v", id, v.State, want)
	}
	return v
}

// beat beats for d, once a second.
func (f *fleet) beat(d time.Duration, sessions ...*link.Session) {
	f.Helper()
	for ; d > 0; d -= time.Second {
		f.wait(time.Second)
		for _, s := range sessions {
			if !s.Beat(f.now()) {
				f.Fatalf("Beat of %s = false", s.ID())
			}
		}
	}
}
