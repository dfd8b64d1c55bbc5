package route

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/route/routepb"
	"github.com/holter-iot/holter/internal/relay"
	"github.com/holter-iot/holter/mqtt"
)

// Spoke exchanges the messages of a broker with those of the others, by way of a hub. Make one with
// [NewSpoke]. All methods may be called concurrently, but Serve.
type Spoke struct {
	config      Config
	name        string
	incarnation uint64
	remote      relay.Remote
	out         outQueue
	counts      counters

	hub      uint64 // the incarnation of the latest hub; 0: there was none
	received uint64 // the last message of it
	said     string // of the hub, in the log

	mu         sync.Mutex      // guards the fields below
	wants      map[string]bool // filters to tell of: wanted, or not
	announcing bool            // all are being told
	stream     bool            // there is one
	due        uint64          // number up to which messages are to be acknowledged; 0: none are
}

// NewSpoke makes a broker a spoke, which has a name that no other spoke of the hub has. It is called
// before any client connects. It starts nothing. Until Serve finds a hub, what clients publish waits for
// one. It fails if the broker has a store.
func NewSpoke(b *mqtt.Broker, name string, cfg Config) (*Spoke, error) {
	s := &Spoke{config: cfg.withDefaults(), name: name, incarnation: random(), wants: make(map[string]bool)}
	s.out = newOutQueue(s.config, &s.counts)
	var err error
	s.remote, err = b.Relay().Upstream(upLink{s})
	return s, err
}

// random returns a number that is not 0.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// Stats returns a picture of the spoke.
func (s *Spoke) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	brokers := 0
	if s.stream {
		brokers = 1
	}
	return s.counts.stats(brokers)
}

// Serve exchanges messages with the hub at the other end of a connection until ctx is done, or the hub
// turns out to be none: then the broker is alone until Serve is called again. One call runs at a time.
func (s *Spoke) Serve(ctx context.Context, to grpc.ClientConnInterface) {
	for ctx.Err() == nil {
		err := s.exchange(ctx, to)
		if ctx.Err() != nil {
			return
		}
		if status.Code(err) == codes.Unimplemented {
			s.alone()
			return
		}
		s.say(err)
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
		}
	}
}

// say logs why there is no exchange, if that is not what was logged last.
func (s *Spoke) say(err error) {
	if text := err.Error(); text != s.said {
		s.said = text
		s.config.Logger.Warn("no MQTT messages are exchanged with other servers", "error", err)
	}
}

// errAlone is why a spoke has no hub.
var errAlone = errors.New("the judge passes none on: it is of an earlier version, or has no mqtt.route: cluster; messages reach the clients of this process only")

// alone has the broker do without a hub.
func (s *Spoke) alone() {
	s.say(errAlone)
	s.remote.Alone()
	s.out.close(true)
	last, _ := s.out.dropAll()
	s.remote.Taken(last)
}

// exchange exchanges messages by one stream, and returns why that has ended.
func (s *Spoke) exchange(ctx context.Context, to grpc.ClientConnInterface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := routepb.NewRouteClient(to).Exchange(ctx, grpc.MaxCallRecvMsgSize(MaxFrame))
	if err != nil {
		return err
	}
	hello := &routepb.Hello{Name: s.name, Incarnation: s.incarnation, Hub: s.hub, Received: s.received}
	_ = c.Send(&routepb.FromSpoke{Hello: hello}) // what failed is returned by Recv
	first, err := c.Recv()
	if err != nil {
		return err
	}
	w := first.GetWelcome()
	if w == nil {
		return errors.New("route: the hub did not say welcome")
	}
	s.joined(w)
	defer s.setStream(false)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	writing.Go(func() { s.write(ctx, c) })
	for {
		m, err := c.Recv()
		if err != nil {
			return err
		}
		s.apply(m)
	}
}

func (s *Spoke) setStream(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = is
}

