package gateway_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/internal/remote"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// judge is a judge as another process would be one: what it is asked is done later, in order, and
// answered once it is committed.
type judge struct {
	registry  *liveness.Registry
	source    *liveness.Source
	datagrams *liveness.Source
	another   *liveness.Source // of another gateway's datagrams
	losses    uint64
	gateway   *gateway.Gateway
	packets   bool // the gateway has a listener for them
	queue     chan func()
}

// judgesElsewhere makes the gateways of a test ask a judge.
var judgesElsewhere bool

// nowhere is a sink that takes everything.
type nowhere struct{}

func (nowhere) Append(context.Context, []liveness.Event) error { return nil }

// newJudge returns a judge, and the registry of its gateway.
func newJudge(t *testing.T, fleet *liveness.Registry) (*judge, *liveness.Registry) {
	t.Helper()
	source, err := fleet.AddSource(liveness.SourceConfig{Name: "gateway"})
	if err != nil {
		t.Fatal(err)
	}
	datagrams, err := fleet.AddSource(liveness.SourceConfig{Name: "gateway-udp", Pool: "udp", Connectionless: true})
	if err != nil {
		t.Fatal(err)
	}
	another, err := fleet.AddSource(liveness.SourceConfig{Name: "gateway-udp/another", Pool: "udp", Connectionless: true}) // it never listens
	if err != nil {
		t.Fatal(err)
	}
	empty, err := liveness.New(nowhere{}, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &judge{registry: fleet, source: source, datagrams: datagrams, another: another, queue: make(chan func(), 1024)}, empty
}

// run keeps the clock, and does what is asked.
func (j *judge) run(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	j.source.Pulse(time.Now())
	j.datagrams.Pulse(time.Now())
	for {
		select {
		case do := <-j.queue:
			do()
		case <-tick.C:
			now := time.Now() // a tick may have waited
			listened := j.source.Pulse(now)
			j.gateway.Operator().Pass(func() { j.queue <- func() { j.source.Watermark(0, listened) } })
			if j.packets {
				j.passDatagrams(now)
			}
		case <-ctx.Done():
			return
		}
	}
}

// passDatagrams moves the clock of datagrams, unless some are lost.
func (j *judge) passDatagrams(now time.Time) {
	listened := j.datagrams.Time(now)
	if j.losses%2 == 0 {
		listened = j.datagrams.Pulse(now)
	}
	j.gateway.Operator().PassDatagrams(func(losses uint64) {
		j.queue <- func() {
			if losses != j.losses || losses%2 == 1 {
				j.losses = losses
				j.datagrams.Deafen(time.Now())
				return
			}
			j.datagrams.Watermark(0, listened)
		}
	})
}

// at returns the listening time of something that was heard when the gateway showed heard.
func (s *farSession) at(heard time.Duration) time.Duration {
	age := s.judge.gateway.Operator().Elapsed() - heard // first: what the machine does in between must not make a sign of life older
	past := s.source.Owner().Past(time.Now())
	return past.At(age)
}

type farSession struct {
	liveness.Session

	judge  *judge
	source *liveness.Source
	id     string
	peer   liveness.Peer
	mu     sync.Mutex // guards open and epoch
	open   bool
	epoch  uint64
}

func (j *judge) Open(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) remote.Session {
	s := &farSession{judge: j, source: j.source, id: strings.Clone(id), peer: peer}
	s.reopen(heard, h, peer, done)
	return s
}

func (j *judge) OpenDatagrams(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) remote.Session {
	s := &farSession{judge: j, source: j.datagrams, id: strings.Clone(id), peer: peer}
	s.reopen(heard, h, peer, done)
	return s
}

func (s *farSession) reopen(heard time.Duration, h liveness.Hello, peer liveness.Peer, done func(liveness.Welcome, error)) {
	s.ask(func() (liveness.Welcome, error) {
		w, err := s.source.Open(&s.Session, s.id, h, peer, s.at(heard))
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.open, s.epoch = true, w.Epoch
		}
		return w, err
	}, done)
}

func (s *farSession) ask(do func() (liveness.Welcome, error), done func(liveness.Welcome, error)) {
	s.judge.queue <- func() {
		w, err := do()
		s.judge.registry.AfterCommit(func(committed bool) {
			if !committed {
				err = liveness.ErrBusy
			}
			go done(w, err)
		})
	}
}

