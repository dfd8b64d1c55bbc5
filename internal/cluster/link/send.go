package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
)

const (
	// maxSend is the longest message to a device, in bytes.
	maxSend = 64 << 10
	// maxSends bounds the messages to devices that an ear has not answered, at both ends of the link.
	maxSends = 1024
	// maxSendBytes is after how much of messages to devices what else there is to say goes first.
	maxSendBytes = 256 << 10
	// sendPatience is how long a message is waited for at most.
	sendPatience = time.Minute
	// sendGrace is how much longer the judge waits for the ear's answer: that the time is over.
	sendGrace = time.Second
)

// Errors that are wrapped by what [Judge.Send] returns; those but the last also by what
// [EarConfig.Send] may return.
var (
	// ErrNotConnected means that the device has no open connection to an ear.
	ErrNotConnected = errors.New("link: the device is not connected here")
	// ErrNoMessages means that the device's protocol has no message for texts.
	ErrNoMessages = errors.New("link: the device's protocol has no messages to devices")
	// ErrNotAllowed means that a message of the protocol cannot hold this text.
	ErrNotAllowed = errors.New("link: the device's protocol does not allow this text")
	// ErrTooLong means that the payload is longer than 64 KiB, or than the ear takes.
	ErrTooLong = errors.New("link: the message is too long")
	// ErrSlowReader means that the device has left too much unread.
	ErrSlowReader = errors.New("link: the device does not read what it was sent before")
	// ErrTooMany means that too many messages wait for the device, or for its ear.
	ErrTooMany = errors.New("link: too many messages wait")
	// ErrUnacknowledged means that a message was sent in datagrams, and the device did not acknowledge
	// it in time.
	ErrUnacknowledged = errors.New("link: the device did not acknowledge the message in time")
	// ErrUncertain means that the ear has not told whether it wrote the message, and will not.
	ErrUncertain = errors.New("link: it is not known whether the message was written")
)

// errLate is why an ear gives a message up.
var errLate = errors.New("the message was not written in time")

// Sent describes a message that was sent.
type Sent struct {
	Protocol     string // the name of the one that the device speaks
	Bytes        int    // that were written: the payload, and what the protocol puts around it
	Acknowledged bool   // by the device
}

// Connected reports whether a session of the device is open at an ear.
func (j *Judge) Connected(id string) bool { return j.seatOf(id) != nil }

// seatOf returns the seat that has the device's session; nil if none has.
func (j *Judge) seatOf(id string) *seat {
	peer, _ := j.registry.Peer(id)
	if st, ok := peer.(*seat); ok && st.member.judge == j {
		return st
	}
	return nil
}

// Send writes a message to a device that is connected to an ear: payload as a text of the device's
// protocol, or, if raw is set, as it is. It blocks until the kernel there has all of it, ctx is done,
// or a minute has passed; if ctx has a deadline, for up to 1 s longer, in which the ear tells what it
// wrote. At most 1024 messages wait for an ear.
//
// The error wraps one of ErrNotConnected, ErrNoMessages, ErrNotAllowed, ErrTooLong, ErrSlowReader,
// ErrTooMany, ErrUncertain, or the cause why ctx is done. In the last case it reports whether the
// message, or some of it, may be written all the same.
func (j *Judge) Send(ctx context.Context, id string, payload []byte, raw bool) (Sent, error) {
	if len(payload) > maxSend {
		return Sent{}, fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLong, len(payload), maxSend)
	}
	st := j.seatOf(id)
	if st == nil {
		return Sent{}, ErrNotConnected
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sendPatience, errLate)
	defer cancel()
	x := &sending{
		frame:    &linkpb.Send{Slot: st.slot, Gen: st.gen, Payload: bytes.Clone(payload), Raw: raw},
		answered: make(chan struct{}),
	}
	x.until, _ = ctx.Deadline()
	return st.member.send(ctx, x)
}

