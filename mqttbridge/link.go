package mqttbridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// link is one connection to the broker.
type link struct {
	client    paho.Client
	receive   func(*link, convention.Message)
	timeout   time.Duration
	watermark string        // topic of the messages to itself
	lost      chan error    // capacity 1, never closed; receives why the connection ended
	probes    chan uint64   // capacity 1, never closed; watermarks to send
	wake      chan struct{} // capacity 1, never closed; receives when waiting is not empty

	mu       sync.Mutex // guards the fields below
	waiting  []convention.Publication
	retained time.Time // when the latest retained message came; before the first one, when the connection began
	live     bool      // a message that is not retained came long after the latest retained one
}

// filtersPerPacket is the number of filters in one SUBSCRIBE; AWS IoT Core allows eight.
const filtersPerPacket = 8

// maxWaiting bounds the publications that wait for the sender.
const maxWaiting = 100_000

// errRefused is wrapped by the error for a subscription that the broker refuses.
var errRefused = errors.New("the broker refuses a subscription")

// dial connects to the broker. The connection is closed when life is done; heard and base are those of its gate.
func (c *Config) dial(ctx, life context.Context, heard *atomic.Int64, base time.Time, receive func(*link, convention.Message)) (*link, error) {
	if err := c.checkPassword(); err != nil {
		return nil, err
	}
	clientID, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	o, err := c.clientOptions(life, clientID, heard, base)
	if err != nil {
		return nil, err
	}
	l := &link{
		watermark: c.watermark(clientID), receive: receive, timeout: c.ConnectTimeout, lost: make(chan error, 1), probes: make(chan uint64, 1), wake: make(chan struct{}, 1),
		retained: time.Now(),
	}
	o.SetConnectionLostHandler(func(_ paho.Client, err error) { l.lost <- err })
	o.SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
		l.receive(l, convention.Message{Topic: m.Topic(), Payload: m.Payload(), Retained: m.Retained(), Time: time.Now()})
	})
	l.client = paho.NewClient(o)
	if err := l.wait(ctx, l.client.Connect()); err != nil {
		l.close()
		return nil, fmt.Errorf("connect: %w", explain(err))
	}
	return l, nil
}

// session returns the client identifier of a connection.
func (c *Config) session(ctx context.Context) (clientID string, err error) {
	if c.Session == nil {
		return c.ClientID, nil
	}
	return c.Session(ctx)
}

var errNoAnswer = errors.New("no answer from the broker")

// wait waits for the broker's answer.
func (l *link) wait(ctx context.Context, t paho.Token) error {
	timeout := time.NewTimer(l.timeout)
	defer timeout.Stop()
	select {
	case <-t.Done():
		return t.Error()
	case <-timeout.C:
		return fmt.Errorf("%w within %v", errNoAnswer, l.timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain adds to common errors what to do about them.
func explain(err error) error {
	for text, help := range map[string]string{
		"not Authorized":        "check the user name and the password, and what the broker lets this user do",
		"bad user name":         "check the user name and the password",
		"identifier rejected":   "the broker does not like the client identifier; choose another",
		"certificate":           "check the CA that the broker's certificate is from, and the server name",
		"unacceptable protocol": "the broker must speak MQTT 3.1.1",
		"connection refused":    "no broker listens there",
		"EOF":                   "the broker closed the connection, as it does when another client has the same identifier",
	} {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: %s", err, help)
		}
	}
	return err
}

func (l *link) close() { l.client.Disconnect(50) }

// failure is the least return code of a SUBACK that refuses (MQTT 3.1.1, section 3.9.3).
const failure = 0x80

// subscribe subscribes to filters, a few in each packet.
func (l *link) subscribe(ctx context.Context, filters map[string]byte) error {
	for chunk := range slices.Chunk(sortedKeys(filters), filtersPerPacket) {
		some := make(map[string]byte, len(chunk))
		for _, name := range chunk {
			some[name] = filters[name]
		}
		codes, err := l.subscribeOnce(ctx, some)
		if err != nil {
			return err
		}
		for name, code := range codes {
			if code >= failure {
				return fmt.Errorf("%w to %s: give this user the right to read it (ACL)", errRefused, name)
			}
		}
	}
	return nil
}

// subscribeOnce sends one SUBSCRIBE, and returns the codes of the answer.
func (l *link) subscribeOnce(ctx context.Context, filters map[string]byte) (codes map[string]byte, err error) {
	t := l.client.SubscribeMultiple(filters, nil)
	if err := l.wait(ctx, t); err != nil {
		return nil, fmt.Errorf("subscribe to %.300q: %w", sortedKeys(filters), err)
	}
	return t.(*paho.SubscribeToken).Result(), nil
}

// noteBacklog notes whether a message belongs to the retained ones that the broker sends after a subscription. That backlog has ended when
// a live message comes more than patience after the latest retained one.
func (l *link) noteBacklog(m convention.Message, patience time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Retained {
		l.retained = m.Time
	}
	l.live = m.Time.Sub(l.retained) > patience
}

// sendsRetained reports whether the broker may still be sending its retained messages: no live message
// came after them, and the latest of them came no longer than limit ago.
func (l *link) sendsRetained(now time.Time, limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.live && now.Sub(l.retained) <= limit
}

// ask queues publications for the sender. It never blocks. It reports false if the queue is full.
func (l *link) ask(publications []convention.Publication) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		return false
	}
	l.waiting = append(l.waiting, publications...)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

func (l *link) asked() []convention.Publication {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.waiting
	l.waiting = nil
	return all
}

// sender writes to the broker from a goroutine of its own, because writing may block.
type sender struct {
	*link

	bridge *Bridge
	qos    byte // of the watermark
}

// publishPause is the least time between two publications for conventions.
const publishPause = 2 * time.Millisecond

func (s *sender) run(ctx context.Context) {
	for {
		select {
		case n := <-s.probes:
			s.probe(ctx, n)
		case <-s.bridge.extras.wanted:
			s.subscribe(ctx)
		case <-s.wake:
			s.publish(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// probe sends a watermark.
func (s *sender) probe(ctx context.Context, n uint64) {
	topic := s.watermark
	if !s.bridge.answers.Load() {
		s.client.Publish(topic, s.qos, false, strconv.AppendUint(nil, n, 10))
		return
	}
	// There is no such subscription: the broker just says so (MQTT 3.1.1, section 3.10.4).
	if s.wait(ctx, s.client.Unsubscribe(topic)) == nil {
		s.bridge.queue.put(item{kind: returned, probe: n, message: convention.Message{Time: time.Now()}})
	}
}

// subscribe subscribes to what conventions ask for. Watermarks go first.
func (s *sender) subscribe(ctx context.Context) {
	for more := true; more; {
		select {
		case n := <-s.probes:
			s.probe(ctx, n)
		default:
		}
		var err error
		if more, err = s.bridge.subscribeExtra(ctx, s.link); err != nil && ctx.Err() == nil {
			s.bridge.config.Logger.Warn("cannot subscribe to requested topics; they are tried again on the next connection", "bridge", s.bridge.config.Name, "error", err)
		}
	}
}

// publish publishes what conventions ask for, after what they want to hear of it is subscribed to. Watermarks go first.
func (s *sender) publish(ctx context.Context) {
	s.subscribe(ctx)
	for _, p := range s.asked() {
		select {
		case n := <-s.probes:
			s.probe(ctx, n)
		case <-time.After(publishPause):
		case <-ctx.Done():
			return
		}
		s.client.Publish(p.Topic, p.QoS, p.Retained, p.Payload)
	}
}
