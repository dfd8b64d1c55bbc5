package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holter-iot/holter/delivery"
)

// sink is a sink that produces to a topic.
type sink struct {
	topic   string
	options []kgo.Opt
	reached atomic.Bool   // a broker has answered, and none has been late since
	turn    chan struct{} // capacity 1: held while asking whether a broker answers; never closed
	asking  sync.WaitGroup

	client *kgo.Client // guarded by turn; nil before the first delivery

	mu sync.Mutex // guards sent; never held while producing
	// sent are the records by message that the client has, or that no delivery has learned the good end of. One whose delivery has run out of time may
	// be written nevertheless: when the message is delivered again, its end is waited for, instead of making a second record.
	sent map[string]*record
}

// record is one that the client was given.
type record struct {
	done chan struct{} // closed at its end
	err  error         // to be read then
}

func newSink(topic string, options []kgo.Opt) *sink {
	return &sink{topic: topic, options: options, turn: make(chan struct{}, 1), sent: make(map[string]*record)}
}

// Deliver produces messages in their order and waits for the brokers' answers. The client fails no record of a partition and then writes
// one behind it, so that what has the same key stays in order.
func (s *sink) Deliver(ctx context.Context, messages []delivery.Message) []delivery.Result {
	client, err := s.reach(ctx)
	if err != nil {
		return slices.Repeat([]delivery.Result{{Err: err}}, len(messages))
	}
	records := make([]*record, len(messages))
	for i := range messages {
		records[i] = s.produce(ctx, client, &messages[i])
	}
	results := make([]delivery.Result, len(messages))
	for i, r := range records {
		err := s.wait(ctx, messages[i].ID, r)
		if tooLarge(err) { // that may have been the batch that it was sent in
			err = s.wait(ctx, messages[i].ID, s.produce(ctx, client, &messages[i]))
		}
		results[i] = failure(ctx, err, s.topic)
	}
	return results
}

// reach returns the client, after a broker has answered: then it is known why none does, which a record does not tell, and nothing is kept
// in memory for brokers that are away.
func (s *sink) reach(ctx context.Context) (*kgo.Client, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, late(ctx)
	}
	if s.client == nil {
		client, err := kgo.NewClient(s.options...)
		if err != nil {
			<-s.turn
			return nil, err
		}
		s.client = client
	}
	if s.reached.Load() {
		defer func() { <-s.turn }()
		return s.client, nil
	}
	return s.client, s.ask(ctx, s.client)
}

// ask asks whether a broker answers. It gives the turn back once the client has ended, which may be some time after ctx is done.
func (s *sink) ask(ctx context.Context, client *kgo.Client) error {
	answer := make(chan error, 1) // one is written
	s.asking.Go(func() {
		err := client.Ping(ctx)
		if err == nil {
			s.reached.Store(true)
		}
		<-s.turn
		answer <- err
	})
	select {
	case err := <-answer:
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", late(ctx), err)
		}
		return fmt.Errorf("no broker can be reached: %w", err)
	case <-ctx.Done():
		return late(ctx)
	}
}

// produce gives the client a record of a message, unless it has one. The record may fail when ctx is done, if it was never sent.
func (s *sink) produce(ctx context.Context, client *kgo.Client, m *delivery.Message) *record {
	s.mu.Lock()
	r, ok := s.sent[m.ID]
	if !ok {
		if len(s.sent) >= 2*maxBuffered { // so some are of messages that nobody delivers any more
			maps.DeleteFunc(s.sent, func(_ string, r *record) bool { return r.ended() })
		}
		r = &record{done: make(chan struct{})}
		s.sent[m.ID] = r
	}
	s.mu.Unlock()
	if ok {
		return r
	}
	id := m.ID
	client.Produce(ctx, recordOf(s.topic, m), func(_ *kgo.Record, err error) {
		if r.err = err; err != nil {
			s.forget(id)
		}
		close(r.done)
	})
	return r
}

func (r *record) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// wait waits for the end of a record.
func (s *sink) wait(ctx context.Context, id string, r *record) error {
	select {
	case <-r.done:
		if r.err == nil {
			s.forget(id)
		} else if ctx.Err() != nil {
			s.reached.Store(false)
		}
		return r.err
	case <-ctx.Done():
		s.reached.Store(false)
		return late(ctx)
	}
}

func (s *sink) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, id)
}

// Close ends the connections. What the client still has is lost, and its messages are delivered again by whoever has them.
func (s *sink) Close() error {
	if s.client != nil { // no delivery is going on, and who asks does not set it
		s.client.Close()
	}
	s.asking.Wait()
	return nil
}
