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

	"github.com/holter-iot/holter/delivery"
)

// sink is a sink that publishes to streams.
type sink struct {
	url     string
	subject string
	options []nats.Option
	dialer  net.Dialer
	turn    chan struct{} // capacity 1: held while connecting; never closed

	link *link // guarded by turn; nil before the first delivery
}

func newSink(url, subject string, options []nats.Option, guard *delivery.Guard) *sink {
	return &sink{url: url, subject: subject, options: options, dialer: net.Dialer{Control: guard.Control}, turn: make(chan struct{}, 1)}
}

// Deliver publishes messages in their order and waits for the server's answers.
func (s *sink) Deliver(ctx context.Context, messages []delivery.Message) []delivery.Result {
	l, err := s.connected(ctx)
	if err != nil {
		return slices.Repeat([]delivery.Result{{Err: err}}, len(messages))
	}
	results := make([]delivery.Result, len(messages))
	answers := make([]jetstream.PubAckFuture, len(messages))
	stop := context.AfterFunc(ctx, l.cut) // a server that takes no bytes holds up who writes
	var broken error
	for i := range messages {
		m := messageOf(s.subject, &messages[i])
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

// connected returns a connection.
func (s *sink) connected(ctx context.Context) (*link, error) {
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

// Close ends the connection.
func (s *sink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.link != nil {
		s.link.close()
		s.link = nil
	}
	return nil
}

// link is a connection to a server. Once it is lost it stays so.
type link struct {
	conn    *nats.Conn
	streams jetstream.JetStream
	socket  atomic.Pointer[net.Conn] // that it runs over
	gone    chan struct{}            // closed by the library when the connection is
	refused atomic.Pointer[error]    // what the server has last said without being asked
}

// dialFunc is a nats.CustomDialer.
type dialFunc func(network, address string) (net.Conn, error)

// Dial implements nats.CustomDialer.
func (f dialFunc) Dial(network, address string) (net.Conn, error) { return f(network, address) }

// connect connects to one of the servers.
func (s *sink) connect(ctx context.Context) (*link, error) {
	l := &link{gone: make(chan struct{})}
	var dialErr error
	dial := func(network, address string) (net.Conn, error) {
		var socket net.Conn
		if socket, dialErr = s.dialer.DialContext(ctx, network, address); dialErr != nil {
			return nil, dialErr
		}
		l.socket.Store(&socket)
		if ctx.Err() != nil { // too late for the one below
			l.cut()
		}
		return socket, nil
	}
	stop := context.AfterFunc(ctx, l.cut)
	defer stop()
	conn, err := nats.Connect(s.url, slices.Concat(s.options, []nats.Option{
		nats.SetCustomDialer(dialFunc(dial)), nats.Timeout(left(ctx)),
		nats.ClosedHandler(func(*nats.Conn) { close(l.gone) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.refused.Store(&err) }),
	})...)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, late(ctx)
	case errors.Is(err, nats.ErrNoServers) && dialErr != nil: // the library does not say why
		return nil, dialErr
	case err != nil:
		return nil, err
	}
	l.conn = conn
	if l.streams, err = jetstream.New(conn, jetstream.WithPublishAsyncTimeout(forgotten)); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// left returns how much time there is, and a little more: it is ctx that is to end first.
func left(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return stuck
	}
	return max(time.Until(end), 0) + time.Second
}

// cut ends the connection from below, also while it is being made or somebody writes.
func (l *link) cut() {
	if socket := l.socket.Load(); socket != nil {
		_ = (*socket).Close() // who reads and writes gets the error
	}
}

func (l *link) close() {
	l.cut() // nobody waits for what is not written yet
	l.conn.Close()
	<-l.gone
}

// wait waits for the server's answer to a message.
func (l *link) wait(ctx context.Context, answer jetstream.PubAckFuture) delivery.Result {
	select {
	case <-answer.Ok():
		return delivery.Result{}
	case err := <-answer.Err():
		return failure(ctx, err, answer.Msg().Subject)
	case <-l.gone:
	case <-ctx.Done():
	}
	select { // it may have come in time
	case <-answer.Ok():
		return delivery.Result{}
	default:
	}
	if ctx.Err() == nil {
		return delivery.Result{Err: errors.New("the connection was lost before the server had answered")}
	}
	if refused := l.refused.Load(); refused != nil {
		return delivery.Result{Err: fmt.Errorf("%w; it had said: %w", late(ctx), *refused)}
	}
	return delivery.Result{Err: fmt.Errorf("%w; is there a stream with the subject %.200q?", late(ctx), answer.Msg().Subject)}
}
