package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// view returns a picture of the source of the heartbeats by HTTP.
func (s *station) view() liveness.SourceView {
	for _, source := range s.registry.Sources() {
		if source.Name() == "http" {
			return source.View()
		}
	}
	return liveness.SourceView{}
}

// send sends a request on a connection of its own.
func (s *station) send(t *testing.T, text string) (status int, body string) {
	t.Helper()
	code, answer, err := s.dial(t).ask([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return code, string(answer)
}

// beatOfA is a heartbeat of the device a.
const beatOfA = "POST /v1/beat/a HTTP/1.1\r\nHost: holter\r\nAuthorization: Bearer b\r\nContent-Length: 0\r\n\r\n"

// gate is an Auth that lets nobody pass for a while.
type gate struct {
	come chan struct{}
	open chan error
}

func (g *gate) Lookup(ctx context.Context, _ string) (t auth.Token, ok bool, err error) {
	g.come <- struct{}{}
	select {
	case err := <-g.open:
		return auth.Token{Role: auth.RoleBeat, Name: "b"}, true, err
	case <-ctx.Done():
		return t, false, ctx.Err()
	}
}

func (g *gate) Required() (bool, error) { return true, nil }

// TestClockWaits holds a heartbeat up while it is being handled: the clock does not pass it, and goes on afterwards.
func TestClockWaits(t *testing.T) {
	t.Parallel()
	g := &gate{come: make(chan struct{}), open: make(chan error)}
	s := newStation(t, liveness.Config{}, httpapi.Config{Auth: g})
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > 0 })
	var asking sync.WaitGroup
	asking.Go(func() { _, _, _ = s.dial(t).ask([]byte(beatOfA)) })
	<-g.come
	before := s.view()
	most := before.Listened + before.Behind // the pulse that may be on its way
	testwait.Until(t, "a clock that is behind", func() bool { v := s.view(); return v.Listened+v.Behind > most+500*time.Millisecond })
	if v := s.view(); v.Listened > most {
		t.Errorf("the clock went on to %v, want at most %v", v.Listened, most)
	}
	if v := s.view(); v.DeafTotal != 0 {
		t.Errorf("it was deaf for %v", v.DeafTotal)
	}
	g.open <- nil
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > most+500*time.Millisecond })
	asking.Wait()
}

// TestDeafWithoutTokens refuses a heartbeat because its token cannot be checked: that is no silence.
func TestDeafWithoutTokens(t *testing.T) {
	t.Parallel()
	auth := newSecrets()
	auth.fail = errors.New("the database does not answer")
	s := newStation(t, liveness.Config{}, httpapi.Config{Auth: auth})
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > 0 })
	if status, body := s.send(t, beatOfA); status != 503 {
		t.Fatalf("%d %s", status, body)
	}
	auth.set(func() { auth.fail = nil })
	testwait.Until(t, "a deaf time", func() bool { return len(s.view().Deaf) > 0 })
	if status, body := s.send(t, beatOfA); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// TestDeafBeforeTokensAreKnown: while it is not known whether a token is needed, heartbeats are refused, and no
// device is judged for that, however seldom it is heard.
func TestDeafBeforeTokensAreKnown(t *testing.T) {
	t.Parallel()
	auth := &secrets{none: true}
	s := newStation(t, liveness.Config{}, httpapi.Config{Auth: auth})
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > 0 })
	auth.set(func() { auth.early = true })
	refused := time.Now()
	if status, body := s.send(t, beatOfA); status != 503 {
		t.Fatalf("%d %s", status, body)
	}
	stood := s.view().Listened
	testwait.Until(t, "a pause", func() bool { return time.Since(refused) > 2*time.Second })
	if v := s.view(); v.Listened > stood+time.Second {
		t.Errorf("the clock went on from %v to %v", stood, v.Listened)
	}
	auth.set(func() { auth.early = false })
	testwait.Until(t, "a deaf time", func() bool { return len(s.view().Deaf) > 0 })
	if status, body := s.send(t, beatOfA); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// TestSlowBody sends a heartbeat's body slowly: it is refused, and the clock waits no longer.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := newStation(t, liveness.Config{}, httpapi.Config{})
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > 0 })
	status, body := s.send(t, "POST /v1/beats HTTP/1.1\r\nHost: holter\r\nContent-Length: 10\r\n\r\n[")
	if status != 408 || !strings.Contains(body, "did not arrive whole within 5s") {
		t.Errorf("%d %s", status, body)
	}
	now := s.view()
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > now.Listened+now.Behind })
}

