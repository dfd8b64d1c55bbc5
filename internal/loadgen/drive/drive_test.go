package drive_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) {
	serveIfChild()
	testenv.Together(12)     // they wait
	goleak.VerifyTestMain(m, // but for what the gateway's libraries keep running in each process
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"))
}

// fleetPlan is a small fleet that beats often.
func fleetPlan(devices int, targets ...string) *plan.Plan {
	p := &plan.Plan{
		Name: "test", Seed: 1, Devices: devices, ID: "d%d", Targets: targets, Interval: 40 * time.Millisecond, Jitter: 0.1,
		Timeout: 3 * time.Second, Ramp: 10_000, Backoff: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
		Phases: []plan.Phase{{Name: "quiet", Length: time.Minute}},
	}
	p.Fill()
	return p
}

// TestClosed checks that heartbeats follow the answers, and that none is sent as planned.
func TestClosed(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	const devices, pipeline = 3, 4
	r := start(t, drive.Config{Plan: fleetPlan(devices, s.address()), Closed: true, Pipeline: pipeline})
	r.welcomed(devices)
	r.until("heartbeats", func() bool { return r.stats.Answered > 1000 })
	if waiting := r.stats.Sent - r.stats.Answered; waiting > devices*pipeline || len(r.stats.Errors) > 0 {
		t.Errorf("%d heartbeats are not answered, want at most %d; %v", waiting, devices*pipeline, r.stats.Errors)
	}
	p := fleetPlan(1, s.address())
	p.Protocol, p.Publish = plan.MQTT, "s/{device}/beat"
	if _, err := drive.New(drive.Config{Plan: p, Closed: true}); err == nil {
		t.Error("heartbeats without an answer are taken")
	}
}

// acting adds a phase in which all devices do the same.
func acting(p *plan.Plan, a plan.Act) *plan.Plan {
	a.All = true
	p.Phases = []plan.Phase{{Name: "act", Length: time.Minute, Acts: []plan.Act{a}}}
	return p
}

// run is a Drive that runs until the test ends, with all that it has told.
type run struct {
	*drive.Drive

	t      *testing.T
	ctx    context.Context //nolint:containedctx // the test's, with a limit
	stop   func()
	truths []plan.Truth
	losts  []plan.Truth // likewise, those of kind Lost
	stats  drive.Stats
}

func start(t *testing.T, cfg drive.Config) *run {
	t.Helper()
	d, err := drive.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	r := &run{Drive: d, t: t, ctx: ctx, stop: sync.OnceFunc(func() { cancel(); wg.Wait() })}
	t.Cleanup(r.stop)
	return r
}

// until waits for a condition.
func (r *run) until(what string, cond func() bool) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		r.stats = r.Stats()
		for _, t := range r.Truths() {
			if t.Kind == plan.Lost {
				r.losts = append(r.losts, t)
			} else {
				r.truths = append(r.truths, t)
			}
		}
		if cond() {
			return
		}
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			r.t.Fatalf("waiting for %s: %+v\ntruths %+v\nlosts %+v", what, r.stats, r.truths, r.losts)
		}
	}
}

func (r *run) welcomed(n int) {
	r.t.Helper()
	r.until("a welcome for all", func() bool { return r.stats.Welcomed == n })
}

// backAgain waits for the truth of a kind about device 0 to be told again.
func (r *run) backAgain(kind plan.Kind) plan.Truth {
	r.t.Helper()
	var found plan.Truth
	r.until("a truth to be told again", func() bool {
		i := slices.IndexFunc(r.truths, func(t plan.Truth) bool { return t.Device == 0 && t.Kind == kind && !t.Back.IsZero() })
		if i >= 0 {
			found = r.truths[i]
		}
		return i >= 0
	})
	return found
}

func (r *run) first(kind plan.Kind) {
	r.t.Helper()
	r.until("a truth", func() bool {
		return slices.ContainsFunc(r.truths, func(t plan.Truth) bool { return t.Device == 0 && t.Kind == kind })
	})
}

