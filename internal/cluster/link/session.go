package link

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// Session is a device's connection to an ear, kept at the judge. Its methods may be called
// concurrently, and none blocks. Instants are of [EarConfig.Now].
//
// What the device said is asked of the judge in the order of the calls; done is told the outcome
// once it is committed, by the goroutine that calls everything else, too, so it must not block. It
// may be nil. Errors are those of package liveness; [liveness.ErrBusy] also if the judge has not
// answered within 5 s, is gone, or has so many sessions to open that it would not answer in time.
type Session struct {
	heard atomic.Int64  // the latest sign of life, in ns of EarConfig.Now
	flags atomic.Uint32 // see below; beside heard: a heartbeat reads these two
	slot  uint32
	gen   uint32
	phase phase // guarded by Ear.mu, as is what follows it
	epoch atomic.Uint64
	ear   *Ear
	peer  liveness.Peer
	id    string

	announced  policy
	datagrams  bool // the device has no connection
	unverified bool
	answered   bool          // the judge has opened it
	slept      time.Duration // when it was put to sleep last; 0 if it was not
	opening    *call         // the question to open it, until that is answered
}

// Flags of a session.
const (
	isMarked uint32 = 1 << iota // it is in a list of those to report
	isJudged
	hasEnded
)

// phase is how far a session has come.
type phase uint8

const (
	isOpening phase = iota // the judge was not asked
	isAsked
	isOpen   // the judge has answered
	isEnding // a frame that ends it waits to be sent
	isGone   // its slot is free
)

// policy is what can be announced of a [liveness.Policy].
type policy struct {
	timeout, interval time.Duration
}

func policyOf(p liveness.Policy) policy { return policy{p.Timeout, p.Interval} }

// clipped returns as much of a message as travels.
func clipped(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), maxMessage)], "\uFFFD")
}

// Open begins to open a session of the device with an id, as [liveness.Source.Open] does; h.Quota
// counts for nothing, and of h.Announced only Timeout and Interval are told. done is called once,
// not before Open has handed the session out. If it is told an error the session has ended. Without
// a judge Open waits for one for up to 5 s. peer may be nil; its Committed is not called, and what
// its Probe returns is ignored.
func (e *Ear) Open(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) *Session {
	return e.begin(&Session{peer: peer, id: id}, h, heard, done)
}

// OpenDatagrams is Open for a device that has no connection, of which the ear has a source of its own: what
// the device says may reach another ear at any time. When it does the session is replaced; that is no
// event, and the session there has the same epoch. What was heard in this one before counts.
func (e *Ear) OpenDatagrams(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) *Session {
	return e.begin(&Session{peer: peer, id: id, datagrams: true}, h, heard, done)
}

func (e *Ear) begin(s *Session, h liveness.Hello, heard time.Duration, done func(liveness.Welcome, error)) *Session {
	s.ear, s.announced, s.unverified = e, policyOf(h.Announced), h.Unverified
	s.epoch.Store(h.Epoch)
	s.heard.Store(int64(heard))
	err := liveness.ValidateID(s.id)
	if s.datagrams && e.config.PassDatagrams == nil {
		err = errors.Join(err, errors.New("link: the ear has no PassDatagrams"))
	}
	if err != nil {
		s.flags.Store(hasEnded)
		s.phase = isGone
		e.refuse(done, err)
		return s
	}
	e.open(s, h.Left, done)
	return s
}

// Beat records a heartbeat. It is one atomic store, and the first one since the latest report puts
// the session into a list. It returns false on a session that was replaced or has ended.
func (s *Session) Beat(heard time.Duration) bool {
	s.heard.Store(int64(heard))
	if s.flags.Load() == isMarked {
		return true
	}
	return s.mark()
}

// mark puts the session into the list of those to report.
func (s *Session) mark() bool {
	for {
		old := s.flags.Load()
		if old&hasEnded != 0 {
			return false
		}
		if s.flags.CompareAndSwap(old, isMarked) { // it was heard since it was judged
			if old&isMarked == 0 {
				s.ear.beats.add(s)
			}
			return true
		}
	}
}

