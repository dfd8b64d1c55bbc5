package gateway

import (
	"errors"
	"fmt"

	"github.com/holter-iot/holter/internal/net/sockets"
)

// Pause leaves the addresses, which stay bound, until [Gateway.Resume]. New connections are refused, and
// datagrams get lost, unless other sockets listen at the same address (SO_REUSEPORT): these get them then.
// Connections that wait to be accepted are reset; those that are accepted go on. It may be called before
// and during [Gateway.Run], and by one goroutine at a time.
func (g *Gateway) Pause() error {
	return g.eachSocket((*sockets.Listener).Pause, func(r *reader) error { return sockets.LeaveGroup(r.raw) })
}

// Resume takes the addresses again. It fails if another program has one of them meanwhile. It may be
// called as Pause may.
func (g *Gateway) Resume() error {
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