func TestBeats(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plan.Plan){
		"line":        func(*plan.Plan) {},
		"line, token": func(p *plan.Plan) { p.Token = "secret" },
		"mqtt ping":   func(p *plan.Plan) { p.Protocol = plan.MQTT },
		"mqtt with a will and a birth": func(p *plan.Plan) {
			p.Protocol, p.WillTopic, p.WillPayload, p.BirthPayload = plan.MQTT, "s/{device}", "offline", "online"
		},
		"mqtt publish": func(p *plan.Plan) { p.Protocol, p.Publish = plan.MQTT, "s/{device}/beat" },
		"mqtt publish with QoS 1": func(p *plan.Plan) {
			p.Protocol, p.Publish, p.QoS, p.User, p.Token = plan.MQTT, "s/{device}/beat", 1, "user", "secret"
		},
	} {
		for _, pipeline := range []int{1, 16} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := fleetPlan(20)
				change(p)
				s := newServer(t, "127.0.0.1:0", p.Protocol == plan.MQTT)
				p.Targets = []string{s.address()}
				r := start(t, drive.Config{Plan: p, Pipeline: pipeline})
				r.welcomed(20)
				answers := p.Publish == "" || p.QoS > 0
				lateness, rtt := int64(0), int64(0)
				r.until("heartbeats", func() bool {
					lateness += r.stats.Histograms[drive.Lateness].TotalCount()
					rtt += r.stats.Histograms[drive.RTT].TotalCount()
					return r.stats.Sent > 200 && (r.stats.Answered > 100) == answers && lateness > 10 && (rtt > 100) == answers
				})
				if len(r.stats.Errors) > 0 || len(r.losts) > 0 || r.stats.Open != 20 || r.stats.Seen != 20 {
					t.Errorf("after heartbeats: %+v, lost %v", r.stats, r.losts)
				}
				if n := s.count("d3", "birth"); p.BirthPayload != "" && n != 1 {
					t.Errorf("d3 was born %d times", n)
				}
				if r.stats.Memory == 0 || r.stats.CPU == 0 || r.stats.BytesOut == 0 || r.stats.BytesIn == 0 {
					t.Errorf("usage is missing: %+v", r.stats)
				}
			})
		}
	}
}

// The instants of a truth lie between what the server saw before and after: the kernel's order.
func TestActs(t *testing.T) {
	t.Parallel()
	away := 150 * time.Millisecond
	for _, mqtt := range []bool{false, true} {
		for _, c := range []struct {
			kind  plan.Kind
			ends  string // how the server saw the first connection end, "" if it did not
			hello int    // connections
		}{
			{plan.Bye, "bye", 2},
			{plan.Close, "closed", 2},
			{plan.Reset, "reset", 2},
			{plan.Silent, "", 1},
			{plan.Crash, "", 2},
			{plan.Sleep, "sleep", 1},
			{plan.Move, "closed", 2},
			{plan.Reconnect, "reset", 2},
		} {
			name := "line/"
			if mqtt {
				name = "mqtt/"
			}
			if mqtt && c.kind == plan.Sleep {
				continue
			}
			t.Run(name+c.kind.String(), func(t *testing.T) {
				t.Parallel()
				s := newServer(t, "127.0.0.1:0", mqtt)
				p := acting(fleetPlan(3, s.address()), plan.Act{Kind: c.kind, Back: away})
				if mqtt {
					p.Protocol = plan.MQTT
				}
				p.Sources = []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
				r := start(t, drive.Config{Plan: p})
				r.welcomed(3)
				r.until("beats", func() bool { return s.count("d0", "beat") > 2 })
				began := time.Now()
				r.Begin(began)
				truth := r.backAgain(c.kind)
				r.until("beats again", func() bool {
					e := s.of("d0")
					return len(e) > 2 && e[len(e)-1].what == "beat" && e[len(e)-2].what == "beat" && e[len(e)-1].at.After(truth.Back)
				})
				checkTruth(t, truth, s.of("d0"), c.ends)
				if n := s.count("d0", "hello"); n != c.hello {
					t.Errorf("%d greetings, want %d", n, c.hello)
				}
				if gone := truth.Back.Sub(began); gone < away {
					t.Errorf("it was back after %v, planned was %v", gone, away)
				}
				if len(r.losts) > 0 || len(r.stats.Errors) > 0 || !truth.Connected || r.stats.Steps != 3 || r.stats.StepsLeft != 0 {
					t.Errorf("lost %+v, errors %v, truth %+v, %d steps", r.losts, r.stats.Errors, truth, r.stats.Steps)
				}
				if moved := s.from("d0"); (len(moved) > 1) != (c.kind == plan.Move) {
					t.Errorf("it came from %v", moved)
				}
			})
		}
	}
}