// TestStartingIsDeaf does not listen before the process has started.
func TestStartingIsDeaf(t *testing.T) {
	t.Parallel()
	var started atomic.Bool
	asked := make(chan struct{}, 100)
	s := newStation(t, liveness.Config{}, httpapi.Config{Starting: func() error {
		select {
		case asked <- struct{}{}:
		default:
		}
		if started.Load() {
			return nil
		}
		return errors.New("not yet")
	}})
	for range 3 {
		<-asked
	}
	if v := s.view(); v.Listened != 0 || v.Behind != 0 {
		t.Errorf("it listens before: %+v", v)
	}
	if status, body := s.send(t, beatOfA); status != 503 {
		t.Errorf("%d %s", status, body)
	}
	started.Store(true)
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > 0 })
}

// TestCrowd has more connections than are served: idle ones make room for those that wait, and the clock goes on.
func TestCrowd(t *testing.T) {
	t.Parallel()
	s := newStation(t, liveness.Config{}, httpapi.Config{MaxConnections: 4})
	for range 12 { // of which four are idle after a request, and four have said nothing
		if status, body := s.send(t, beatOfA); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		s.dial(t)
	}
	v := s.view()
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > v.Listened+v.Behind })
	if v := s.view(); v.DeafTotal != 0 {
		t.Errorf("it was deaf for %v", v.DeafTotal)
	}
}

// TestBusyCrowd keeps all places busy: who waits for one may bring a heartbeat, so the clock waits, too. Then all that have one give it up
// with their answers.
func TestBusyCrowd(t *testing.T) {
	t.Parallel()
	g := &gate{come: make(chan struct{}), open: make(chan error)}
	s := newStation(t, liveness.Config{}, httpapi.Config{MaxConnections: 4, Auth: g})
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > 0 })
	var asking sync.WaitGroup
	ask := func(text string) {
		l := s.dial(t)
		asking.Go(func() {
			if status, body, err := l.ask([]byte(text)); err != nil {
				t.Errorf("%d %v %s", status, err, body)
			}
		})
	}
	for range 4 {
		ask(strings.Replace(beatOfA, "POST /v1/beat/a", "GET /v1/stats", 1)) // does not hold the clock up by itself
		<-g.come
	}
	ask(strings.Replace(beatOfA, "beat/a", "beat/b", 1))
	v := s.view()
	most := v.Listened + v.Behind + 200*time.Millisecond // for what came before it did
	testwait.Until(t, "a clock that is behind", func() bool { v := s.view(); return v.Listened+v.Behind > most+time.Second })
	if v := s.view(); v.Listened > most {
		t.Errorf("the clock went on to %v, want at most %v", v.Listened, most)
	}
	for range 4 {
		g.open <- errors.New("not now")
	}
	<-g.come
	g.open <- nil
	asking.Wait()
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > most })
}

// TestHugeHeaders wants headers to have an end.
func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	s := newStation(t, liveness.Config{}, httpapi.Config{})
	conn := s.dial(t)
	_, _ = conn.conn.Write([]byte("GET /v1/stats HTTP/1.1\r\nHost: holter\r\nX-Long: " + strings.Repeat("x", 80<<10)))
	status, _, err := conn.ask(nil)
	var failed *net.OpError
	if status != 431 && !errors.As(err, &failed) {
		t.Errorf("headers of 80 KiB: %d %v, want 431", status, err)
	}
}

