package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// TestTurns lets some work at a time, and the next one when one of them ends, or takes too long.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := make(turns, 2)
		var begun atomic.Int32
		var working sync.WaitGroup
		for range 5 {
			working.Go(func() {
				defer turns.takeTurn()()
				begun.Add(1)
				time.Sleep(turnLength - time.Millisecond)
			})
		}
		for _, want := range []int32{2, 4, 5} {
			synctest.Wait()
			if n := begun.Load(); n != want {
				t.Errorf("%d have begun, want %d", n, want)
			}
			time.Sleep(turnLength - time.Millisecond)
		}
		working.Wait()
		for range 3 {
			working.Go(func() {
				defer turns.takeTurn()()
				begun.Add(1)
				time.Sleep(time.Minute)
			})
		}
		time.Sleep(turnLength)
		synctest.Wait()
		if n := begun.Load(); n != 8 {
			t.Errorf("%d have begun, want all: two waited for something", n)
		}
		working.Wait()
		if len(turns) != 0 {
			t.Errorf("%d turns are taken when all have ended", len(turns))
		}
	})
}

// newIdleAPI returns an API whose Run functions are not called.
func newIdleAPI(t *testing.T) *API {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := registry.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	a, err := New(registry, LogEvents{Log: log}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newRequest(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
}

// TestWorkTakesTurns holds requests with work up while others have all turns; a heartbeat by itself needs none.
func TestWorkTakesTurns(t *testing.T) {
	a := newIdleAPI(t)
	for range cap(a.turns) {
		a.turns <- struct{}{}
	}
	work := []struct{ method, path, body string }{{"GET", "/v1/devices", ""}, {"GET", "/v1/stats", ""}, {"POST", "/v1/beats", `["b"]`}}
	var working sync.WaitGroup
	var done atomic.Int32
	for _, w := range work {
		working.Go(func() {
			answer := httptest.NewRecorder()
			a.Handler().ServeHTTP(answer, newRequest(t, w.method, w.path, w.body))
			done.Add(1)
			if answer.Code != http.StatusOK {
				t.Errorf("%s %s: %d %s", w.method, w.path, answer.Code, answer.Body)
			}
		})
	}
	for _, free := range []struct{ method, path string }{{"POST", "/v1/beat/a"}, {"GET", "/healthz"}, {"GET", "/readyz"}} {
		answer := httptest.NewRecorder()
		a.Handler().ServeHTTP(answer, newRequest(t, free.method, free.path, ""))
		if answer.Code != http.StatusOK {
			t.Errorf("%s %s: %d %s", free.method, free.path, answer.Code, answer.Body)
		}
	}
	if n := done.Load(); n != 0 {
		t.Errorf("%d requests with work did not wait for a turn", n)
	}
	for range cap(a.turns) {
		<-a.turns
	}
	working.Wait()
}

// TestRequestsYield wants a client that does not wait for answers to let others run after each request, and not when the scheduler steps in.
func TestRequestsYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a := newIdleAPI(t)
	const requests = 2000
	var others atomic.Int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				others.Add(1)
				runtime.Gosched()
			}
		}
	})
	request := newRequest(t, "GET", "/healthz", "")
	for range requests {
		a.Handler().ServeHTTP(httptest.NewRecorder(), request)
	}
	if n := others.Load(); n < requests/2 {
		t.Errorf("others ran %d times during %d requests", n, requests)
	}
	close(stop)
	running.Wait()
}
