package schedule_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/schedule"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // what runs by now are the goroutines of the ants package
}

// fixture is an engine in a bubble, whose time begins at 2000-01-01T00:00:00Z, a Saturday.
type fixture struct {
	*schedule.Engine

	t     *testing.T
	start time.Time
	jump  atomic.Int64 // by which the clock on the wall was set
	stop  func()       // ends Run, and waits for it
}

// bubble runs f in a bubble, with an engine that runs, and ends it afterwards.
func bubble(t *testing.T, cfg schedule.Config, f func(e *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &fixture{t: t, start: time.Now()}
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(e.jump.Load())) }
		if cfg.Location == nil {
			cfg.Location = time.UTC
		}
		engine, err := schedule.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		e.Engine = engine
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- engine.Run(ctx) }()
		e.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		f(e)
		e.stop()
	})
}

// sleep lets time pass, and waits until all that came of it is done.
func (e *fixture) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// set sets the clock on the wall, and waits until that is noticed.
func (e *fixture) set(by time.Duration) {
	e.jump.Add(int64(by))
	e.sleep(1100 * time.Millisecond)
}

// log notes when runs began, since the start of the bubble.
type log struct {
	mu    sync.Mutex // guards the fields below
	start time.Time
	at    []time.Duration
	runs  []schedule.Run
}

func (e *fixture) log() *log { return &log{start: e.start} }

func (l *log) run() { l.note(context.Background(), schedule.Run{}) }

func (l *log) note(_ context.Context, r schedule.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Since(l.start).Round(time.Millisecond))
	l.runs = append(l.runs, r)
}

// take returns what has been noted since it was called last.
func (l *log) take() ([]time.Duration, []schedule.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, runs := l.at, l.runs
	l.at, l.runs = nil, nil
	return at, runs
}

func (l *log) want(t *testing.T, when string, want ...time.Duration) {
	t.Helper()
	if got, _ := l.take(); !slices.Equal(got, want) {
		t.Errorf("%s: ran at %v, want %v", when, got, want)
	}
}

// wantScheduled checks the instants that runs were for.
func (l *log) wantScheduled(t *testing.T, when string, want ...string) {
	t.Helper()
	_, runs := l.take()
	var got []string
	for _, r := range runs {
		got = append(got, r.Scheduled.Format(time.RFC3339))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: ran for %v, want %v", when, got, want)
	}
}

// added is for what adding returned.
func (e *fixture) added(h *schedule.Handle, err error) *schedule.Handle {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
	return h
}

const (
	second = time.Second
	minute = time.Minute
)
