package mqttreport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// patience replaces Quiet until the publisher's own message has come back.
const patience = 5 * time.Second

// collector collects the messages of a subscription.
type collector struct {
	mu     sync.Mutex // guards the fields below
	found  map[string][]byte
	last   time.Time     // time of the last message
	echoed chan struct{} // closed when the own message came back
}

func (c *collector) collect(_ paho.Client, m paho.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !m.Retained() {
		return // it was published meanwhile
	}
	c.last = time.Now()
	if len(m.Payload()) > 0 {
		c.found[m.Topic()] = m.Payload()
	}
}

func (c *collector) echo(paho.Client, paho.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	select {
	case <-c.echoed:
	default:
		close(c.echoed)
	}
}

func (c *collector) lastCame() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Retained implements [Publisher]. It subscribes, publishes a message to itself and waits until that comes back: mosquitto queues what it
// retains before it acknowledges the subscription, so that all comes before. Other brokers read what they retain on the side, and the
// standard does not say (MQTT 3.1.1, section 3.8.4), so it waits until it is quiet, too. Subscriptions are of QoS 0, because brokers drop
// what goes beyond the queue of a subscriber with more.
func (p *Paho) Retained(ctx context.Context, filter string) (map[string][]byte, error) {
	s, _ := p.session()
	if s == nil {
		return nil, errLost
	}
	c := &collector{found: make(map[string][]byte), last: time.Now(), echoed: make(chan struct{})}
	own := p.cfg.Prefix + "/reporter/" + Encode(s.id)
	if err := s.subscribe(ctx, own, c.echo); err != nil && !errors.Is(err, ErrRefused) {
		return nil, err
	}
	if err := s.subscribe(ctx, filter, c.collect); err != nil {
		return nil, err
	}
	if err := s.await(ctx, s.client.Publish(own, 0, false, "?")); err != nil {
		return nil, err
	}
	if err := s.quiet(ctx, c, p.cfg.Quiet); err != nil {
		return nil, err
	}
	if err := s.await(ctx, s.client.Unsubscribe(filter, own)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.found), nil
}

func (s *session) subscribe(ctx context.Context, filter string, handle paho.MessageHandler) error {
	t := s.client.Subscribe(filter, 0, handle)
	err := s.await(ctx, t)
	if granted, ok := t.(*paho.SubscribeToken); ok && ctx.Err() == nil && granted.Result()[filter] == 0x80 {
		return fmt.Errorf("%w: %s", ErrRefused, filter)
	}
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", filter, err)
	}
	return nil
}

// quiet waits until all retained messages have come.
func (s *session) quiet(ctx context.Context, c *collector, quiet time.Duration) error {
	limit := patience // without an echo
	echoed := c.echoed
	for {
		left := time.Until(c.lastCame().Add(limit))
		if left <= 0 {
			return nil
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-echoed:
			limit, echoed = quiet, nil
		case <-s.ended:
			t.Stop()
			return errLost
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
		t.Stop()
	}
}
