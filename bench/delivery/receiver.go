package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// receiverName is the argument of the process that is the endpoint.
const receiverName = "receiver"

const (
	hooksPath = "/hooks"
	timedPath = "/timed" // for webhooks whose arrivals are noted one by one
)

// The commands of the endpoint.
const (
	askReceived = "received"
	askArrivals = "arrivals"
)

// received is what has arrived until now.
type received struct {
	Requests int64
	Events   int64
}

// receive starts an endpoint that answers 200 at once.
func receive(ctx context.Context) (s measured.Subject, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	inbox := newInbox()
	server := &http.Server{Handler: inbox, ReadHeaderTimeout: time.Minute}
	go measured.Keep(ctx, func() error { return server.Serve(listener) })
	s.Addr, s.Answer = listener.Addr().(*net.TCPAddr).AddrPort(), inbox.answer
	return s, nil
}

// inbox counts what arrives.
type inbox struct {
	http.ServeMux

	requests, events atomic.Int64
	buffers          sync.Pool

	mu       sync.Mutex           // guards arrivals
	arrivals map[string]time.Time // by webhook-id
}

func newInbox() *inbox {
	b := &inbox{arrivals: make(map[string]time.Time)}
	b.buffers.New = func() any { return new(bytes.Buffer) }
	b.HandleFunc("POST "+hooksPath, func(_ http.ResponseWriter, r *http.Request) { b.take(r) })
	b.HandleFunc("POST "+timedPath, func(_ http.ResponseWriter, r *http.Request) {
		now, id := time.Now(), r.Header.Get("Webhook-Id")
		b.take(r)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.arrivals[id] = now
	})
	return b
}

// answer carries out a command.
func (b *inbox) answer(command string) (any, error) {
	switch command {
	case askReceived:
		return received{Requests: b.requests.Load(), Events: b.events.Load()}, nil
	case askArrivals:
		b.mu.Lock()
		defer b.mu.Unlock()
		return maps.Clone(b.arrivals), nil
	}
	return nil, errors.New("no such command")
}

// take reads a webhook to its end, and counts the events in it.
func (b *inbox) take(r *http.Request) {
	body := b.buffers.Get().(*bytes.Buffer)
	defer b.buffers.Put(body)
	body.Reset()
	if _, err := body.ReadFrom(r.Body); err != nil {
		return // the webhook is sent again
	}
	b.events.Add(int64(bytes.Count(body.Bytes(), []byte(`"specversion"`))))
	b.requests.Add(1)
}

// receiver is an endpoint in a process of its own.
type receiver struct{ *measured.Process }

// startReceiver starts one, which ends with Stop or this process.
func startReceiver(ctx context.Context) (receiver, error) {
	p, err := measured.Start(ctx, measured.Anywhere, name, receiverName)
	return receiver{p}, err
}

func (r receiver) url(path string) string { return "http://" + r.Addr.String() + path }

// received returns what has arrived until now.
func (r receiver) received() (n received, err error) {
	err = r.Ask(askReceived, &n)
	return n, err
}

// expect returns an error unless n events have arrived.
func (r receiver) expect(n int) error {
	got, err := r.received()
	if err == nil && got.Events != int64(n) {
		err = fmt.Errorf("%d events arrived, want %d", got.Events, n)
	}
	return err
}
