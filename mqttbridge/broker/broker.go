package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/sockets"
	"github.com/holter-iot/holter/liveness"
)

// Broker serves MQTT clients. Make one with [New] and call [Broker.Run] once.
type Broker struct {
	config   Config
	log      *slog.Logger
	registry *liveness.Registry
	source   *liveness.Source
	server   *mqtt.Server
	inline   *mqtt.Client // publishes messages of the program
	listener *sockets.Listener
	sockets  *sockets.Set
	clock    *sockets.Clock
	closer   closer
	turns    turns
	retained retained
	serving  sync.WaitGroup // one for each connection
	tasks    sync.WaitGroup // what sends to them beside; begun only while a connection has not ended

	mu    sync.Mutex // guards conns
	conns map[*conn]struct{}

	patience func(time.Duration) (context.Context, context.CancelFunc) // for what a CONNECT waits for; set by Run
	closing  atomic.Bool                                               // the end of connections is the broker's doing, not the clients'
	counts   counters
}

// New binds the address, for which ctx may be needed (a name is looked up), and adds the broker to the registry's sources. It accepts
// nothing yet. Errors: a bad config, an address that cannot be bound (the error is a [*net.OpError]), a source name that is taken.
func New(ctx context.Context, registry *liveness.Registry, cfg Config) (*Broker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{config: cfg, log: cfg.Logger, registry: registry, sockets: sockets.NewSet(), conns: make(map[*conn]struct{})}
	b.closer.init(cfg.CloseRate)
	b.counts.init()
	if err := b.newServer(); err != nil {
		return nil, err
	}
	if err := b.listen(ctx); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	b.source, err = registry.AddSource(liveness.SourceConfig{ //nolint:contextcheck // a source ends with the registry's Run
		Name: cfg.Source, MaxGap: cfg.MaxGap, ReconnectGrace: cfg.ReconnectGrace, ReconnectGraceMax: cfg.ReconnectGraceMax,
	})
	if err != nil {
		_ = b.listener.Close()
		return nil, fmt.Errorf("broker: %w", err)
	}
	b.clock = sockets.NewClock(b.source, b.sockets, nil)
	return b, nil
}

// listen binds the address.
func (b *Broker) listen(ctx context.Context) error {
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(ctx, "tcp", b.config.Listen)
	if err != nil {
		return err
	}
	if b.listener, err = sockets.Count(l); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// newServer makes what speaks the protocol. It starts nothing.
func (b *Broker) newServer() error {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumClients = int64(b.config.MaxClients)
	c.MaximumMessageExpiryInterval = 0 // messages are kept for as long as they say
	c.MaximumClientWritesPending = int32(b.config.MaxPending)
	c.MaximumSessionExpiryInterval = uint32(b.config.SessionExpiry / time.Second)
	c.MaximumPacketSize = uint32(b.config.MaxPacket)
	c.MaximumInflight = uint16(b.config.MaxInflight)
	c.ReceiveMaximum = uint16(min(b.config.MaxInflight, 1024))
	c.TopicAliasMaximum = 64
	b.server = mqtt.New(&mqtt.Options{
		Capabilities:             c,
		ClientNetReadBufferSize:  readBuffer,
		ClientNetWriteBufferSize: 2048,
		SysTopicResendInterval:   10,
		Logger:                   slog.New(&sparing{Handler: b.log.With("component", "mqtt").Handler(), seen: new(sync.Map)}),
	})
	b.inline = b.server.NewClient(nil, mqtt.LocalListener, "", true)
	if err := b.server.AddHook(&hook{broker: b}, nil); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}

// Addr returns the address of the listener.
func (b *Broker) Addr() net.Addr { return b.listener.Addr() }

// Source returns the broker's source.
func (b *Broker) Source() *liveness.Source { return b.source }

// Run serves until ctx is done. Then it accepts no more connections, disconnects all clients, and
// returns. Devices keep their states, and wills are not published. Messages and sessions are lost.
// It returns an error only if it could not start.
func (b *Broker) Run(ctx context.Context) error {
	defer func() { _ = b.listener.Close() }()
	b.source.Pulse(time.Now()) // the listening begins
	if err := b.server.Serve(); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	b.sockets.Listen(b.listener)
	group, ctx := errgroup.WithContext(ctx)
	b.patience = func(d time.Duration) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	group.Go(func() error {
		if err := b.clock.Run(ctx); err != nil {
			return fmt.Errorf("broker: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		b.closer.run(ctx)
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		_ = b.listener.Close()
		return nil
	})
	group.Go(func() error { return b.accept(ctx) })
	err := group.Wait()
	b.stop()
	return err
}

// stop closes all connections and waits for them. No more are accepted.
func (b *Broker) stop() {
	b.closing.Store(true)
	b.mu.Lock()
	open := make([]*conn, 0, len(b.conns))
	for c := range b.conns {
		open = append(open, c)
	}
	b.mu.Unlock()
	for _, c := range open {
		if c.greeted.Load() {
			c.end(packets.ErrServerShuttingDown)
		}
		_ = c.Close()
	}
	b.serving.Wait()
	b.tasks.Wait()
	_ = b.server.Close() // it has nothing left to fail with
}

// serve serves a connection to its end.
func (b *Broker) serve(c *conn) {
	var err error
	defer func() {
		if v := recover(); v != nil {
			b.panicked(v)
			err = errPanic
		}
		c.finish(err)
	}()
	var stream net.Conn = c
	if b.config.TLS != nil {
		stream = tls.Server(c, b.config.TLS)
	}
	err = b.server.EstablishConnection("tcp", stream)
}

// errPanic ends a connection that was served by a goroutine that panicked.
var errPanic = errors.New("broker: panic")

func (b *Broker) panicked(v any) {
	b.counts.panics.Add(1)
	b.log.Error("panic while serving an MQTT client; its connection is closed", "panic", v, "stack", string(debug.Stack()))
}

// now returns the current listening time.
func (b *Broker) now() time.Duration { return b.source.Time(time.Now()) }

// Publish publishes a message with QoS 0, to any topic. If retain, the broker keeps it, whatever the bounds; an empty payload removes what is
// kept. It does not wait for subscribers. Errors: a topic that is none.
func (b *Broker) Publish(topic string, payload []byte, retain bool) error {
	if topic == "" || strings.ContainsAny(topic, "+#\x00") || len(topic) > 1<<16-1 {
		return fmt.Errorf("broker: publish to %q: want a topic of 1 to 65,535 bytes without wildcards", topic)
	}
	err := b.server.InjectPacket(b.inline, packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: retain}, TopicName: topic, Payload: payload,
	})
	if err != nil {
		return fmt.Errorf("broker: publish to %q: %w", topic, err)
	}
	return nil
}

// Retained returns the payloads of the retained messages whose topics match a filter, by topic. They are not to be changed.
func (b *Broker) Retained(filter string) map[string][]byte {
	found := make(map[string][]byte)
	for _, topic := range b.retained.match(filter) {
		if pk, ok := b.server.Topics.Retained.Get(topic); ok {
			found[topic] = pk.Payload
		}
	}
	return found
}
