package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// receiverName is the order to be the endpoint.
const receiverName = "receiver"

const (
	hooksPath = "/hooks"
	// timedPath is for webhooks whose arrivals are noted one by one.
	timedPath    = "/timed"
	countPath    = "/count"
	arrivalsPath = "/arrivals"
)

// hello is what the endpoint says when it is ready.
type hello struct {
	URL string
	PID int
}

// received is what came until now.
type received struct {
	Requests int64
	Events   int64
}

// receive is an endpoint that answers 200 at once, until its input ends.
func receive(ctx context.Context, in io.Reader, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newInbox(), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer func() { _ = server.Close() }()
	if err := json.NewEncoder(out).Encode(hello{URL: "http://" + listener.Addr().String(), PID: os.Getpid()}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// inbox counts what comes.
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
	b.HandleFunc("GET "+countPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(received{Requests: b.requests.Load(), Events: b.events.Load()})
	})
	b.HandleFunc("GET "+arrivalsPath, func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		_ = json.NewEncoder(w).Encode(b.arrivals)
	})
	return b
}

// take reads a webhook to its end, and counts the events in it.
func (b *inbox) take(r *http.Request) {
	body := b.buffers.Get().(*bytes.Buffer)
	defer b.buffers.Put(body)
	body.Reset()
	if _, err := body.ReadFrom(r.Body); err != nil {
		return // it will come again
	}
	b.events.Add(int64(bytes.Count(body.Bytes(), []byte(`"specversion"`))))
	b.requests.Add(1)
}

// receiver is an endpoint in a process of its own.
type receiver struct {
	hello

	stop func()
}

// startReceiver starts one, which ends with stop or this process.
func startReceiver(ctx context.Context) (*receiver, error) {
	cmd, err := command(ctx, receiverName)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &receiver{stop: func() {
		_ = in.Close()
		_ = cmd.Wait() // how it ended matters to nobody
	}}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r.hello)
	}
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("the endpoint did not start: %w", err)
	}
	return r, nil
}

// ask gets what the endpoint answers to a GET.
func (r *receiver) ask(ctx context.Context, path string, answer any) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+path, nil)
	if err != nil {
		return err
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, got.Body.Close()) }()
	return json.NewDecoder(got.Body).Decode(answer)
}

// received returns what came until now.
func (r *receiver) received(ctx context.Context) (n received, err error) {
	err = r.ask(ctx, countPath, &n)
	return n, err
}

// expect makes sure that n events came.
func (r *receiver) expect(ctx context.Context, n int) error {
	got, err := r.received(ctx)
	if err == nil && got.Events != int64(n) {
		err = fmt.Errorf("%d events came, want %d", got.Events, n)
	}
	return err
}
