// Package sessions keeps sessions in memory: at most so many, the least recently used out first, and
// each until it was idle for a while. It shows package timer where a time.Timer for each session, or a
// scan of all of them, would be the usual way.
//
// A use of a session is one [timer.Engine.Touch]: the timer's heap is not moved, however often the
// session is used.
package sessions

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holter-iot/holter/timer"
)

// Store holds sessions by their keys. Its methods may be called concurrently.
type Store[V any] struct {
	most   int
	idle   time.Duration
	engine *timer.Engine
	group  *timer.Group

	mu       sync.Mutex // guards the fields below
	byKey    map[string]*list.Element
	byNumber map[uint64]*list.Element // what a timer carries; a number is never used again
	recent   list.List                // of *session[V], the latest used in front
	number   uint64
}

type session[V any] struct {
	key    string
	value  V
	number uint64
	timer  timer.ID
}

// New returns a store of at most most sessions, each of which expires when it was idle for so long. End
// it with [Store.Close].
func New[V any](most int, idle time.Duration) (*Store[V], error) {
	if most < 1 || idle <= 0 {
		return nil, errors.New("sessions: want room for one session at least, and a positive idle time")
	}
	engine, err := timer.Start(timer.Config{})
	if err != nil {
		return nil, err
	}
	s := &Store[V]{most: most, idle: idle, engine: engine, byKey: make(map[string]*list.Element), byNumber: make(map[uint64]*list.Element)}
	if s.group, err = engine.Group(s.expire); err != nil {
		return nil, errors.Join(err, engine.Close(context.Background()))
	}
	return s, nil
}

// Put stores a session, in place of one with its key. If there is no room, the session that was used
// least recently goes.
func (s *Store[V]) Put(key string, value V) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.group.Arm(s.engine.Now(), s.idle, s.number+1)
	if err != nil {
		return err
	}
	if old := s.byKey[key]; old != nil {
		s.removeLocked(old)
	}
	if s.recent.Len() == s.most {
		s.removeLocked(s.recent.Back())
	}
	s.number++
	e := s.recent.PushFront(&session[V]{key, value, s.number, id})
	s.byKey[key], s.byNumber[s.number] = e, e
	return nil
}

// Get returns the value of a session and whether there is one. It counts as a use.
func (s *Store[V]) Get(key string) (value V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		return value, false
	}
	held := e.Value.(*session[V])
	if !s.engine.Touch(held.timer, s.engine.Now()) { // it has expired, and expire is about to find it
		return value, false
	}
	s.recent.MoveToFront(e)
	return held.value, true
}

// Delete ends a session, and reports whether there was one.
func (s *Store[V]) Delete(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	return e != nil && s.removeLocked(e)
}

// Len returns the number of sessions.
func (s *Store[V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recent.Len()
}

// Close ends the store's timers. It waits for what is expiring, until ctx is done.
func (s *Store[V]) Close(ctx context.Context) error { return s.engine.Close(ctx) }

// expire removes sessions whose time is over. One that was removed or replaced meanwhile has another number.
func (s *Store[V]) expire(expired []timer.Expired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range expired {
		if e := s.byNumber[x.Data]; e != nil {
			s.removeLocked(e)
		}
	}
}

// removeLocked removes a session, and reports whether its timer had not expired yet.
func (s *Store[V]) removeLocked(e *list.Element) bool {
	held := s.recent.Remove(e).(*session[V])
	delete(s.byKey, held.key)
	delete(s.byNumber, held.number)
	return s.engine.Cancel(held.timer)
}
