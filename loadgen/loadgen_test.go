package loadgen_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/loadgen/score"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/loadgen"
)

// The variable that makes this test binary a worker, and how such a worker ends.
const (
	workerEnv = "LOADGEN_TEST_WORKER"
	works     = "works"
	diesEarly = "dies early" // and says why
	diesLater = "dies:"      // after two seconds, if it is the one that can make this file
)

func TestMain(m *testing.M) {
	how := os.Getenv(workerEnv)
	switch how {
	case "":
		testenv.Together(16)                             // they wait
		goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // ants has two goroutines of its own
		return
	case diesEarly:
		fmt.Fprintln(os.Stderr, "out of everything")
		os.Exit(7)
	}
	if file, ok := strings.CutPrefix(how, diesLater); ok {
		if f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close()
			time.AfterFunc(2*time.Second, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
	}
	if err := loadgen.Work(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// worker is the command for a worker.
func worker(how string) []string { return []string{"env", workerEnv + "=" + how, os.Args[0]} }

// gateway is a small server of the protocol line.
type lineServer struct {
	net.Listener

	wg      sync.WaitGroup
	mu      sync.Mutex                      // guards conns
	conns   map[net.Conn]string             // to the id of the device
	welcome func(id string, n int64) string // the answer to a greeting, the n-th one
	greeted atomic.Int64
}

func welcomeAll(string, int64) string { return "OK 1 ttl=3\n" }

// serve runs a gateway until the test ends.
func serve(t *testing.T, address string, welcome func(id string, n int64) string) *lineServer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Skipf("listen: %v", err)
	}
	g := &lineServer{Listener: l, conns: map[net.Conn]string{}, welcome: welcome}
	g.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.mu.Lock()
			g.conns[c] = ""
			g.mu.Unlock()
			g.wg.Go(func() { g.talk(c) })
		}
	})
	t.Cleanup(g.gone)
	return g
}