// from returns the addresses, without ports, that a device came from.
func (s *server) from(id string) []string {
	var list []string
	for _, e := range s.of(id) {
		host, _, err := net.SplitHostPort(e.from)
		if err != nil {
			s.t.Error(err)
		}
		if !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	return list
}

func checkTruth(t *testing.T, truth plan.Truth, events []seenEvent, ends string) {
	t.Helper()
	if truth.Last.IsZero() || truth.Last.After(truth.At) || truth.At.After(truth.Back) {
		t.Errorf("the truth is out of order: %+v", truth)
	}
	var beat time.Time
	ended := ends == ""
	for _, e := range events {
		switch {
		case e.what == ends && !ended:
			ended = true
			if e.at.Before(truth.At) {
				t.Errorf("%s was seen at %v, before it was done at %v", e.what, e.at, truth.At)
			}
		case e.what == "beat" || e.what == "hello":
			if e.at.After(truth.At) && e.at.Before(truth.Back) && e.at.Sub(truth.Last) > 100*time.Millisecond {
				t.Errorf("a sign of life was seen at %v, in the absence %+v", e.at, truth)
			}
			if e.at.Before(truth.At) {
				beat = e.at
			}
		}
	}
	if !ended {
		t.Errorf("nobody saw %q: %+v", ends, events)
	}
	if beat.IsZero() {
		t.Errorf("no heartbeat before %v", truth.At)
	}
}

func TestForGood(t *testing.T) {
	t.Parallel()
	for _, kind := range []plan.Kind{plan.Bye, plan.Close, plan.Reset, plan.Silent, plan.Crash} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "127.0.0.1:0", false)
			p := acting(fleetPlan(4, s.address()), plan.Act{Kind: kind})
			r := start(t, drive.Config{Plan: p})
			r.welcomed(4)
			r.Begin(time.Now())
			r.until("all are away", func() bool { return r.stats.Away == 4 && len(r.truths) == 4 })
			s.hang(false) // nobody is there to mind
			r.until("no socket is open", func() bool { return r.stats.Open == 0 })
			if r.stats.Away != 4 || len(r.losts) > 0 || len(r.truths) != 4 || len(r.stats.Errors) > 0 {
				t.Errorf("%+v, lost %+v, truths %+v", r.stats, r.losts, r.truths)
			}
		})
	}
}

func TestReturnsAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []plan.Kind{plan.Move, plan.Reconnect} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "127.0.0.1:0", false)
			p := acting(fleetPlan(4, s.address()), plan.Act{Kind: kind})
			p.Sources = []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
			r := start(t, drive.Config{Plan: p})
			r.welcomed(4)
			r.Begin(time.Now())
			r.backAgain(kind)
			r.welcomed(4)
			if n := s.count("d0", "hello"); n != 2 {
				t.Errorf("%d greetings", n)
			}
		})
	}
}

func TestDuplicate(t *testing.T) {
	t.Parallel()
	for name, keepOld := range map[string]bool{"replaced": false, "both stay": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "127.0.0.1:0", false)
			s.set(func() { s.keepOld = keepOld })
			r := start(t, drive.Config{Plan: acting(fleetPlan(2, s.address()), plan.Act{Kind: plan.Duplicate})})
			r.welcomed(2)
			r.Begin(time.Now())
			truth := r.backAgain(plan.Duplicate)
			want := 2
			if keepOld {
				want = 4
			}
			r.until("the other connections are gone or not", func() bool { return r.stats.Open == want })
			n := s.count("d0", "beat")
			r.until("beats", func() bool { return s.count("d0", "beat") > n+3 })
			if !truth.Back.Equal(truth.At) || len(r.losts) > 0 || r.stats.Welcomed != 2 || len(r.stats.Errors) > 0 {
				t.Errorf("truth %+v, losts %+v, %+v", truth, r.losts, r.stats)
			}
		})
	}
}

