package timer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/timer"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // what runs by now are the goroutines of the ants package
}

const resolution = timer.Resolution

// fixture is an engine on a hand-moved clock, in a bubble.
type fixture struct {
	*timer.Engine

	clock *timer.Manual
	t     *testing.T
}

// bubble runs f in a bubble, with an engine of one shard and one worker unless cfg says otherwise,
// and closes it afterwards.
func bubble(t *testing.T, cfg timer.Config, f func(e *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := new(timer.Manual)
		cfg.Clock = clock
		if cfg.Shards == 0 {
			cfg.Shards = 1
		}
		if cfg.Workers == 0 {
			cfg.Workers = 1
		}
		e, err := timer.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		f(&fixture{Engine: e, clock: clock, t: t})
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// advance moves the clock, and waits until all that came of it is done.
func (e *fixture) advance(d time.Duration) {
	e.clock.Advance(d)
	synctest.Wait()
}

// set is advance to an instant.
func (e *fixture) set(at time.Duration) {
	e.clock.Set(at)
	synctest.Wait()
}

func (e *fixture) group(h timer.Handler) *timer.Group {
	e.t.Helper()
	g, err := e.Group(h)
	if err != nil {
		e.t.Fatal(err)
	}
	return g
}

// armed is for what an arming returned.
func (e *fixture) armed(id timer.ID, err error) timer.ID {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
	return id
}

// recorder is a handler that notes what expires.
type recorder struct {
	mu      sync.Mutex // guards the fields below
	expired []timer.Expired
	calls   int
}

func (r *recorder) handle(expired []timer.Expired) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expired = append(r.expired, expired...)
	r.calls++
}

// take returns what has expired since it was called last.
func (r *recorder) take() []timer.Expired {
	r.mu.Lock()
	defer r.mu.Unlock()
	expired := r.expired
	r.expired = nil
	return expired
}

// want checks the data of what has expired since the last look, in order.
func (r *recorder) want(t *testing.T, when string, want ...uint64) {
	t.Helper()
	if got := dataOf(r.take()); !slices.Equal(got, want) {
		t.Errorf("%s: expired %v, want %v", when, got, want)
	}
}

func dataOf(expired []timer.Expired) (data []uint64) {
	for _, x := range expired {
		data = append(data, x.Data)
	}
	return data
}

// ceil returns the first instant at or after d that a deadline can lie at.
func ceil(d time.Duration) time.Duration { return ceilTo(d, resolution) }

func ceilTo(d, unit time.Duration) time.Duration {
	return max(times(int((d+unit-1)/unit), unit), unit)
}

func times(n int, d time.Duration) time.Duration { return time.Duration(n) * d }