// gone ends the gateway and all connections.
func (g *lineServer) gone() {
	_ = g.Close()
	g.mu.Lock()
	for c := range g.conns {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.wg.Wait()
}

// holds reports whether a device is connected.
func (g *lineServer) holds(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, device := range g.conns {
		if device == id {
			return true
		}
	}
	return false
}

func (g *lineServer) talk(c net.Conn) {
	defer func() {
		_ = c.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, c)
	}()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		answer := ""
		switch {
		case len(words) > 1 && words[0] == "HELLO":
			g.mu.Lock()
			g.conns[c] = words[1]
			g.mu.Unlock()
			if answer = g.welcome(words[1], g.greeted.Add(1)); answer == "reset" {
				_ = c.(*net.TCPConn).SetLinger(0)
				return
			}
		case len(words) > 1 && words[0] == "PING":
			answer = "PONG " + words[1] + "\n"
		case len(words) > 0 && words[0] == "BYE":
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// somePlan is a fleet that beats for some seconds.
func somePlan(devices int, length time.Duration, targets ...string) *plan.Plan {
	p := &plan.Plan{
		Name: "test", Devices: devices, Targets: targets, Interval: time.Second, Timeout: 3 * time.Second, Grace: time.Second,
		Ramp: 5000, Backoff: 100 * time.Millisecond, BackoffMax: time.Second,
		Phases: []plan.Phase{{Name: "all", Length: length}},
	}
	p.Fill()
	return p
}

// follower tells what it is given, and then waits.
type follower func(ctx context.Context, tell func(score.Verdict)) error

func (f follower) Follow(ctx context.Context, tell func(score.Verdict)) error {
	tell(score.Verdict{URL: "test", Kind: score.Following})
	if err := f(ctx, tell); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// allOnline says of all devices that they are there.
func allOnline(p *plan.Plan, tell func(score.Verdict)) {
	for n := range p.Devices {
		tell(score.Verdict{URL: "test", Device: p.DeviceID(n), Kind: score.Online, Seq: 1, Time: time.Now(), Seen: time.Now()})
	}
}

// want checks how a run ended: its status, and that its reasons hold all the texts.
func want(t *testing.T, f *report.Final, err error, status int, texts ...string) {
	t.Helper()
	var got int
	text := ""
	if e, ok := errors.AsType[*loadgen.Error](err); ok {
		got, text = e.Status, e.Error()
	}
	if got != status || err == nil != (status == 0) {
		t.Errorf("Run = %v, want status %d", err, status)
	}
	for _, part := range texts {
		if !strings.Contains(text, part) {
			t.Errorf("the reasons are %q, want %q in them", text, part)
		}
	}
	if f != nil && (f.Outcome.Status != got || f.Outcome.Passed != (status == 0) || len(f.Outcome.Reasons) == 0 != (status == 0)) {
		t.Errorf("Outcome = %+v, want status %d", f.Outcome, status)
	}
}

// last returns the last sample, or fails.
func last(t *testing.T, f *report.Final) report.Sample {
	t.Helper()
	if f == nil || len(f.Samples) == 0 {
		t.Fatal("there are no figures")
	}
	return f.Samples[len(f.Samples)-1]
}

func TestRunInProcesses(t *testing.T) {
	t.Parallel()
	g := serve(t, "127.0.0.1:0", welcomeAll)
	p := somePlan(300, 2*time.Second, g.Addr().String())
	f, err := loadgen.Run(t.Context(), loadgen.Config{Plan: p, Workers: 3, Command: worker(works)})
	want(t, f, err, 0)
	s := last(t, f)
	if s.Workers != 3 || s.Welcomed != 300 || s.Answered < 300 || s.Lost+s.Failed > 0 || s.CPU <= 0 || s.Memory == 0 {
		t.Errorf("at the end: %+v", s)
	}
	if f.RTT.Count < 300 || f.RTT.Count != f.RTTPlanned.Count || f.Connect.Count != 300 || f.Lateness.Count < f.RTT.Count {
		t.Errorf("histograms of %d, %d, %d, %d values", f.RTT.Count, f.RTTPlanned.Count, f.Connect.Count, f.Lateness.Count)
	}
	if spans := report.Spans(f.Samples); len(spans) < 2 || spans[0].Name != report.Ramp || spans[1].Name != "all" {
		t.Errorf("phases: %v", spans)
	}
	if n := g.greeted.Load(); n != 300 {
		t.Errorf("%d greetings, want 300", n)
	}
}

// What was done in one process and in several is the same.
func TestRunHere(t *testing.T) {
	t.Parallel()
	g := serve(t, "127.0.0.1:0", welcomeAll)
	p := somePlan(100, time.Second, g.Addr().String())
	f, err := loadgen.Run(t.Context(), loadgen.Config{Plan: p, Workers: 2})
	want(t, f, err, 0)
	if s := last(t, f); s.Workers != 2 || s.Welcomed != 100 {
		t.Errorf("at the end: %+v", s)
	}
}

func TestRunOverIPv6(t *testing.T) {
	t.Parallel()
	g := serve(t, "[::1]:0", welcomeAll)
	p := somePlan(50, time.Second, g.Addr().String())
	f, err := loadgen.Run(t.Context(), loadgen.Config{Plan: p})
	want(t, f, err, 0)
	if s := last(t, f); s.Welcomed != 50 {
		t.Errorf("at the end: %+v", s)
	}
}

// A name may have several addresses; localhost often has.
func TestRunToAName(t *testing.T) {
	t.Parallel()
	g := serve(t, "127.0.0.1:0", welcomeAll)
	_, port, _ := net.SplitHostPort(g.Addr().String())
	p := somePlan(50, time.Second, "localhost:"+port)
	loadgen.FillSources(p)
	addresses, err := net.DefaultResolver.LookupHost(t.Context(), "localhost")
	if err != nil || len(addresses) != 1 {
		t.Skipf("localhost is %v, %v", addresses, err)
	}
	f, err := loadgen.Run(t.Context(), loadgen.Config{Plan: p})
	want(t, f, err, 0)
}

func TestRunAgainstBadTargets(t *testing.T) {
	t.Parallel()
	half := func(_ string, n int64) string {
		if n <= 50 {
			return "OK 1 ttl=3\n"
		}
		return ""
	}
	tests := []struct {
		name    string
		welcome func(string, int64) string
		status  int
		texts   []string
	}{
		{"refuses", nil, loadgen.StatusNotRun, []string{"0 of 100 devices were welcomed", "ECONNREFUSED"}},
		{"resets", func(string, int64) string { return "reset" }, loadgen.StatusNotRun, []string{"0 of 100 devices were welcomed", "reset"}},
		{"never answers", func(string, int64) string { return "" }, loadgen.StatusNotRun, []string{"0 of 100 devices were welcomed", "greeting"}},
		{"answers half of them", half, loadgen.StatusNotRun, []string{"50 of 100 devices were welcomed", "greeting"}},
		{"garbage", func(string, int64) string { return "HTTP/1.1 400 Bad Request\r\n\r\n" }, loadgen.StatusNotRun, []string{"not of the protocol line"}},
		{"rejects", func(string, int64) string { return "ERR auth\n" }, loadgen.StatusNotRun, []string{"turned down", "--token"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := serve(t, "127.0.0.1:0", tt.welcome)
			if tt.welcome == nil {
				g.gone()
			}
			p := somePlan(100, time.Second, g.Addr().String())
			f, err := loadgen.Run(t.Context(), loadgen.Config{Plan: p, Patience: 4 * time.Second})
			want(t, f, err, tt.status, tt.texts...)
			if s := last(t, f); s.Connects == 0 {
				t.Errorf("no figures were kept: %+v", s)
			}
		})
	}
}

func TestRunLosesItsTarget(t *testing.T) {
	t.Parallel()
	g := serve(t, "127.0.0.1:0", welcomeAll)
	p := somePlan(100, 4*time.Second, g.Addr().String())
	p.Phases[0].Acts = []plan.Act{{Kind: plan.Signal, After: time.Second}}
	f, err := loadgen.Run(t.Context(), loadgen.Config{Plan: p, OnSignal: func(context.Context, plan.Step) error {
		g.gone()
		return errors.New("pulled the plug")
	}})
	want(t, f, err, loadgen.StatusFailed, "at the end 100 of 100 devices were not connected", "ECONNREFUSED")
	if s := last(t, f); s.Lost != 100 || s.Answered == 0 {
		t.Errorf("at the end: %+v", s)
	}
	noted := false
	for _, s := range f.Samples {
		noted = noted || len(s.Notes) > 0 && strings.Contains(s.Notes[0], "pulled the plug")
	}
	if !noted {
		t.Error("the signal's error is not noted")
	}
}

// runFunc is [loadgen.Run] against a gateway.
type runFunc func(cfg loadgen.Config) (*report.Final, error)

// simulate runs a test in a bubble, against a gateway in memory that says nothing.
func simulate(test func(t *testing.T, run runFunc)) func(t *testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, func(cfg loadgen.Config) (*report.Final, error) {
				g := begin(t, cfg.Plan, lie{blind: func(*liar) bool { return true }})
				defer g.end()
				return loadgen.Run(t.Context(), loadgen.With(cfg, g.devices.players))
			})
		})
	}
}

