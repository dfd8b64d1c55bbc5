package sockets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// pause is whether a listener is paused.
type pause struct {
	mu sync.Mutex    // guards on
	on chan struct{} // nil unless it is paused; closed when it is no longer
}

// now returns what is closed when the pause is over; nil if there is none.
func (p *pause) now() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on
}

// end ends the pause, if there is one.
func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on != nil {
		close(p.on)
		p.on = nil
	}
}

// await returns once there is no pause, or ctx is done.
func (p *pause) await(ctx context.Context) {
	if over := p.now(); over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
}

// Pause has the listener listen no longer, until [Listener.Resume]. It stays bound. The kernel resets the
// connections that wait to be accepted, and refuses others, or gives them to other sockets that listen at the
// address. [Listener.Serve] waits meanwhile. It works on Linux, for TCP, and is for one goroutine at a time.
func (l *Listener) Pause() error {
	if l.pause.now() != nil {
		return nil
	}
	l.pause.mu.Lock()
	l.pause.on = make(chan struct{}) // first: whoever accepts fails from now on, and must know why
	l.pause.mu.Unlock()
	if err := control(l.socket, stopListening); err != nil {
		l.pause.end()
		return fmt.Errorf("stop listening: %w", err)
	}
	return nil
}

// Resume has a paused listener listen again.
func (l *Listener) Resume() error {
	if l.pause.now() == nil {
		return nil
	}
	at := l.Addr()
	if err := control(l.socket, func(fd int) error { return listenAgain(fd, at) }); err != nil {
		return fmt.Errorf("listen again: %w", err)
	}
	l.pause.end()
	return nil
}

// control calls f with a socket's descriptor.
func control(socket syscall.RawConn, f func(fd int) error) (err error) {
	if socket == nil {
		return errors.ErrUnsupported
	}
	called := socket.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(called, err)
}
