package leases_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/examples/leases"
)

const ttl = 10 * time.Second

// start runs a service until stop is called.
func start(t *testing.T) (s *leases.Service, stop func()) {
	t.Helper()
	s, err := leases.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	synctest.Wait()
	return s, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func acquire(t *testing.T, s *leases.Service, holder string) uint64 {
	t.Helper()
	token, err := s.Acquire("leader", holder, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A lease that is renewed stays; one that is not ends after its time, and the next holder has a greater token.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := start(t)
		defer stop()
		first := acquire(t, s, "a")
		for range 5 {
			time.Sleep(ttl / 2)
			if err := s.Renew(t.Context(), "leader", first); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Acquire("leader", "b", ttl); !errors.Is(err, leases.ErrHeld) {
				t.Fatalf("Acquire = %v, want ErrHeld", err)
			}
		}
		time.Sleep(ttl - time.Second)
		if holder, _, ok := s.Holder("leader"); !ok || holder != "a" {
			t.Fatal("the lease ended before its time")
		}
		time.Sleep(2 * time.Second)
		if _, _, ok := s.Holder("leader"); ok {
			t.Fatal("the lease is held a second after its time")
		}
		second := acquire(t, s, "b")
		if second <= first {
			t.Errorf("tokens %d, then %d; want a greater one", first, second)
		}
		if err := s.Renew(t.Context(), "leader", first); !errors.Is(err, leases.ErrLost) {
			t.Errorf("Renew by the former holder = %v, want ErrLost", err)
		}
		if err := s.Release("leader", first); !errors.Is(err, leases.ErrLost) {
			t.Errorf("Release by the former holder = %v, want ErrLost", err)
		}
		if holder, _, _ := s.Holder("leader"); holder != "b" {
			t.Errorf("%q holds the name, want b", holder)
		}
	})
}

// A renewal that comes at the instant of the verdict is either answered with ErrLost, or the lease goes on.
func TestRenewedAtTheEnd(t *testing.T) {
	kept, lost := 0, 0
	for at := ttl - 300*time.Millisecond; at < ttl+300*time.Millisecond; at += 10 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s, stop := start(t)
			defer stop()
			token := acquire(t, s, "a")
			time.Sleep(at)
			err := s.Renew(t.Context(), "leader", token)
			time.Sleep(ttl / 2)
			_, now, held := s.Holder("leader")
			switch {
			case err == nil && held && now == token:
				kept++
			case errors.Is(err, leases.ErrLost) && !held:
				lost++
			default:
				t.Errorf("renewed after %v: Renew = %v, and the lease is held: %v", at, err, held)
			}
		})
	}
	if kept == 0 || lost == 0 {
		t.Errorf("%d kept, %d lost: want some of both, or nothing was tried", kept, lost)
	}
}

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := start(t)
		defer stop()
		first := acquire(t, s, "a")
		if err := s.Release("leader", first); err != nil {
			t.Fatal(err)
		}
		if second := acquire(t, s, "b"); second <= first {
			t.Errorf("tokens %d, then %d; want a greater one", first, second)
		}
		time.Sleep(time.Second) // the end of the first lease is told by now
		if holder, _, _ := s.Holder("leader"); holder != "b" {
			t.Errorf("%q holds the name, want b", holder)
		}
	})
}

func TestBadLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := start(t)
		defer stop()
		for _, tt := range []struct {
			what, name string
			ttl        time.Duration
		}{{"too short", "leader", time.Millisecond}, {"no name", "", ttl}} {
			if _, err := s.Acquire(tt.name, "a", tt.ttl); err == nil {
				t.Errorf("%s: Acquire took it", tt.what)
			}
		}
	})
}

func Example() {
	s, err := leases.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	token, err := s.Acquire("leader", "node-1", 10*time.Second)
	fmt.Println("token", token, err)
	_, err = s.Acquire("leader", "node-2", 10*time.Second)
	fmt.Println(err)
	fmt.Println("renewed:", s.Renew(ctx, "leader", token))
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// token 1 <nil>
	// leases: the name is held by node-1
	// renewed: <nil>
	// ended: <nil>
}