// joined begins a stream to a hub: all filters are announced.
func (s *Spoke) joined(w *routepb.Welcome) {
	if w.GetHub() != s.hub {
		s.hub, s.received = w.GetHub(), 0
	}
	s.out.close(false)
	s.remote.Joined(w.GetReceived(), string(w.GetReserved()))
	s.out.resend(w.GetReceived(), func(*queued) bool { return true })
	s.mu.Lock()
	clear(s.wants)
	s.due, s.announcing, s.stream = 0, true, true
	s.mu.Unlock()
	s.remote.Filters(func(filter string) { s.want(filter, true) })
	s.said = ""
	s.config.Logger.Info("MQTT messages are exchanged with other servers")
}

// want notes what the hub is to be told of a filter.
func (s *Spoke) want(filter string, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream { // else all are announced by the next
		s.wants[filter] = wanted
		s.out.notify()
	}
}

// apply applies what the hub says.
func (s *Spoke) apply(f *routepb.FromHub) {
	if n := f.GetTaken(); n > 0 {
		s.out.acknowledged(n)
		s.remote.Taken(n)
	}
	now, due := time.Now(), false
	for _, m := range f.GetMessages() {
		if m.GetNumber() <= s.received {
			continue
		}
		in := decoded(m, now)
		s.remote.Receive(&in, now)
		s.received = m.GetNumber()
		due = due || in.QoS > 0
	}
	s.counts.received.Add(uint64(len(f.GetMessages())))
	if due {
		s.mu.Lock()
		s.due = s.received
		s.mu.Unlock()
		s.out.notify()
	}
}

// write sends what is to be sent, until ctx is done.
func (s *Spoke) write(ctx context.Context, c routepb.Route_ExchangeClient) {
	defer s.out.notify() // what it was woken for may be for the next
	for {
		if m := s.nextFrame(); m != nil {
			if c.Send(m) != nil { // Recv returns why
				return
			}
			continue
		}
		select {
		case <-s.out.wake:
		case <-ctx.Done():
			return
		}
	}
}

// nextFrame returns what is to be sent next; nil if there is nothing.
func (s *Spoke) nextFrame() *routepb.FromSpoke {
	m := &routepb.FromSpoke{}
	if s.addFilters(m) {
		m.Messages = encoded(s.out.takeBatch())
	}
	if len(m.GetWanted())+len(m.GetUnwanted())+len(m.GetMessages()) == 0 && !m.GetAnnounced() && m.GetTaken() == 0 {
		return nil
	}
	return m
}

// addFilters adds what is to be told of filters, and what is to be acknowledged. It reports whether
// messages may follow: those that causes the answers to which a client has just subscribed to, must not
// come before that.
func (s *Spoke) addFilters(m *routepb.FromSpoke) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Taken, s.due = s.due, 0
	n := 0
	for filter, wanted := range s.wants {
		if n++; n > maxFilters {
			return false
		}
		delete(s.wants, filter)
		if wanted {
			m.Wanted = append(m.Wanted, []byte(filter))
		} else {
			m.Unwanted = append(m.Unwanted, []byte(filter))
		}
	}
	m.Announced, s.announcing = s.announcing, false
	return true
}

// upLink is the link of a broker to its hub.
type upLink struct{ spoke *Spoke }

// Forward implements [relay.Link].
func (l upLink) Forward(m relay.Message) (number uint64, ok bool) {
	b := &l.spoke.out
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || m.QoS == 0 && b.bytes >= b.limit {
		b.counts.dropped.Add(1)
		return 0, false
	}
	return b.addLocked(queued{Message: m, reliable: m.QoS > 0 || m.Retain}), true
}

// Full implements [relay.Link].
func (l upLink) Full() bool { return l.spoke.out.Full() }

// Want implements [relay.Link].
func (l upLink) Want(filter string, wanted bool) { l.spoke.want(filter, wanted) }

// Wake implements [relay.Link]: an upstream broker has no store, and does not wait.
func (upLink) Wake() {}