// The first connection may hear of its duplicate before the duplicate is welcomed.
func TestDuplicateIsTold(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	s.set(func() {
		s.greet = func(id string, times int) string {
			if times > 1 {
				_, _ = io.WriteString(s.current[id], "ERR duplicate the device came back\n")
			}
			return ""
		}
	})
	r := start(t, drive.Config{Plan: acting(fleetPlan(2, s.address()), plan.Act{Kind: plan.Duplicate})})
	r.welcomed(2)
	r.Begin(time.Now())
	r.backAgain(plan.Duplicate)
	r.until("the other connections are gone", func() bool { return r.stats.Open == 2 })
	if len(r.losts) > 0 || len(r.stats.Errors) > 0 {
		t.Errorf("losts %+v, %+v", r.losts, r.stats)
	}
}

func TestDuplicateIsRefused(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"close", "reset", "ERR full no\n", "what?\n"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "127.0.0.1:0", false)
			s.set(func() {
				s.greet = func(_ string, times int) string {
					if times > 1 {
						return order
					}
					return ""
				}
			})
			r := start(t, drive.Config{Plan: acting(fleetPlan(1, s.address()), plan.Act{Kind: plan.Duplicate})})
			r.welcomed(1)
			r.Begin(time.Now())
			r.until("the failure is counted", func() bool { return r.stats.Errors[drive.CauseDuplicate] == 1 })
			n := s.count("d0", "beat")
			r.until("beats", func() bool { return s.count("d0", "beat") > n+3 })
			if len(r.truths) > 0 || len(r.losts) > 0 || r.stats.Open != 1 {
				t.Errorf("truths %+v, losts %+v, %+v", r.truths, r.losts, r.stats)
			}
		})
	}
}

func TestStall(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	p := acting(fleetPlan(2, s.address()), plan.Act{Kind: plan.Stall, Back: 300 * time.Millisecond})
	r := start(t, drive.Config{Plan: p})
	r.welcomed(2)
	began := time.Now()
	r.Begin(began)
	r.first(plan.Stall)
	answered := r.stats.Answered
	n := s.count("d0", "beat")
	r.until("it goes on sending", func() bool { return s.count("d0", "beat") > n+2 })
	if r.stats.Answered > answered+4 {
		t.Errorf("%d answers were read by devices that read nothing", r.stats.Answered-answered)
	}
	truth := r.backAgain(plan.Stall)
	r.until("all answers are read", func() bool { return r.stats.Answered+4 > r.stats.Sent })
	if truth.Back.Sub(began) < 300*time.Millisecond || len(r.losts) > 0 || len(r.stats.Errors) > 0 {
		t.Errorf("truth %+v, losts %+v, %+v", truth, r.losts, r.stats)
	}
}

func TestStalledDeviceIsClosed(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	p := acting(fleetPlan(1, s.address()), plan.Act{Kind: plan.Stall, Back: 400 * time.Millisecond})
	r := start(t, drive.Config{Plan: p})
	r.welcomed(1)
	r.Begin(time.Now())
	r.first(plan.Stall)
	s.hang(true)
	r.until("it is lost", func() bool { return len(r.losts) == 1 })
	if r.stats.Away != 1 {
		t.Errorf("a stalled device came back early: %+v", r.stats)
	}
	truth := r.backAgain(plan.Stall)
	r.until("the lost connection is told again", func() bool { return len(r.losts) == 2 })
	if l := r.losts[1]; l.Cause != drive.CauseReset || !l.Back.Equal(truth.Back) {
		t.Errorf("lost %+v, truth %+v", r.losts, truth)
	}
}

