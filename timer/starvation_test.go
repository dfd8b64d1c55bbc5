package timer_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

// A timer gets its turn although goroutines that always have something to do share one processor with it (go.dev/issue/65178).
func TestStarvation(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e, err := timer.Start(timer.Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var busy sync.WaitGroup
	c := make(chan struct{}, 1)
	busy.Go(func() {
		for !stop.Load() {
			c <- struct{}{}
		}
		close(c)
	})
	busy.Go(func() {
		for range c {
		}
	})
	if _, err := e.AfterFunc(time.Microsecond, func() { stop.Store(true) }); err != nil {
		t.Error(err)
		stop.Store(true)
	}
	busy.Wait()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
