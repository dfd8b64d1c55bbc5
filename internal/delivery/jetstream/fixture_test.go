package jetstream_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/holter-iot/holter/internal/delivery/jetstream"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

func TestMain(m *testing.M) { sinktest.Main(m) }

// broker is a server of this process.
type broker struct {
	tb      testing.TB
	options server.Options
	server  *server.Server
}

// newBroker starts a server with streams in a folder of the test.
func newBroker(tb testing.TB, change func(*server.Options)) *broker {
	tb.Helper()
	b := &broker{tb: tb, options: server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: tb.TempDir(), NoLog: true, NoSigs: true}}
	if change != nil {
		change(&b.options)
	}
	b.start()
	tb.Cleanup(b.stop)
	return b
}

// start starts it, on the port that it had before.
func (b *broker) start() {
	b.tb.Helper()
	o := b.options // the server changes them
	s, err := server.NewServer(&o)
	if err != nil {
		b.tb.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		b.tb.Fatal("the server does not start")
	}
	b.server, b.options.Port = s, s.Addr().(*net.TCPAddr).Port
}

func (b *broker) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

func (b *broker) address() string { return fmt.Sprintf("127.0.0.1:%d", b.options.Port) }

func (b *broker) url() string { return "nats://" + b.address() + "/" }

// ask lets f use streams.
func (b *broker) ask(f func(ctx context.Context, js natsjs.JetStream) error, options ...nats.Option) {
	b.tb.Helper()
	conn, err := nats.Connect(b.url(), options...)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		b.tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := f(ctx, js); err != nil {
		b.tb.Fatal(err)
	}
}

// stream makes a stream of subjects.
func (b *broker) stream(config natsjs.StreamConfig) {
	b.tb.Helper()
	b.ask(func(ctx context.Context, js natsjs.JetStream) error {
		_, err := js.CreateStream(ctx, config)
		return err
	})
}

// fleet is a stream of all that is published below holter.
func fleet() natsjs.StreamConfig {
	return natsjs.StreamConfig{Name: "FLEET", Subjects: []string{"holter.>"}}
}

// stored returns all messages of the stream FLEET.
func (b *broker) stored() []*natsjs.RawStreamMsg {
	b.tb.Helper()
	var all []*natsjs.RawStreamMsg
	b.ask(func(ctx context.Context, js natsjs.JetStream) error {
		s, err := js.Stream(ctx, "FLEET")
		if err != nil {
			return err
		}
		for i := range s.CachedInfo().State.Msgs {
			m, err := s.GetMsg(ctx, i+1)
			if err != nil {
				return err
			}
			all = append(all, m)
		}
		return nil
	})
	return all
}

// open makes a sink, and closes it when the test ends.
func open(tb testing.TB, target, settings string) sink.Sink {
	tb.Helper()
	return sinktest.New(tb, jetstream.Kind(sinktest.Guard()), target, settings)
}

// message is the one of a device's event.
func message(device string, seq int) sink.Message {
	id := fmt.Sprintf("%s:%d", device, seq)
	return sink.Message{
		ID: id, Key: device, ContentType: cloudevent.ContentType, Data: []byte(`{"id":"` + id + `"}`),
		Event: &liveness.Event{Type: liveness.DeviceOffline, Subject: device, Group: "site 7"},
	}
}

// deliver delivers with a time limit.
func deliver(tb testing.TB, s sink.Sink, limit time.Duration, messages ...sink.Message) []sink.Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	results := s.Deliver(ctx, messages)
	if len(results) != len(messages) {
		tb.Fatalf("%d results of %d messages", len(results), len(messages))
	}
	return results
}

// plenty is more time than anything takes.
const plenty = time.Minute

// must delivers what has to arrive at once.
func must(tb testing.TB, s sink.Sink, messages ...sink.Message) {
	tb.Helper()
	for i, r := range deliver(tb, s, plenty, messages...) {
		if r.Err != nil {
			tb.Fatalf("%s: %+v", messages[i].ID, r)
		}
	}
}

// proxy stands before a server.
type proxy struct {
	net.Listener

	to string

	mu    sync.Mutex // guards the fields below
	conns map[net.Conn]bool
	deaf  bool // the first bytes of an answer are not passed on: they end the connection
	heard chan struct{}
	done  sync.WaitGroup
}

func newProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, conns: make(map[net.Conn]bool), heard: make(chan struct{}, 100)}
	p.done.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.done.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.done.Go(func() { p.pass(client, server, true) })
		p.done.Go(func() { p.pass(server, client, false) })
	}
}

// pass passes on what one side says.
func (p *proxy) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		deaf := answers && p.deaf
		p.mu.Unlock()
		if deaf && n > 0 {
			p.heard <- struct{}{}
			return
		}
		if _, bad := to.Write(buffer[:n]); err != nil || bad != nil {
			return
		}
	}
}

func (p *proxy) setDeaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// silent is a server that takes connections and says nothing, until the test ends.
func silent(tb testing.TB) string {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		done.Wait()
	})
	return l.Addr().String()
}
