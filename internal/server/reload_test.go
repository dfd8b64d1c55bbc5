package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
)

// resolvedFrom resolves a file with a text.
func resolvedFrom(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Resolve(tempFile(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// liveOf returns what a front has of the configuration in force.
func liveOf(c config.Config) *atomic.Pointer[config.Config] {
	live := &atomic.Pointer[config.Config]{}
	live.Store(&c)
	return live
}

// Loggers follow the form of their log, also those that were derived from others before.
func TestLogsSwitch(t *testing.T) {
	var out bytes.Buffer
	l := newLogs(config.Log{Format: config.LogJSON}, "a", &out)
	log := l.logger()
	derived := log.With("a", 1).WithGroup("g").With("b", 2)
	derived.Debug("not shown")
	derived.Info("json")
	l.set(config.Log{Format: config.LogText, Level: slog.LevelDebug})
	derived.Debug("text", "c", 3)
	log.Debug("plain")
	l.set(config.Log{Format: config.LogJSON, Level: slog.LevelError})
	derived.Info("not shown")
	got := out.String()
	for _, want := range []string{`"msg":"json","node":"a","a":1,"g":{"b":2}}`, "text", "a=1 g.b=2 g.c=3", "plain"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "not shown") || strings.Count(got, "\n") != 3 {
		t.Errorf("the log:\n%s", got)
	}
}

// A signal from before the server listens to it is not lost, and one that comes while the server ends is logged.
func TestHangups(t *testing.T) {
	hangups, stop := Hangups()
	defer stop()
	signal := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	signal()
	reloaded, done, logged := make(chan string), make(chan struct{}), make(lines, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := reloading(ctx, hangups, slog.New(slog.NewTextHandler(logged, nil)), func(ctx context.Context, who string) (httpapi.Reloaded, error) {
		reloaded <- who
		select {
		case <-done:
		case <-ctx.Done():
		}
		return httpapi.Reloaded{}, ctx.Err()
	})
	defer end()
	if who := <-reloaded; who != "SIGHUP" {
		t.Errorf("%s asked for it", who)
	}
	done <- struct{}{}
	signal()
	<-reloaded
	cancel()
	const ending = `level=WARN msg="the configuration was not reloaded, because this process ends" by=SIGHUP`
	if line := <-logged; !strings.Contains(line, ending) {
		t.Errorf("a reload that the end interrupts logs %s", line)
	}
	signal()
	if line := <-logged; !strings.Contains(line, ending) {
		t.Errorf("a signal during the end logs %s", line)
	}
}

// lines receives what is written.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// What cannot be put in force stays as it was, is named, and holds up nothing else; the next reload tries it again.
func TestPlanFails(t *testing.T) {
	before := resolvedFrom(t, "http_rate: 5\nmax_devices: 10\nhttp_console: on\n")
	after := resolvedFrom(t, "http_rate: 6\nmax_devices: 11\nhttp_console: off\npolicy: {timeout: 20s}\n")
	p := newPlan(&before, &after, false)
	full := errors.New("full")
	p.do(func(c *config.Config) error {
		if c.Fleet.MaxDevices != 11 {
			t.Errorf("max_devices is %d", c.Fleet.MaxDevices)
		}
		return full
	}, fleetKeys()...)
	rate := 0
	p.do(func(c *config.Config) error { rate = c.HTTPRate; return nil }, "http_rate", "http_allow_origins")
	p.do(func(*config.Config) error { t.Error("playbooks have not changed"); return nil }, "playbooks")
	out := p.done()
	if rate != 6 || len(out.Changed) != 1 || out.Changed[0].Key != "http_rate" || len(out.Restart) != 1 || out.Restart[0].Key != "http_console" {
		t.Errorf("rate %d, %+v", rate, out)
	}
	if len(out.Failed) != 2 || out.Failed[0] != (httpapi.SettingChange{Key: "max_devices", Before: "10", After: "11", Error: "full"}) || out.Failed[1].Key != "policy.timeout" {
		t.Errorf("failed: %+v", out.Failed)
	}
	if p.next.Fleet.MaxDevices != 10 || p.next.Fleet.Policy.Timeout != 0 || p.next.Console != "on" || p.next.HTTPRate != 6 {
		t.Errorf("in force: %+v", p.next)
	}
	if left := p.next.Compare(&after); len(left) != 3 {
		t.Errorf("the next reload finds %+v", left)
	}
	if p := newPlan(&before, &after, true); len(p.out.Restart) != 0 || p.next.Console != "off" {
		t.Errorf("a standby: %+v", p.out)
	}
}

// A reload waits while a judge is being started, and notices that the role has changed meanwhile.
func TestRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r role
		r.set(nil, true)
		got := make(chan *server, 2)
		for range 2 {
			go func() {
				s, err := r.wait(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- s
			}()
		}
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("it did not wait")
		}
		s := &server{}
		r.set(s, false)
		if a, b := <-got, <-got; a != s || b != s {
			t.Error("it is not the judge")
		}
		if r.keep(nil, func() { t.Error("a standby's") }) || !r.keep(s, func() {}) {
			t.Error("keep does not know the role")
		}
		r.set(nil, true)
		if r.keep(s, func() { t.Error("that of a judge that has ended") }) {
			t.Error("the role has changed")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("wait = %v", err)
		}
		r.set(nil, false)
		if s, err := r.wait(t.Context()); s != nil || err != nil {
			t.Errorf("a standby: %v, %v", s, err)
		}
	})
}