// send has the ear write a message, and waits for the result.
func (m *member) send(ctx context.Context, x *sending) (Sent, error) {
	m.mu.Lock()
	x.stream = m.stream
	m.mu.Unlock()
	if !m.sends.add(x) {
		return Sent{}, fmt.Errorf("%w: %d for the ear %q", ErrTooMany, maxSends, m.name)
	}
	m.queue.ring()
	if !m.await(x, ctx.Done()) && errors.Is(ctx.Err(), context.DeadlineExceeded) && m.sends.given(x) {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendGrace)
		defer cancel()
		m.await(x, grace.Done())
	}
	switch sent, given := m.sends.drop(x); {
	case sent != nil:
		return resultOf(ctx, sent)
	case !given && ctx.Err() != nil:
		return Sent{}, fmt.Errorf("%w; nothing was written", context.Cause(ctx))
	case !given:
		return Sent{}, fmt.Errorf("%w: there is no link to its ear %q at the moment; nothing was written", ErrNotConnected, m.name)
	case errors.Is(ctx.Err(), context.Canceled):
		return Sent{}, fmt.Errorf("%w; it is not known whether the message was written", context.Cause(ctx))
	default:
		return Sent{}, fmt.Errorf("%w: the ear %q has not answered", ErrUncertain, m.name)
	}
}

// await waits until the ear has answered, or will not. It returns false if done is closed first.
func (m *member) await(x *sending, done <-chan struct{}) bool {
	select {
	case <-x.answered:
	case <-x.stream.broken:
	case <-m.gone:
	case <-done:
		return false
	}
	return true
}

// resultOf returns what an ear has answered.
func resultOf(ctx context.Context, s *linkpb.Sent) (Sent, error) {
	err := errorOf(s.GetCode(), s.GetText())
	switch {
	case err == nil:
		return Sent{Protocol: s.GetProtocol(), Bytes: int(s.GetBytes()), Acknowledged: s.GetAcknowledged()}, nil
	case errors.Is(err, errLate):
		<-ctx.Done() // the ear's deadline is that of ctx
		err = &refusal{kind: context.Cause(ctx), text: s.GetText()}
	}
	return Sent{}, err
}

// sending is a message on its way to an ear.
type sending struct {
	frame    *linkpb.Send
	stream   *attached // by which it goes; by no other
	until    time.Time
	answered chan struct{} // closed when sent is set

	isGiven bool         // the ear may have it; guarded by sends.mu
	sent    *linkpb.Sent // the ear's answer; guarded by sends.mu
}

// sends are the messages that an ear has not answered. They go behind everything else that there is
// to say, so that they hold up no round.
type sends struct {
	mu      sync.Mutex // guards the fields below
	last    uint64
	open    map[uint64]*sending // by number
	waiting []*sending          // those of open that the ear was not given, the oldest first
}

// add takes a message, unless there are too many.
func (s *sends) add(x *sending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSends {
		return false
	}
	if s.open == nil {
		s.open = make(map[uint64]*sending)
	}
	s.last++
	x.frame.Number = s.last
	s.open[s.last] = x
	s.waiting = append(s.waiting, x)
	return true
}

// takeFrames returns the next messages that go by a stream.
func (s *sends) takeFrames(a *attached, now time.Time) (frames []*linkpb.JudgeFrame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for size := 0; len(s.waiting) > 0 && len(frames) < maxFrames && size < maxSendBytes; s.waiting = s.waiting[1:] {
		x := s.waiting[0]
		if s.waiting[0] = nil; x.stream != a { // its link is broken
			continue
		}
		x.isGiven, x.frame.LeftNs = true, int64(x.until.Sub(now))
		size += len(x.frame.GetPayload())
		frames = append(frames, &linkpb.JudgeFrame{Body: &linkpb.JudgeFrame_Send{Send: x.frame}})
	}
	return frames
}

// answer notes what the ear has answered. For what it answers too late nobody waits.
func (s *sends) answer(sent *linkpb.Sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.open[sent.GetNumber()]; x != nil && x.sent == nil {
		x.sent = sent
		close(x.answered)
	}
}

// given reports whether the ear may have a message.
func (s *sends) given(x *sending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return x.isGiven
}

// drop forgets a message. It returns the ear's answer, nil if there is none, and whether the ear may
// have the message.
func (s *sends) drop(x *sending) (sent *linkpb.Sent, given bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, x.frame.GetNumber())
	if i := slices.Index(s.waiting, x); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	return x.sent, x.isGiven
}
