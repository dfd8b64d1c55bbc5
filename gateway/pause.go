package gateway

import (
	"errors"
	"fmt"

	"github.com/holter-iot/holter/internal/net/sockets"
)

// Pause implements [remote.Gateway].
func (g operator) Pause() error {
	return g.eachSocket((*sockets.Listener).Pause, func(r *reader) error { return sockets.LeaveGroup(r.raw) })
}

// Resume implements [remote.Gateway].
func (g operator) Resume() error {
	return g.eachSocket((*sockets.Listener).Resume, func(r *reader) error { return sockets.JoinGroup(r.raw, r.conn.LocalAddr()) })
}

func (g *Gateway) eachSocket(connections func(*sockets.Listener) error, datagrams func(*reader) error) error {
	var errs []error
	add := func(l *listener, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("gateway: %s: %w", l.bound, err))
		}
	}
	for _, l := range g.listeners {
		for _, accepts := range l.accepts {
			add(l, connections(accepts))
		}
	}
	for _, r := range g.udp.readers {
		add(r.listener, datagrams(r))
	}
	return errors.Join(errs...)
}