func TestRunScores(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		say    func(p *plan.Plan, tell func(score.Verdict)) error
		limits score.Limits
		status int
		texts  []string
	}{
		{"the truth", func(*plan.Plan, func(score.Verdict)) error { return nil }, score.Limits{}, 0, nil},
		{"a lie", func(p *plan.Plan, tell func(score.Verdict)) error {
			tell(score.Verdict{
				URL: "test", Device: p.DeviceID(7), Kind: score.Offline, Reason: score.ReasonSilence, Seq: 2, Time: time.Now(), Seen: time.Now(),
			})
			return nil
		}, score.Limits{}, loadgen.StatusFailed, []string{"1 × false offline", "dev-0000007"}},
		{"a lie that is allowed", func(p *plan.Plan, tell func(score.Verdict)) error {
			tell(score.Verdict{
				URL: "test", Device: p.DeviceID(7), Kind: score.Offline, Reason: score.ReasonSilence, Seq: 2, Time: time.Now(), Seen: time.Now(),
			})
			return nil
		}, score.Limits{Allowed: score.Allowed{score.FalseOffline: 1, score.Stuck: -1}}, 0, nil},
		{"a gap", func(p *plan.Plan, tell func(score.Verdict)) error {
			tell(score.Verdict{URL: "test", Device: p.DeviceID(7), Kind: score.Other, Seq: 3, Time: time.Now(), Seen: time.Now()})
			return nil
		}, score.Limits{}, loadgen.StatusFailed, []string{"1 × sequence gap,"}},
		{"no more", func(*plan.Plan, func(score.Verdict)) error { return errors.New("the door is shut") }, score.Limits{}, loadgen.StatusFailed, []string{
			"not read to the end: the door is shut",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, simulate(func(t *testing.T, run runFunc) { //nolint:thelper // it is the test
			p := somePlan(50, 4*time.Second, "127.0.0.1:1")
			f, err := run(loadgen.Config{Plan: p, Limits: tt.limits, Followers: []loadgen.Follower{{
				URL: "test", Follower: follower(func(ctx context.Context, tell func(score.Verdict)) error {
					allOnline(p, tell)
					select {
					case <-time.After(3 * time.Second):
					case <-ctx.Done():
					}
					return tt.say(p, tell)
				}),
			}}})
			want(t, f, err, tt.status, tt.texts...)
			if f.Verdicts == nil || len(f.Verdicts.Mistakes) == 0 || last(t, f).Score == nil {
				t.Errorf("there is no score: %+v", f.Verdicts)
			}
		}))
	}
}