func (s *farSession) ID() string { return s.id }

func (s *farSession) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

func (s *farSession) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	peer, ok := s.judge.registry.Peer(s.id)
	return s.open && (!ok || peer != s.peer)
}

func (s *farSession) Judged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open && s.Session.Judged()
}

func (s *farSession) Beat(heard time.Duration) bool {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	if !open {
		s.judge.queue <- func() { s.Session.Beat(s.at(heard)) }
		return true
	}
	return s.Session.Beat(s.at(heard))
}

func (s *farSession) Reopen(heard time.Duration, h liveness.Hello, done func(liveness.Welcome, error)) {
	s.reopen(heard, h, s.peer, done)
}

func (s *farSession) UpdatePolicy(heard time.Duration, p liveness.Policy, done func(liveness.Welcome, error)) {
	s.ask(func() (liveness.Welcome, error) {
		p, err := s.Session.UpdatePolicy(s.at(heard), p)
		return liveness.Welcome{Policy: p}, err
	}, done)
}

func (s *farSession) Sleep(heard, length time.Duration, done func(liveness.Welcome, error)) {
	s.ask(func() (liveness.Welcome, error) {
		granted, err := s.Session.Sleep(s.at(heard), length)
		return liveness.Welcome{Granted: granted}, err
	}, done)
}

func (s *farSession) Fail(heard time.Duration, message string, done func(liveness.Welcome, error)) {
	s.ask(func() (liveness.Welcome, error) {
		return liveness.Welcome{}, s.Session.Fail(s.at(heard), message)
	}, done)
}

func (s *farSession) Bye(heard time.Duration, done func(liveness.Welcome, error)) {
	s.ask(func() (liveness.Welcome, error) {
		if !s.Session.Bye(s.at(heard)) {
			return liveness.Welcome{}, liveness.ErrReplaced
		}
		return liveness.Welcome{}, nil
	}, done)
}

func (s *farSession) Close(heard time.Duration, why liveness.Reason) {
	s.judge.queue <- func() { s.Session.Close(s.at(heard), why) }
}

func (s *farSession) Release(heard time.Duration) {
	s.judge.queue <- func() { s.Session.Release(s.at(heard)) }
}

// A gateway whose devices are judged elsewhere does what others do.
func TestJudgedElsewhere(t *testing.T) {
	judgesElsewhere = true
	t.Cleanup(func() { judgesElsewhere = false })
	if testenv.Checks() {
		t.Run("flood", TestFlood)
	}
	for name, test := range map[string]func(*testing.T){
		"thread": TestThread, "conversations": TestConversations, "how it ends": TestHowItEnds, "replaced": TestReplaced,
		"challenge": TestChallenge, "registration": TestRegistration, "dismissed": TestDismissed, "slots": TestSlots, "evicted": TestEvicted,
		"slow reader": TestSlowReader, "idle": TestIdle, "shutdown": TestShutdown, "revoked": TestRevoked, "probe": TestProbe,
		"MQTT presence": TestMQTTPresence, "MQTT guest": TestMQTTGuest, "MQTT large message": TestMQTTLargeMessage, "how TLS ends": TestHowTLSEnds, "TLS in pieces": TestTLSPieces, "TLS replaced": TestTLSReplaced, "TLS behind a message": TestTLSBehindAMessage,
		"TLS panics": TestTLSPanic, "TLS shutdown": TestTLSShutdown, "through a proxy": TestThroughProxy,
	} {
		t.Run(name, test)
	}
}

