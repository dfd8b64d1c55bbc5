package playbook

import (
	"context"
	"sync"
	"time"

	"github.com/holter-iot/holter/store"
)

// saver writes changes of runs, those that come while a transaction goes on together in the next one.
type saver struct {
	runs *store.Runs

	mu      sync.Mutex // guards the fields below
	queue   []*change
	writing bool
}

// change is a change that somebody waits for.
type change struct {
	store.RunChange

	done chan error // capacity 1, sent to once
}

const (
	// maxTogether bounds a transaction, and patience how long one is waited for.
	maxTogether = 500
	patience    = 30 * time.Second
)

// save returns when a change is stored, or was not. When ctx ends before, it may come to be stored nevertheless.
func (s *saver) save(ctx context.Context, c store.RunChange) error {
	mine := &change{RunChange: c, done: make(chan error, 1)}
	s.mu.Lock()
	s.queue = append(s.queue, mine)
	lead := !s.writing
	s.writing = true
	s.mu.Unlock()
	if lead {
		go s.write() //nolint:contextcheck // others wait for it, too
	}
	select {
	case err := <-mine.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes until nothing is left to write.
func (s *saver) write() {
	for {
		s.mu.Lock()
		some := s.queue[:min(len(s.queue), maxTogether)]
		s.queue = s.queue[len(some):]
		if len(some) == 0 {
			s.queue, s.writing = nil, false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		changes := make([]store.RunChange, len(some))
		for i, c := range some {
			changes[i] = c.RunChange
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := s.runs.Save(ctx, changes)
		cancel()
		for _, c := range some {
			c.done <- err
		}
	}
}