// Whoever falls silent shortly before the end is waited for, and whoever is not called offline is missed.
func TestRunMissesVerdicts(t *testing.T) {
	simulate(func(t *testing.T, run runFunc) { //nolint:thelper // it is the test
		p := somePlan(50, 2*time.Second, "127.0.0.1:1")
		p.Phases[0].Acts = []plan.Act{{Kind: plan.Silent, Count: 3, After: time.Second}}
		f, err := run(loadgen.Config{Plan: p, Followers: []loadgen.Follower{{
			URL: "test", Follower: follower(func(_ context.Context, tell func(score.Verdict)) error {
				allOnline(p, tell)
				return nil
			}),
		}}})
		want(t, f, err, loadgen.StatusFailed, "3 × missed offline")
		if took := f.Duration(); took < p.Length()+p.Timeout {
			t.Errorf("it took %v, and did not wait", took)
		}
	})(t)
}

// Verdicts on the devices of a run before are none on this one.
func TestRunOnAServerThatWasUsed(t *testing.T) {
	tests := []struct {
		name   string
		offset uint64 // of the server's log
		says   int    // of how many devices it says something
		status int
	}{
		{"used", 100, 25, 0},
		{"used by the same devices", 100, 0, 0},
		{"fresh", 0, 25, loadgen.StatusFailed},
		{"fresh and silent", 0, 0, loadgen.StatusFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, simulate(func(t *testing.T, run runFunc) { //nolint:thelper // it is the test
			p := somePlan(50, time.Second, "127.0.0.1:1")
			f, err := run(loadgen.Config{Plan: p, Followers: []loadgen.Follower{{
				URL: "test", Knows: func(context.Context, string, time.Time, time.Time) (bool, error) { return true, nil },
				Follower: followFunc(func(ctx context.Context, tell func(score.Verdict)) error {
					now := time.Now()
					tell(score.Verdict{URL: "test", Kind: score.Following, Offset: tt.offset})
					for n := range tt.says {
						v := score.Verdict{URL: "test", Device: p.DeviceID(n), Kind: score.Offline, Reason: score.ReasonClosed, Seq: 1, Time: now, Seen: now}
						tell(v)
						v.Kind, v.Reason, v.Seq = score.Online, "", 2
						tell(v)
					}
					<-ctx.Done()
					return nil
				}),
			}}})
			want(t, f, err, tt.status)
		}))
	}
}

func TestRunCannotFollow(t *testing.T) {
	g := serve(t, "127.0.0.1:0", welcomeAll)
	tests := []struct {
		name   string
		follow func(ctx context.Context, tell func(score.Verdict)) error
		text   string
	}{
		{"refused", func(context.Context, func(score.Verdict)) error { return errors.New("no such door") }, "no such door"},
		{"no answer", func(ctx context.Context, _ func(score.Verdict)) error {
			<-ctx.Done()
			return nil
		}, "door does not answer"},
		{"broken", func(ctx context.Context, tell func(score.Verdict)) error {
			tell(score.Verdict{Kind: score.Broken, Reason: "it creaks"})
			<-ctx.Done()
			return nil
		}, "it creaks"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := loadgen.Run(t.Context(), loadgen.Config{
				Plan: somePlan(10, time.Second, g.Addr().String()), FollowTimeout: 100 * time.Millisecond,
				Followers: []loadgen.Follower{{URL: "door", Follower: followFunc(tt.follow)}},
			})
			want(t, f, err, loadgen.StatusNotRun, tt.text)
		})
	}
}

type followFunc func(ctx context.Context, tell func(score.Verdict)) error

func (f followFunc) Follow(ctx context.Context, tell func(score.Verdict)) error {
	return f(ctx, tell)
}

// A worker that is killed is reported, the others go on, and what is said of its devices counts neither for nor against anybody.
func TestRunLosesAWorker(t *testing.T) {
	t.Parallel()
	g := serve(t, "127.0.0.1:0", welcomeAll)
	p := somePlan(100, 5*time.Second, g.Addr().String())
	f, err := loadgen.Run(t.Context(), loadgen.Config{
		Plan: p, Workers: 2, Command: worker(diesLater + filepath.Join(t.TempDir(), "mine")),
		Followers: []loadgen.Follower{{URL: "test", Follower: follower(func(ctx context.Context, tell func(score.Verdict)) error {
			allOnline(p, tell)
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
				return nil
			}
			g.mu.Lock()
			left := len(g.conns)
			g.mu.Unlock()
			if left != 50 {
				t.Errorf("%d connections are left, want 50", left)
			}
			for n := range p.Devices {
				if v := (score.Verdict{URL: "test", Device: p.DeviceID(n), Kind: score.Offline, Reason: score.ReasonClosed, Seq: 2}); !g.holds(v.Device) {
					v.Time, v.Seen = time.Now(), time.Now()
					tell(v)
				}
			}
			return nil
		})}},
	})
	want(t, f, err, loadgen.StatusFailed, "died", "killed", "devices")
	if s := last(t, f); s.Workers != 1 || s.Dead != 1 || s.Welcomed != 50 {
		t.Errorf("at the end: %+v", s)
	}
	if n := len(f.Outcome.Reasons); n != 1 {
		t.Errorf("%d reasons, want the worker only: %q", n, f.Outcome.Reasons)
	}
	if v := f.Verdicts; v.Unjudged != 50 || v.UnjudgedDevices != 50 || v.Right != 0 {
		t.Errorf("%d verdicts on %d devices are unjudged, want all 50 on the 50 of the worker; and %d right", v.Unjudged, v.UnjudgedDevices, v.Right)
	}
}