// What a device says behind something that the judge is asked waits, and is a sign of life. An error
// of the judge ends the connection as it would here.
func TestAskedElsewhere(t *testing.T) {
	judgesElsewhere = true
	t.Cleanup(func() { judgesElsewhere = false })
	for _, carrier := range []string{"plain", "TLS"} {
		t.Run(carrier, func(t *testing.T) {
			log, err := eventlog.New(0)
			if err != nil {
				t.Fatal(err)
			}
			k := newKeys(t)
			cfg := gateway.Config{Guard: secret}
			if carrier == "TLS" {
				cfg = k.config()
				cfg.Guard = secret
			}
			r := startOn(t, log, liveness.Config{}, cfg)
			dial := func() *device {
				if carrier == "TLS" {
					return r.dialTLS(k)
				}
				return r.dial()
			}
			d := dial()
			d.say("HELLO pump s3cret ttl=7s epoch=5\nPING 1\nSLEEP 60\nPING 2\nTTL 9s\nFAIL valve stuck\nHELLO pump s3cret ttl=8s epoch=6\nPING 3\n")
			for _, want := range []string{"OK 5 ttl=7", "PONG 1", "OK sleep=60", "PONG 2", "TTL 9", "OK", "OK 6 ttl=8", "PONG 3"} {
				d.expect(want)
			}
			if v := r.device("pump"); v.State != liveness.Online || v.Epoch != 6 || v.Policy.Timeout != 8*time.Second {
				t.Errorf("the device is %+v", v)
			}
			stale := dial()
			stale.say("HELLO pump s3cret epoch=4\n")
			stale.expect("ERR stale-epoch…")
			if _, err := io.ReadAll(stale.in); err != nil {
				t.Errorf("the end of a stale connection: %v", err)
			}
			d.say("BYE\n")
			d.expect("BYE")
			if v := r.device("pump"); v.State != liveness.Offline || v.Reason != liveness.Bye {
				t.Errorf("after its goodbye the device is %+v", v)
			}
			d = dial()
			d.say("HELLO pump s3cret ttl=7s epoch=7\n")
			d.expect("OK 7 ttl=7")
			_ = d.conn.Close()
			testwait.Until(t, "the end of the connection is known", func() bool { return !r.device("pump").Connected })
		})
	}
}

// What a device says before it closes the connection counts, also if the judge is asked for longer.
func TestLastWordsElsewhere(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		for _, carrier := range []string{"plain", "TLS"} {
			t.Run(fmt.Sprint(carrier, " elsewhere=", elsewhere), func(t *testing.T) {
				judgesElsewhere = elsewhere
				t.Cleanup(func() { judgesElsewhere = false })
				k := newKeys(t)
				cfg := gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}}
				if carrier == "TLS" {
					cfg = k.config()
				}
				cfg.Listen[0].Protocols = []codec.Protocol{jt808.Protocol{}}
				r, v := startValved(t, liveness.Config{}, cfg)
				for i := range 5 {
					id := strconv.Itoa(13800138000 + i)
					v.set(true)
					d := r.dial()
					if carrier == "TLS" {
						d.secure(k.client())
					}
					d.say(string(jt808.Client{}.AppendBye(nil, id)))
					_ = d.conn.(interface{ CloseWrite() error }).CloseWrite()
					testwait.Until(t, "the device is heard", func() bool { return r.registry.Stats().Queued > 0 })
					v.set(false)
					testwait.Until(t, "the device has gone", func() bool {
						view, err := r.registry.Device(id)
						return err == nil && view.State == liveness.Offline
					})
					if view := r.device(id); view.Reason != liveness.Bye {
						t.Errorf("the device is offline for %v, want its goodbye", view.Reason)
					}
				}
			})
		}
	}
}

// Nobody waits at the end for a judge that does not answer.
func TestShutdownWithoutJudge(t *testing.T) {
	k := newKeys(t)
	cfg := k.config()
	cfg.Judge = silent{}
	r := startRig(t, liveness.Config{}, cfg)
	d := r.dialTLS(k)
	d.say("HELLO pump\n")
	testwait.Until(t, "the judge is asked", func() bool { return r.gateway.Stats().Messages > 0 })
	r.stop()
	d.expect("BYE …")
}

// silent is a judge that never answers.
type silent struct{}

func (s silent) OpenDatagrams(id string, h liveness.Hello, p liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) remote.Session {
	return s.Open(id, h, p, heard, done)
}

func (silent) Open(string, liveness.Hello, liveness.Peer, time.Duration, func(liveness.Welcome, error)) remote.Session {
	return mute{}
}

type mute struct{ remote.Session }

func (mute) ID() string                           { return "" }
func (mute) Ended() bool                          { return false }
func (mute) Close(time.Duration, liveness.Reason) {}
func (mute) Release(time.Duration)                {}