// TestListenAlone keeps the clock without Serve, and does nothing without heartbeats.
func TestListenAlone(t *testing.T) {
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events := httpapi.LogEvents{Log: log}
	api, err := httpapi.New(registry, events, httpapi.Config{BeatSource: "push"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httpapi.New(registry, events, httpapi.Config{BeatSource: "push"}); err == nil || !strings.Contains(err.Error(), `source "push" exists`) {
		t.Errorf("a second one: %v", err)
	}
	without, err := httpapi.New(registry, events, httpapi.Config{NoBeats: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := without.Listen(t.Context()); err != nil {
		t.Error(err)
	}
	wantProblem(t, send(without.Handler(), "POST", "/v1/beat/a", ""), "no heartbeats", 404, "there is nothing at this path")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := api.Listen(ctx); err != nil {
			t.Error(err)
		}
	})
	testwait.Until(t, "the clock", func() bool { return registry.Sources()[0].Now() > 0 })
	stop()
	running.Wait()
	if err := registry.Run(ctx); err != nil { // ends the timers
		t.Error(err)
	}
}

// diary is when a device began to send each heartbeat, and when it had.
type diary [][2]time.Time

// between reports whether a heartbeat was sent between two instants.
func (d diary) between(from, to time.Time) bool {
	for _, sent := range d {
		if sent[0].After(from) && sent[1].Before(to) {
			return true
		}
	}
	return false
}

// keepBeating sends heartbeats of a device until stop, each some milliseconds after the answer to the one before.
func (l *line) keepBeating(t *testing.T, id string, pause func(i int) time.Duration, stop <-chan struct{}) (sent diary) {
	t.Helper()
	text := fmt.Appendf(nil, "POST /v1/beat/%s HTTP/1.1\r\nHost: holter\r\nContent-Length: 0\r\n\r\n", id)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return sent
		case <-time.After(pause(i)):
		}
		began := time.Now()
		if _, err := l.conn.Write(text); err != nil {
			t.Error(err)
			return sent
		}
		sent = append(sent, [2]time.Time{began, time.Now()})
		if status, body, err := l.ask(nil); status != 200 || err != nil {
			t.Errorf("%d %v %s", status, err, body)
			return sent
		}
	}
}

// TestNoFalseOffline lets devices beat just in time, or just too late, on a server with more to do than it can: whoever is judged has sent
// nothing between his last heartbeat and his deadline.
func TestNoFalseOffline(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "dev", Match: "dev-*", Policy: liveness.Policy{Timeout: timeout}}}}
	s := newStation(t, fleet, httpapi.Config{})
	stop := make(chan struct{})
	diaries := make([]diary, 50)
	var beating sync.WaitGroup
	for i := range 64 {
		l := s.dial(t)
		beating.Go(func() { l.keepBeating(t, fmt.Sprint("flood-", i), func(int) time.Duration { return 0 }, stop) })
	}
	for i := range diaries {
		l := s.dial(t)
		beating.Go(func() {
			pause := func(n int) time.Duration { return time.Duration(80+n*37%120) * time.Millisecond }
			diaries[i] = l.keepBeating(t, fmt.Sprint("dev-", i), pause, stop)
		})
	}
	<-time.After(3 * time.Second)
	close(stop)
	beating.Wait()
	events, err := s.log.Read(nil, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for i := range events {
		e := &events[i]
		var device int
		if _, err := fmt.Sscanf(e.Subject, "dev-%d", &device); err != nil || e.Type != liveness.DeviceOffline {
			continue
		}
		judged++
		if diaries[device].between(e.LastSeen, e.Deadline) {
			t.Errorf("%s was judged at %v, and had been heard after %v and before %v", e.Subject, e.Time, e.LastSeen, e.Deadline)
		}
	}
	if judged == 0 {
		t.Error("nobody was judged, and some were silent for twice the timeout")
	}
	t.Logf("%d verdicts", judged)
}
