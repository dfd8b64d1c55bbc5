package route

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/cluster/route/routepb"
	"github.com/holter-iot/holter/internal/relay"
)

// peer is a spoke, as its hub sees it. It is the link of the hub's broker to it.
type peer struct {
	hub         *Hub
	remote      relay.Remote
	out         outQueue
	incarnation uint64
	id          uint64    // of the hub, for this incarnation
	gone        time.Time // when its stream ended; zero: it has one

	in       sync.Mutex // held while what came is applied; taken before mu
	received uint64     // the last message that came

	mu      sync.Mutex                   // guards the fields below; taken before out.mu
	stream  routepb.Route_ExchangeServer // nil without
	waiting []receipt                    // the oldest first
	settled uint64                       // the last number that was acknowledged
	copying int                          // the slot of a retained message to go on at; 0: none
}

// receipt is a message that is to be acknowledged once a group is committed.
type receipt struct{ number, commit uint64 }

// attach makes a stream the spoke's. The filters and what is retained begin anew.
func (s *peer) attach(stream routepb.Route_ExchangeServer, hello *routepb.Hello) *routepb.Welcome {
	s.in.Lock()
	defer s.in.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = stream
	received := uint64(0)
	if hello.GetHub() == s.id {
		received = hello.GetReceived()
	}
	s.out.acknowledged(received)
	s.out.resend(received, func(l *queued) bool { return l.reliable })
	s.out.close(false)
	s.copyLocked()
	s.waiting = slices.Insert(s.waiting, 0, receipt{number: s.settled}) // the stream before may have lost that
	s.remote.BeginFilters()
	return &routepb.Welcome{Hub: s.id, Received: s.received, Reserved: []byte(s.remote.Reserved())}
}

// copyLocked begins to copy what is retained.
func (s *peer) copyLocked() {
	s.copying = 1
	s.out.control(relay.Message{Kind: relay.CopyBegins})
}

// detach reports whether a stream was the spoke's, which has none then.
func (s *peer) detach(stream routepb.Route_ExchangeServer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != stream {
		return false
	}
	s.stream = nil
	s.out.close(true)
	return true
}

// leave drops what waits for the spoke, which does not come back.
func (s *peer) leave() {
	s.in.Lock()
	defer s.in.Unlock()
	s.detachAny()
	s.remote.Leave()
	_, lost := s.out.dropAll()
	s.out.counts.dropped.Add(uint64(lost))
}

func (s *peer) detachAny() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = nil
	s.out.close(true)
}

// errReplaced is the end of a stream whose place another has taken.
var errReplaced = errors.New("route: the spoke has another stream")

// receive applies what came by a stream. While there is no room for what that causes, it waits.
func (s *peer) receive(stream routepb.Route_ExchangeServer, f *routepb.FromSpoke) error {
	for s.remote.Full() || s.out.behind() {
		select {
		case <-time.After(fullEvery):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
	s.in.Lock()
	defer s.in.Unlock()
	if !s.has(stream) {
		return errReplaced
	}
	s.filters(f)
	s.out.acknowledged(f.GetTaken())
	s.publish(f.GetMessages())
	return nil
}

func (s *peer) has(stream routepb.Route_ExchangeServer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream == stream
}

// filters notes what the spoke wants.
func (s *peer) filters(f *routepb.FromSpoke) {
	for _, filter := range f.GetWanted() {
		s.remote.Want(string(filter))
	}
	for _, filter := range f.GetUnwanted() {
		s.remote.Unwant(string(filter))
	}
	if f.GetAnnounced() {
		s.remote.EndFilters()
	}
}

// publish publishes what clients of the spoke have published.
func (s *peer) publish(messages []*routepb.Message) {
	now, due := time.Now(), receipt{}
	for _, m := range messages {
		if m.GetNumber() <= s.received {
			continue
		}
		in := decoded(m, now)
		commit := s.remote.Receive(&in, now)
		if s.received = m.GetNumber(); in.QoS > 0 || in.Retain {
			due = receipt{s.received, max(due.commit, commit)}
		}
	}
	s.out.counts.received.Add(uint64(len(messages)))
	if due.number > 0 {
		s.mu.Lock()
		s.waiting = append(s.waiting, due)
		s.mu.Unlock()
		s.out.notify()
	}
}

// write sends what is to be sent, until the stream ends.
func (s *peer) write(stream routepb.Route_ExchangeServer) {
	defer s.out.notify() // what it was woken for may be for the next
	for {
		if m := s.nextFrame(stream); m != nil {
			if stream.Send(m) != nil { // Recv fails, too
				return
			}
			continue
		}
		select {
		case <-s.out.wake:
		case <-stream.Context().Done():
			return
		}
	}
}

// nextFrame returns what is to be sent next by a stream; nil if there is nothing.
func (s *peer) nextFrame(stream routepb.Route_ExchangeServer) *routepb.FromHub {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != stream {
		return nil
	}
	if s.out.idle() {
		s.goOnCopyingLocked()
	}
	m := &routepb.FromHub{Messages: encoded(s.out.takeBatch())}
	for len(s.waiting) > 0 && !s.remote.Awaits(s.waiting[0].commit) {
		s.settled = s.waiting[0].number
		m.Taken = s.settled
		s.waiting = s.waiting[1:]
	}
	if len(m.GetMessages()) == 0 && m.GetTaken() == 0 {
		return nil
	}
	return m
}

// goOnCopyingLocked copies some of what is retained, all of it anew if some was dropped.
func (s *peer) goOnCopyingLocked() {
	if s.copying == 0 {
		if s.out.takeLostRetained() {
			s.copyLocked()
		}
		return
	}
	if s.copying = s.remote.Copy(s.copying); s.copying == 0 {
		s.out.control(relay.Message{Kind: relay.CopyEnds})
	}
	s.out.notify()
}

// Forward implements [relay.Link].
func (s *peer) Forward(m relay.Message) (number uint64, ok bool) {
	b := &s.out
	if m.Kind != relay.Published {
		return b.control(m), true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed && (m.QoS == 0 || m.Share != ""): // another member of the group, or a copy, will do
		return 0, false
	case b.bytes >= b.limit:
		if m.Kept {
			b.lostRetained = true
			b.notify()
		}
		b.counts.dropped.Add(1)
		return 0, false
	}
	return b.addLocked(queued{Message: m, reliable: m.QoS > 0}), true
}

// Want implements [relay.Link]: only an upstream one is told.
func (*peer) Want(string, bool) {}

// Full implements [relay.Link].
func (s *peer) Full() bool { return s.out.Full() }

// Wake implements [relay.Link].
func (s *peer) Wake() { s.out.notify() }