// listened records a sign of life of which the judge is told otherwise: the next one may not have been.
func (s *Session) listened(heard time.Duration) {
	for old := s.heard.Load(); old < int64(heard) && !s.heard.CompareAndSwap(old, int64(heard)); {
		old = s.heard.Load()
	}
}

// Reopen says the hello of the device again, on a session that is open.
func (s *Session) Reopen(heard time.Duration, h liveness.Hello, done func(liveness.Welcome, error)) {
	open := &linkpb.Open{
		Id: s.id, Epoch: h.Epoch, TimeoutNs: int64(h.Announced.Timeout), IntervalNs: int64(h.Announced.Interval), Unverified: h.Unverified,
		Datagrams: s.datagrams,
	}
	s.ear.ask(&call{session: s, heard: heard, done: done, ask: &linkpb.Ask{What: &linkpb.Ask_Open{Open: open}}})
}

// Sleep announces that the device will be silent for a while. The answer's Granted is for how long it
// may be.
func (s *Session) Sleep(heard, length time.Duration, done func(liveness.Welcome, error)) {
	what := &linkpb.Ask_Sleep{Sleep: &linkpb.Sleep{LengthNs: int64(length)}}
	s.ear.ask(&call{session: s, heard: heard, done: done, ask: &linkpb.Ask{What: what}})
}

// maxMessage bounds the text of a failure, in bytes.
const maxMessage = 2 << 10

// Fail reports a failure that the device told of itself; of message at most 2 KiB count.
func (s *Session) Fail(heard time.Duration, message string, done func(liveness.Welcome, error)) {
	what := &linkpb.Ask_Fail{Fail: &linkpb.Fail{Message: clipped(message)}}
	s.ear.ask(&call{session: s, heard: heard, done: done, ask: &linkpb.Ask{What: what}})
}

// UpdatePolicy announces another policy, of which Timeout and Interval are told.
func (s *Session) UpdatePolicy(heard time.Duration, p liveness.Policy, done func(liveness.Welcome, error)) {
	what := &linkpb.Ask_Announce{Announce: &linkpb.Announce{TimeoutNs: int64(p.Timeout), IntervalNs: int64(p.Interval)}}
	s.ear.ask(&call{session: s, heard: heard, done: done, ask: &linkpb.Ask{What: what}})
}

// Bye ends the session: the device said goodbye and is offline.
func (s *Session) Bye(heard time.Duration, done func(liveness.Welcome, error)) {
	s.ear.ask(&call{session: s, heard: heard, done: done, ends: true, ask: &linkpb.Ask{What: &linkpb.Ask_Bye{Bye: &linkpb.Bye{}}}})
}

// Close ends the session without a goodbye, see [liveness.Session.Close]. It does nothing on a
// session that was replaced or has ended.
func (s *Session) Close(heard time.Duration, why liveness.Reason) {
	s.ear.closeSession(s, heard, why)
}

// Release ends the session because the ear closes its connection for its own sake, see
// [liveness.Session.Release]. It does nothing on a session that was replaced or has ended.
func (s *Session) Release(heard time.Duration) {
	s.ear.closeSession(s, heard, whyReleased)
}

// ID returns the id of the session's device.
func (s *Session) ID() string { return s.id }

// Epoch returns the session's epoch, which the judge gives; before it has, that of the Hello.
func (s *Session) Epoch() uint64 { return s.epoch.Load() }

// Judged reports whether the judge has said that the device is offline, and it was not heard since.
func (s *Session) Judged() bool { return s.flags.Load()&isJudged != 0 }

// Ended reports whether the session was replaced or has ended.
func (s *Session) Ended() bool { return s.flags.Load()&hasEnded != 0 }

// end makes Beat return false. It reports whether it did not before.
func (s *Session) end() bool { return s.flags.Or(hasEnded)&hasEnded == 0 }