// A gateway that reads nothing: heartbeats do not fit any more, and that is told.
func TestSocketFull(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	s.set(func() { s.pong = func(string) string { return "block" } })
	p := fleetPlan(1, s.address())
	p.Interval = 5 * time.Millisecond
	r := start(t, drive.Config{Plan: p, Pipeline: 1024, AnswerTimeout: 50 * time.Millisecond})
	r.until("the socket is full", func() bool { return len(r.losts) > 0 })
	r.until("missing answers are counted", func() bool { return r.stats.Errors[drive.CauseUnanswered] > 0 })
	if l := r.losts[0]; l.Cause != drive.CauseSocketFull || l.Last.IsZero() || r.stats.Errors[drive.CauseUnanswered] != 1 {
		t.Errorf("%+v, errors %v", l, r.stats.Errors)
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	for _, reset := range []bool{false, true} {
		s := newServer(t, "127.0.0.1:0", false)
		p := fleetPlan(5, s.address())
		p.Interval, p.Timeout = time.Minute, time.Hour // with a heartbeat unread, a close would be a reset
		r := start(t, drive.Config{Plan: p})
		r.welcomed(5)
		s.hang(reset)
		r.until("all are back", func() bool { return r.stats.Welcomed == 5 && len(r.losts) == 10 })
		want := drive.CauseClosed
		if reset {
			want = drive.CauseReset
		}
		for i, l := range r.losts {
			if l.Cause != want && !reset || l.Last.IsZero() || l.Last.After(l.At) || (i >= 5) != !l.Back.IsZero() && i < 5 {
				t.Errorf("lost %d: %+v", i, l)
			}
		}
		if r.stats.Lost != 5 || r.stats.Seen != 5 {
			t.Errorf("%+v", r.stats)
		}
	}
}

func TestGreetings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		order, cause string
		mqtt         bool
	}{
		{order: "silence", cause: drive.CauseNoWelcome},
		{order: "close", cause: drive.CauseClosed},
		{order: "reset", cause: drive.CauseReset},
		{order: "HTTP/1.1 400 Bad Request\r\n", cause: drive.CauseGarbage},
		{order: strings.Repeat("x", 5000), cause: drive.CauseGarbage},
		{order: "PONG 1\n", cause: drive.CauseGarbage},
		{order: "ERR full the registry is full\n", cause: "rejected: full"},
		{order: "ERR made-up whatever\n", cause: drive.CauseRejected},
		{order: "ERR busy later\n", cause: "rejected: busy"},
		{order: "\x20\x02\x00\x05", cause: "rejected: not authorized", mqtt: true},
		{order: "\x20\x02\x00\x63", cause: "rejected: unknown return code", mqtt: true},
		{order: "\x20\x03\x00\x05\x00", cause: drive.CauseGarbage, mqtt: true},
		{order: "SSH-2.0\n", cause: drive.CauseGarbage, mqtt: true},
		{order: "\xD0\x00", cause: drive.CauseGarbage, mqtt: true},
	} {
		t.Run(c.cause, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "127.0.0.1:0", c.mqtt)
			s.set(func() {
				s.greet = func(_ string, times int) string {
					if times > 2 {
						return ""
					}
					return c.order
				}
			})
			p := fleetPlan(2, s.address())
			if c.mqtt {
				p.Protocol = plan.MQTT
			}
			// The first failure of each device, and that again with its return; and each other hello that may have been heard.
			want, heard := 4, !strings.HasPrefix(c.cause, drive.CauseRejected) || strings.HasSuffix(c.cause, "busy")
			if heard {
				want = 6
			}
			cfg := drive.Config{Plan: p}
			if c.order == "silence" {
				cfg.ConnectTimeout = time.Second // and long enough for a welcome on a machine that is busy
			}
			r := start(t, cfg)
			r.until("all are in", func() bool { return r.stats.Welcomed == 2 && len(r.losts) == want })
			if last := r.losts[want-1]; r.stats.Errors[c.cause] != 4 || r.stats.Failed != 4 || r.losts[0].Cause != c.cause || last.Back.IsZero() {
				t.Errorf("errors %v, losts %+v", r.stats.Errors, r.losts)
			}
			for _, l := range r.losts {
				if l.Greeted.IsZero() == heard || heard && l.Greeted.After(l.At) || !l.Last.IsZero() {
					t.Errorf("may be heard: %v; told %+v", heard, l)
				}
			}
		})
	}
}

