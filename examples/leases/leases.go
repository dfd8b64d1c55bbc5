// Package leases is a lease service on package liveness: one holder at a time has a name, for as long as
// it renews its lease.
//
// It shows what the listening clock is good for elsewhere. A service that counts the time of day takes
// away the leases of all holders when it was stopped for longer than they last: a suspended machine, a
// process that stood still. Here a lease ends when the *service* has listened for its whole length and
// heard no renewal.
//
// Each lease is a device of the registry, and its token is the epoch of the device's session. Tokens of a
// name rise, so that whatever the lease protects can refuse a former holder: it keeps the greatest token
// that it has seen. (Martin Kleppmann, "How to do distributed locking", 2016, calls that fencing.)
package leases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness"
)

var (
	// ErrHeld is wrapped by the error of [Service.Acquire] for a name that somebody holds.
	ErrHeld = errors.New("leases: the name is held")
	// ErrLost is returned for a lease that has ended, or never began.
	ErrLost = errors.New("leases: the lease is lost")
)

// Service grants leases. Its methods may be called concurrently. Make one with [New], and call
// [Service.Run].
type Service struct {
	registry *liveness.Registry
	source   *liveness.Source

	mu   sync.Mutex // guards held
	held map[string]*lease
}

// lease is held from Acquire until Release, or until the verdict on its holder is committed.
type lease struct {
	holder  string
	session liveness.Session
}

// New returns a service without leases.
func New() (*Service, error) {
	s := &Service{held: make(map[string]*lease)}
	registry, err := liveness.New(s, liveness.Config{})
	if err != nil {
		return nil, err
	}
	s.registry = registry
	s.source, err = registry.AddLocal("leases")
	return s, err
}

// Run ends leases until ctx is done.
func (s *Service) Run(ctx context.Context) error { return s.registry.Run(ctx) }

// Acquire gives a name to a holder for a time to live, a second at least, and returns the lease's token.
// Errors: ErrHeld, a name or a time that cannot be.
func (s *Service) Acquire(name, holder string, ttl time.Duration) (token uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.held[name]; l != nil {
		return 0, fmt.Errorf("%w by %s", ErrHeld, l.holder)
	}
	if ttl < time.Second {
		return 0, fmt.Errorf("leases: a lease of %v is too short, want a second or more", ttl)
	}
	l := &lease{holder: holder}
	welcome, err := s.source.Open(&l.session, name, liveness.Hello{Announced: liveness.Policy{Timeout: ttl}}, nil, s.now())
	if err != nil {
		return 0, err
	}
	s.held[name] = l
	return welcome.Epoch, nil
}

// Renew lets a lease begin anew. Errors: ErrLost, that of ctx.
func (s *Service) Renew(ctx context.Context, name string, token uint64) error {
	l, err := s.find(name, token)
	if err != nil {
		return err
	}
	l.session.Beat(s.now())
	if !l.session.Pending() {
		return nil
	}
	// Perhaps the verdict came first, and only waits to be committed. Then the lease is gone, whatever
	// was heard since.
	if err := s.registry.Commit(ctx); err != nil {
		return err
	}
	if _, err = s.find(name, token); err != nil {
		l.session.Bye(s.now())
	}
	return err
}

// Release ends a lease. Errors: ErrLost.
func (s *Service) Release(name string, token uint64) error {
	l, err := s.find(name, token)
	if err != nil {
		return err
	}
	s.end(name, token)
	l.session.Bye(s.now())
	return nil
}

// Holder returns who holds a name, with the lease's token.
func (s *Service) Holder(name string) (holder string, token uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.held[name]
	if l == nil {
		return "", 0, false
	}
	return l.holder, l.session.Epoch(), true
}

// Append implements [liveness.Sink]: the verdict ends the lease that it is about, and no later one.
func (s *Service) Append(_ context.Context, events []liveness.Event) error {
	for i := range events {
		if e := &events[i]; e.Type == liveness.DeviceOffline {
			s.end(e.Subject, e.Epoch)
		}
	}
	return nil
}

func (s *Service) now() time.Duration { return s.source.Time(time.Now()) }

func (s *Service) find(name string, token uint64) (*lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.held[name]; l != nil && l.session.Epoch() == token {
		return l, nil
	}
	return nil, ErrLost
}

func (s *Service) end(name string, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.held[name]; l != nil && l.session.Epoch() == token {
		delete(s.held, name)
	}
}
