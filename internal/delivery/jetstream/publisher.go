package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// publisher is a sink that publishes to streams.
type publisher struct {
	settings

	url     string
	options []nats.Option
	dialer  net.Dialer
	turn    chan struct{} // capacity 1: held while connecting; never closed

	link *link // guarded by turn; nil before the first delivery
}

// Deliver implements [sink.Sink]. It publishes messages in their order and waits for the server's
// acks.
func (s *publisher) Deliver(ctx context.Context, messages []sink.Message) []sink.Result {
	l, err := s.connected(ctx)
	if err != nil {
		return sink.Repeat(len(messages), sink.Result{Err: err})
	}
	results := make([]sink.Result, len(messages))
	answers := make([]jetstream.PubAckFuture, len(messages))
	stop := context.AfterFunc(ctx, l.cut) // a write blocks while the server reads nothing
	var broken error
	for i := range messages {
		m := messageOf(s.Subject, &messages[i])
		if err = broken; err == nil {
			answers[i], err = l.streams.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
		}
		if err != nil {
			if results[i] = failure(ctx, err, m.Subject); !results[i].Permanent {
				broken = err
			}
		}
	}
	stop()
	for i, answer := range answers {
		if results[i].Err == nil {
			results[i] = l.wait(ctx, answer)
		}
	}
	return results
}

// connected returns a connection that is not closed.
func (s *publisher) connected(ctx context.Context) (*link, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, late(ctx)
	}
	defer func() { <-s.turn }()
	if s.link != nil && !s.link.conn.IsClosed() {
		return s.link, nil
	}
	s.link = nil
	l, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.link = l
	return l, nil
}

// Close implements [sink.Sink]. It ends the connection.
func (s *publisher) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.link != nil {
		s.link.close()
		s.link = nil
	}
	return nil
}

// link is a connection to a server. It does not reconnect.
type link struct {
	conn    *nats.Conn
	streams jetstream.JetStream
	socket  atomic.Pointer[net.Conn] // below conn
	gone    chan struct{}            // closed by the library when conn is closed
	refused atomic.Pointer[error]    // the latest asynchronous error of the server
}

// dialFunc is a nats.CustomDialer.
type dialFunc func(network, address string) (net.Conn, error)

// Dial implements nats.CustomDialer.
func (f dialFunc) Dial(network, address string) (net.Conn, error) { return f(network, address) }

// connect connects to one of the servers.
func (s *publisher) connect(ctx context.Context) (*link, error) {
	login, err := s.login()
	if err != nil {
		return nil, err
	}
	l := &link{gone: make(chan struct{})}
	var dialErr error
	dial := func(network, address string) (net.Conn, error) {
		var socket net.Conn
		if socket, dialErr = s.dialer.DialContext(ctx, network, address); dialErr != nil {
			return nil, dialErr
		}
		l.socket.Store(&socket)
		if ctx.Err() != nil { // the AfterFunc below may have run before
			l.cut()
		}
		return socket, nil
	}
	stop := context.AfterFunc(ctx, l.cut)
	defer stop()
	conn, err := nats.Connect(s.url, slices.Concat(s.options, login, []nats.Option{
		nats.SetCustomDialer(dialFunc(dial)), nats.Timeout(left(ctx)),
		nats.ClosedHandler(func(*nats.Conn) { close(l.gone) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.refused.Store(&err) }),
	})...)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, late(ctx)
	case errors.Is(err, nats.ErrNoServers) && dialErr != nil: // the library does not say which error the dialer returned
		return nil, dialErr
	case err != nil:
		return nil, err
	}
	l.conn = conn
	if l.streams, err = jetstream.New(conn, jetstream.WithPublishAsyncTimeout(ackTimeout)); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// left returns the time until the deadline of ctx and a little more, so that ctx ends first.
func left(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return writeTimeout
	}
	return max(time.Until(end), 0) + time.Second
}

// cut closes the socket, also while the connection is being made or written to.
func (l *link) cut() {
	if socket := l.socket.Load(); socket != nil {
		_ = (*socket).Close() // readers and writers get an error
	}
}

func (l *link) close() {
	l.cut() // nothing that is still to be written matters any more
	l.conn.Close()
	<-l.gone
}

// wait waits for the server's ack of a message.
func (l *link) wait(ctx context.Context, answer jetstream.PubAckFuture) sink.Result {
	select {
	case <-answer.Ok():
		return sink.Result{}
	case err := <-answer.Err():
		return failure(ctx, err, answer.Msg().Subject)
	case <-l.gone:
	case <-ctx.Done():
	}
	select { // it may have come at the same time
	case <-answer.Ok():
		return sink.Result{}
	default:
	}
	if ctx.Err() == nil {
		return sink.Result{Err: errors.New("the connection was lost before the server had answered")}
	}
	if refused := l.refused.Load(); refused != nil {
		return sink.Result{Err: fmt.Errorf("%w; it had said: %w", late(ctx), *refused)}
	}
	return sink.Result{Err: fmt.Errorf("%w; is there a stream with the subject %.200q?", late(ctx), answer.Msg().Subject)}
}
