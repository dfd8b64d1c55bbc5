package sessions_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/examples/sessions"
)

const idle = time.Minute

// newStore returns a store that ends with the test.
func newStore(t *testing.T, most int) *sessions.Store[int] {
	t.Helper()
	s, err := sessions.New[int](most, idle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return s
}

func put(t *testing.T, s *sessions.Store[int], keys ...string) {
	t.Helper()
	for i, key := range keys {
		if err := s.Put(key, i); err != nil {
			t.Fatal(err)
		}
	}
}

// A session that is used stays, one that is not goes once it was idle for long enough, and not before.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 10)
		put(t, s, "used", "idle")
		for range 5 {
			time.Sleep(idle / 2)
			if _, ok := s.Get("used"); !ok {
				t.Fatal("a session that was used every half of the idle time has expired")
			}
		}
		if _, ok := s.Get("idle"); ok || s.Len() != 1 {
			t.Errorf("the idle session is there: %v, and there are %d, want only the used one", ok, s.Len())
		}
		time.Sleep(idle - time.Second)
		if s.Len() != 1 {
			t.Error("the used session expired before its time")
		}
		time.Sleep(2 * time.Second)
		if s.Len() != 0 {
			t.Error("a session is there a second after its time")
		}
	})
}

// The least recently used session makes room, also for a key that is there.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 3)
		put(t, s, "a", "b", "c")
		s.Get("a")
		put(t, s, "d") // b goes
		put(t, s, "c") // nothing else goes
		var there []string
		for _, key := range []string{"a", "b", "c", "d"} {
			if _, ok := s.Get(key); ok {
				there = append(there, key)
			}
		}
		if want := []string{"a", "c", "d"}; !slices.Equal(there, want) {
			t.Errorf("there are %v, want %v", there, want)
		}
		if s.Delete("b") || !s.Delete("a") || s.Len() != 2 {
			t.Error("Delete is wrong about what was there")
		}
	})
}

// A session that replaced another one has its own time.
func TestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, 3)
		put(t, s, "a")
		time.Sleep(idle - time.Second)
		put(t, s, "a")
		time.Sleep(idle - time.Second)
		if _, ok := s.Get("a"); !ok {
			t.Error("the session expired at the time of the one that it replaced")
		}
	})
}

func TestConcurrent(t *testing.T) {
	s := newStore(t, 100)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 1000 {
				key := strconv.Itoa((i * (worker + 1)) % 150)
				if err := s.Put(key, i); err != nil {
					t.Error(err)
				}
				s.Get(key)
				if i%3 == 0 {
					s.Delete(key)
				}
			}
		})
	}
	all.Wait()
	if n := s.Len(); n > 100 {
		t.Errorf("%d sessions, want 100 at most", n)
	}
}

func TestBadConfig(t *testing.T) {
	for _, tt := range []struct {
		name string
		most int
		idle time.Duration
	}{{"no room", 0, time.Second}, {"no time", 1, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := sessions.New[int](tt.most, tt.idle); err == nil {
				t.Error("New took it")
			}
		})
	}
}

func Example() {
	carts, err := sessions.New[string](100_000, 30*time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := carts.Put("session-1", "two pumps"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(carts.Get("session-1"))
	// Output: two pumps true
}
