//go:build linux

// Package gnet is a server on gnet whose devices have verdicts: an event handler, a codec, and a clock that
// counts silence only while the server could hear. Run it with gnet.WithReusePort(true), so that its loop
// accepts connections itself, and gnet.WithTicker(true), which begins the clock.
package gnet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

// Server is an event handler with one event loop. For more, each needs a mark and a part of the source.
type Server struct {
	gnet.BuiltinEventEngine

	Protocol codec.Protocol
	Source   *liveness.Source
	Failed   func(error) // the clock stands still from then on, so no device is judged

	engine     gnet.Engine
	begin, end func() // the clock
	mark       mark
}

// device is a connection, and the peer of its session.
type device struct {
	gnet.Conn

	codec   codec.Codec
	session liveness.Session
}

// Replaced, Dismissed and Judged end the connection. Close is asynchronous, as a peer's methods must be.
func (d *device) Replaced()   { _ = d.Close() }
func (d *device) Dismissed()  { _ = d.Close() }
func (d *device) Judged()     {}
func (d *device) Committed()  {}
func (d *device) Probe() bool { return false }

// OnBoot implements gnet.EventHandler, as the methods below do.
func (s *Server) OnBoot(e gnet.Engine) gnet.Action {
	ctx, cancel := context.WithCancel(context.Background())
	s.engine, s.end = e, cancel
	s.begin = sync.OnceFunc(func() { go s.keepClock(ctx) })
	return gnet.None
}

// OnShutdown ends the clock.
func (s *Server) OnShutdown(gnet.Engine) { s.end() }

// OnTick begins the clock: now there is a loop.
func (s *Server) OnTick() (time.Duration, gnet.Action) {
	s.begin()
	return time.Hour, gnet.None
}

// OnOpen gives a connection its codec. The mark's has a context already.
func (s *Server) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if c.Context() == nil {
		c.SetContext(&device{Conn: c, codec: s.Protocol.Codec()})
	}
	return nil, gnet.None
}

// OnTraffic handles whole messages, and leaves the rest with gnet.
func (s *Server) OnTraffic(c gnet.Conn) (action gnet.Action) {
	d, ok := c.Context().(*device)
	if !ok {
		s.passMark(c)
		return gnet.None
	}
	input, _ := c.Peek(-1)
	var answers []byte
	used, now := 0, s.Source.Time(time.Now()) // of when it is handled: later than it came, never earlier
	for action == gnet.None {
		var m codec.Message
		n, err := d.codec.Next(input[used:], &m)
		if err != nil {
			wrong, _ := errors.AsType[*codec.Error](err)
			answers, action = d.codec.Goodbye(answers, "", wrong), gnet.Close
			break
		}
		if used += n; n == 0 {
			break
		}
		o := codec.Outcome{Now: time.Now()}
		action = s.apply(d, &m, &o, now)
		answers = d.codec.Reply(answers, &m, &o)
	}
	if used > 0 { // Discard(0) would drop a message of which more is to come
		_, _ = c.Discard(used)
	}
	_, _ = c.Write(answers)
	return action
}

// apply does what a message means. An answer that is to survive a crash of the server would wait for
// Registry.Commit here: see Session.Pending.
func (s *Server) apply(d *device, m *codec.Message, o *codec.Outcome, now time.Duration) gnet.Action {
	switch m.Kind {
	case codec.Hello:
		h := liveness.Hello{Epoch: m.Epoch, Announced: liveness.Policy{Timeout: m.Timeout, Interval: m.Interval}, Unverified: true}
		if w, err := s.Source.Open(&d.session, string(m.ID), h, d, now); err != nil {
			o.Err = &codec.Error{Code: codec.BadHello, Text: err.Error()}
		} else {
			o.Epoch, o.Timeout, o.Interval = w.Epoch, w.Policy.Timeout, w.Policy.Interval
		}
	case codec.Beat, codec.Repace, codec.Fail: // what else they say is left out here
		if !d.session.Beat(now) {
			o.Err = &codec.Error{Code: codec.HelloFirst, Text: "say hello first"}
		}
	case codec.Sleep:
		var err error
		if o.Granted, err = d.session.Sleep(now, m.Duration); err != nil {
			o.Err = &codec.Error{Code: codec.BadSleep, Text: err.Error()}
		}
	case codec.Bye:
		d.session.Bye(now)
		return gnet.Close
	case codec.Leave:
		return gnet.Close
	default: // noise, or what only servers with secrets answer
	}
	return gnet.None
}

// OnClose ends the session.
func (s *Server) OnClose(c gnet.Conn, _ error) gnet.Action {
	if d, ok := c.Context().(*device); ok {
		d.session.Close(s.Source.Time(time.Now()), liveness.Closed)
	}
	return gnet.None
}