func TestRunWithoutWorkers(t *testing.T) {
	g := serve(t, "127.0.0.1:0", welcomeAll)
	tests := []struct {
		name    string
		command []string
		texts   []string
	}{
		{"die at once", worker(diesEarly), []string{"died", "exit status 7", "out of everything"}},
		{"no program", []string{"/nowhere/holter"}, []string{"start a worker", "no such file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := somePlan(10, time.Second, g.Addr().String())
			f, err := loadgen.Run(t.Context(), loadgen.Config{Plan: p, Workers: 2, Command: tt.command})
			want(t, f, err, loadgen.StatusNotRun, tt.texts...)
		})
	}
}

// One interrupt ends a run in order, with what is known.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	g := serve(t, "127.0.0.1:0", welcomeAll)
	p := somePlan(100, time.Hour, g.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := loadgen.Run(ctx, loadgen.Config{Plan: p, Workers: 2, Command: worker(works), View: func(report.Run) report.View {
		return viewFunc(func(s *report.Sample) {
			if s.Welcomed == 100 && s.Answered > 0 {
				cancel()
			}
		})
	}})
	want(t, f, err, loadgen.StatusInterrupted, "interrupted")
	if s := last(t, f); s.Welcomed != 100 || s.Answered == 0 || f.RTT.Count == 0 {
		t.Errorf("at the end: %+v", s)
	}
}

type viewFunc func(*report.Sample)

func (f viewFunc) Show(s *report.Sample) error { f(s); return nil }
func (f viewFunc) End(*report.Final) error     { return nil }
func (f viewFunc) Close() error                { return nil }

func TestRunRefusesBadConfigs(t *testing.T) {
	good := func() *plan.Plan { return somePlan(10, time.Second, "127.0.0.1:1") }
	many := good()
	many.Devices = 100_000
	noPhases := good()
	noPhases.Phases = nil
	noName := good()
	noName.Targets = []string{"no.such.host.invalid:1"}
	elsewhere := good()
	elsewhere.Sources = addresses(t, "192.0.2.1")
	tests := []struct {
		name   string
		cfg    loadgen.Config
		status int
		text   string
	}{
		{"no plan", loadgen.Config{}, loadgen.StatusUsage, "Plan is missing"},
		{"bad plan", loadgen.Config{Plan: noPhases}, loadgen.StatusUsage, "phases"},
		{"too many workers", loadgen.Config{Plan: good(), Workers: 100_000}, loadgen.StatusUsage, "100000 workers"},
		{"negative pipeline", loadgen.Config{Plan: good(), Pipeline: -1}, loadgen.StatusUsage, "pipeline"},
		{"more connections than ports", loadgen.Config{Plan: many, Command: []string{"x"}}, loadgen.StatusNotRun, "--source 127.0.0.2-127.0.0."},
		{"unknown name", loadgen.Config{Plan: noName}, loadgen.StatusNotRun, "no.such.host.invalid"},
		{"source of another machine", loadgen.Config{Plan: elsewhere}, loadgen.StatusNotRun, "192.0.2.1 cannot be used"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := loadgen.Run(t.Context(), tt.cfg)
			want(t, f, err, tt.status, tt.text)
		})
	}
}

func TestWorkRefusesStrangers(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"=works")
	cmd.Stdin = strings.NewReader("hello\n")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "started by holter loadgen") {
		t.Errorf("it ended with %v and said %q", err, out)
	}
}

// A worker ends when whoever started it is gone.
func TestWorkEndsWithItsInput(t *testing.T) {
	if err := loadgen.Work(t.Context(), strings.NewReader(""), io.Discard); err == nil {
		t.Error("a worker without orders ended well")
	}
}
