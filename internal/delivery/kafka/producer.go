package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// producer is a sink that produces to a topic.
type producer struct {
	sink.Settings

	topic   string
	options []kgo.Opt
	reached atomic.Bool   // a broker has answered, and no answer has been late since
	turn    chan struct{} // capacity 1: held while pinging the brokers; never closed
	pinging sync.WaitGroup

	client *kgo.Client // guarded by turn; nil before the first delivery

	mu sync.Mutex // guards what follows; never held while producing
	// alone sends each record in a batch of its own; nil before a batch was too large.
	alone *kgo.Client
	// sent has the record of each message, by the message's id, until a delivery learns that it was
	// written, or it fails. A record may still be written after its delivery ran out of time. When the
	// message is delivered again, that delivery waits for the same record instead of making a second
	// one.
	sent map[string]*record
}

// record is a record that the client was given.
type record struct {
	done chan struct{} // closed when the record was written or failed
	err  error         // to be read after that
}

// Deliver implements [sink.Sink]. It produces messages in their order and waits for the brokers' acks.
// The client never fails a record and then writes a later one of the same partition, so that messages
// with the same key stay in order.
func (p *producer) Deliver(ctx context.Context, messages []sink.Message) []sink.Result {
	client, err := p.reach(ctx)
	if err != nil {
		return sink.Repeat(len(messages), sink.Result{Err: err})
	}
	records := make([]*record, len(messages))
	for i := range messages {
		records[i] = p.produce(ctx, client, &messages[i])
	}
	results := make([]sink.Result, len(messages))
	for i, r := range records {
		err := p.wait(ctx, messages[i].ID, r)
		if tooLarge(err) { // perhaps only the batch that it was in was
			err = p.deliverAlone(ctx, &messages[i])
		}
		results[i] = failure(ctx, err, p.topic)
	}
	return results
}

// deliverAlone delivers a message in a batch of its own, so that it alone can be too large.
func (p *producer) deliverAlone(ctx context.Context, m *sink.Message) error {
	p.mu.Lock()
	if p.alone == nil {
		var err error
		if p.alone, err = kgo.NewClient(append(slices.Clip(p.options), kgo.MaxBufferedRecords(1))...); err != nil {
			p.mu.Unlock()
			return err
		}
	}
	client := p.alone
	p.mu.Unlock()
	return p.wait(ctx, m.ID, p.produce(ctx, client, m))
}

// reach returns the client after a broker has answered. So its error says why no broker does, which
// that of a record would not, and no records wait in memory for brokers that cannot be reached.
func (p *producer) reach(ctx context.Context) (*kgo.Client, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, late(ctx)
	}
	if p.client == nil {
		client, err := kgo.NewClient(p.options...)
		if err != nil {
			<-p.turn
			return nil, err
		}
		p.client = client
	}
	if p.reached.Load() {
		defer func() { <-p.turn }()
		return p.client, nil
	}
	return p.client, p.ping(ctx, p.client)
}

// ping waits until a broker answers. It releases the turn when the client's Ping returns, which may be
// some time after ctx is done.
func (p *producer) ping(ctx context.Context, client *kgo.Client) error {
	answer := make(chan error, 1) // one value is sent
	p.pinging.Go(func() {
		err := client.Ping(ctx)
		if err == nil {
			p.reached.Store(true)
		}
		<-p.turn
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

// produce gives the client a record of a message, unless it has one. When ctx is done, a record that
// was never sent fails.
func (p *producer) produce(ctx context.Context, client *kgo.Client, m *sink.Message) *record {
	p.mu.Lock()
	r, ok := p.sent[m.ID]
	if !ok {
		if len(p.sent) >= 2*maxBuffered { // so some are of messages that are no longer delivered
			maps.DeleteFunc(p.sent, func(_ string, r *record) bool { return r.ended() })
		}
		r = &record{done: make(chan struct{})}
		p.sent[m.ID] = r
	}
	p.mu.Unlock()
	if ok {
		return r
	}
	id := m.ID
	client.Produce(ctx, recordOf(p.topic, m), func(_ *kgo.Record, err error) {
		if r.err = err; err != nil {
			p.forget(id)
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

// wait waits until a record was written or failed.
func (p *producer) wait(ctx context.Context, id string, r *record) error {
	select {
	case <-r.done:
		if r.err == nil {
			p.forget(id)
		} else if ctx.Err() != nil {
			p.reached.Store(false)
		}
		return r.err
	case <-ctx.Done():
		p.reached.Store(false)
		return late(ctx)
	}
}

func (p *producer) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sent, id)
}

// Close implements [sink.Sink]. It ends the connections. Records that the client still has are lost,
// and their messages are delivered again.
func (p *producer) Close() error {
	if p.client != nil { // no delivery is in progress, and ping does not set it
		p.client.Close()
	}
	if p.alone != nil { // the same
		p.alone.Close()
	}
	p.pinging.Wait()
	return nil
}