// A device that is made to go while it waits for its welcome tells when it had said hello.
func TestActBeforeTheWelcome(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	s.set(func() {
		s.greet = func(_ string, times int) string {
			if times > 1 {
				return ""
			}
			return "silence"
		}
	})
	p := acting(fleetPlan(1, s.address()), plan.Act{Kind: plan.Reset, Back: 100 * time.Millisecond})
	r := start(t, drive.Config{Plan: p})
	r.until("it waits", func() bool { return r.stats.Connecting == 1 && s.count("d0", "hello") == 1 })
	r.Begin(time.Now())
	truth := r.backAgain(plan.Reset)
	if truth.Connected || truth.Greeted.IsZero() || truth.Greeted.After(truth.At) || !truth.Last.IsZero() {
		t.Errorf("%+v", truth)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		order, cause string
		lost         bool
	}{
		{order: "PONG 4000000000\n", cause: drive.CauseWrong},
		{order: "PONG x\n", cause: drive.CauseGarbage, lost: true},
		{order: "hello\n", cause: drive.CauseGarbage, lost: true},
		{order: "close", cause: drive.CauseClosed, lost: true},
		{order: "$$", cause: drive.CauseUnexpected},
		{order: "OK\n$", cause: drive.CauseUnexpected},
		{order: "ERR busy later\n$", cause: drive.CauseComplaint + ": busy"},
		{order: "silence", cause: drive.CauseUnanswered},
	} {
		t.Run(c.order, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "127.0.0.1:0", false)
			s.set(func() { s.pong = func(string) string { return c.order } })
			r := start(t, drive.Config{Plan: fleetPlan(1, s.address()), AnswerTimeout: 60 * time.Millisecond})
			r.until("it is counted", func() bool { return r.stats.Errors[c.cause] > 0 })
			if (len(r.losts) > 0) != c.lost || c.lost && r.losts[0].Cause != c.cause {
				t.Errorf("losts %+v", r.losts)
			}
		})
	}
}

// Answers that come in pieces are put together.
func TestPieces(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	pieces := []string{"PO", "NG 0\n$"}
	s.set(func() {
		s.pong = func(string) (piece string) {
			if len(pieces) > 0 {
				piece, pieces = pieces[0], pieces[1:]
			}
			return piece
		}
	})
	r := start(t, drive.Config{Plan: fleetPlan(1, s.address()), AnswerTimeout: time.Minute})
	r.until("answers", func() bool { return r.stats.Answered > 1 })
	if len(r.losts) > 0 {
		t.Errorf("losts %+v", r.losts)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	r := start(t, drive.Config{Plan: fleetPlan(3, address)})
	r.until("they try again", func() bool { return r.stats.Errors[drive.CauseRefused] > 9 })
	if len(r.losts) != 3 || r.losts[0].Cause != drive.CauseRefused || !r.losts[0].Last.IsZero() {
		t.Errorf("losts %+v", r.losts)
	}
	newServer(t, address, false)
	r.welcomed(3)
	if r.until("told", func() bool { return len(r.losts) == 6 }); r.losts[5].Back.IsZero() {
		t.Errorf("losts %+v", r.losts)
	}
}

// Acts happen to devices that are not connected, too.
func TestActsWithoutConnection(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	s.set(func() { s.greet = func(string, int) string { return "silence" } })
	p := fleetPlan(6, s.address())
	p.Sources = []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
	p.Phases = []plan.Phase{{Name: "one", Length: time.Second, Acts: []plan.Act{
		{Kind: plan.Stall, Count: 1},
		{Kind: plan.Duplicate, Count: 1},
		{Kind: plan.Bye, Count: 1},
		{Kind: plan.Crash, Count: 1, Back: 50 * time.Millisecond},
		{Kind: plan.Move, Count: 1},
		{Kind: plan.Reconnect, Count: 1},
	}}}
	r := start(t, drive.Config{Plan: p, ConnectTimeout: 2 * time.Second})
	r.until("all have greeted", func() bool { return len(s.of("d0")) > 0 && r.stats.Connecting == 6 })
	r.Begin(time.Now())
	r.until("all is done", func() bool { return r.stats.Steps == 6 && len(r.truths) == 4 })
	for _, truth := range r.truths {
		if truth.Connected || !truth.Last.IsZero() {
			t.Errorf("%+v", truth)
		}
	}
	if r.stats.Errors[drive.CauseNotConnected] != 2 {
		t.Errorf("errors %v", r.stats.Errors)
	}
	s.set(func() { s.greet = func(string, int) string { return "" } })
	r.until("all but the one that said goodbye are in", func() bool { return r.stats.Welcomed == 5 })
}

func TestTargets(t *testing.T) {
	t.Parallel()
	if ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "[::1]:0"); err != nil {
		t.Skipf("there is no IPv6: %v", err)
	} else {
		ln.Close()
	}
	four, six := newServer(t, "127.0.0.1:0", false), newServer(t, "[::1]:0", false)
	p := fleetPlan(40, four.address(), six.address())
	p.Sources = []netip.Addr{netip.MustParseAddr("127.0.0.7"), netip.MustParseAddr("127.0.0.8"), netip.MustParseAddr("::1")}
	r := start(t, drive.Config{Plan: p, From: 15, To: 25})
	r.welcomed(10)
	for n := 15; n < 25; n++ {
		s := four
		if n >= 20 {
			s = six
		}
		id := p.DeviceID(n)
		if got := s.count(id, "hello"); got != 1 {
			t.Errorf("%s greeted %d times where it belongs", id, got)
		}
		if got := s.from(id); n < 20 && !slices.Contains([]string{"127.0.0.7", "127.0.0.8"}, got[0]) {
			t.Errorf("%s came from %v", id, got)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	_, port, err := net.SplitHostPort(s.address())
	if err != nil {
		t.Fatal(err)
	}
	p := fleetPlan(4, "localhost:"+port)
	p.Sources = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	start(t, drive.Config{Plan: p}).welcomed(4)
}

func TestRampAndEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	r := start(t, drive.Config{Plan: fleetPlan(100, s.address()), Rate: 200, Connecting: 3, Start: time.Now().Add(-100 * time.Millisecond)})
	r.until("some have begun", func() bool { return r.stats.Seen > 0 })
	if r.stats.Seen == 100 {
		t.Errorf("the ramp took no time")
	}
	r.welcomed(100)
	r.stop()
	if s := r.Stats(); s.Open != 0 || s.Welcomed != 0 || s.Seen != 100 {
		t.Errorf("after the end: %+v", s)
	}
	if err := r.Run(t.Context()); err != drive.ErrRun { //nolint:errorlint // that very error
		t.Errorf("Run again: %v", err)
	}
}

func TestMistakes(t *testing.T) {
	good := func() drive.Config { return drive.Config{Plan: fleetPlan(10, "127.0.0.1:1")} }
	for name, c := range map[string]struct {
		change func(*drive.Config)
		want   string
	}{
		"no plan":            {func(c *drive.Config) { c.Plan = nil }, "Plan is missing"},
		"not of the fleet":   {func(c *drive.Config) { c.From, c.To = 5, 11 }, "devices 5 to 11"},
		"nobody":             {func(c *drive.Config) { c.From, c.To = 5, 5 }, "devices 5 to 5"},
		"a negative rate":    {func(c *drive.Config) { c.Rate = -1 }, "a rate of -1"},
		"much together":      {func(c *drive.Config) { c.Pipeline = 5000 }, "Pipeline is 5000"},
		"short ticks":        {func(c *drive.Config) { c.Tick = 1 }, "Tick is 1ns"},
		"nobody may connect": {func(c *drive.Config) { c.Connecting = -1 }, "Connecting is -1"},
		"a negative timeout": {func(c *drive.Config) { c.AnswerTimeout = -1 }, "timeout is negative"},
		"a wrong plan":       {func(c *drive.Config) { c.Plan.Targets = nil }, "targets"},
		"fast":               {func(c *drive.Config) { c.Plan.Interval = time.Millisecond }, "shorter than Tick"},
		"another protocol":   {func(c *drive.Config) { c.Plan.Protocol = "coap" }, "coap"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good()
			c.change(&cfg)
			if _, err := drive.New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New: %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestUnresolvable(t *testing.T) {
	for name, c := range map[string]struct{ target, source, want string }{
		"no such name": {"no-such-host.invalid:1", "", "no-such-host.invalid"},
		"other family": {"127.0.0.1:1", "::1", "same family"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fleetPlan(1, c.target)
			if c.source != "" {
				p.Sources = []netip.Addr{netip.MustParseAddr(c.source)}
			}
			d, err := drive.New(drive.Config{Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run: %v, want something with %q", err, c.want)
			}
		})
	}
}
