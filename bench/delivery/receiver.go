package delivery

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// received is what has arrived at the endpoint until now.
type received struct {
	Events int
	Latest time.Time // when the latest request came
}

// receive starts an endpoint that answers 200 at once. Its answer to any command is what it has received.
func receive(ctx context.Context) (s measured.Subject, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	var mu sync.Mutex // guards all
	var all received
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Now()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the webhook is sent again
		}
		mu.Lock()
		defer mu.Unlock()
		all.Events += bytes.Count(body, []byte(`"specversion"`))
		all.Latest = now
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go measured.Keep(ctx, func() error { return server.Serve(listener) })
	s.Addr = listener.Addr().(*net.TCPAddr).AddrPort()
	s.Answer = func(string) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		return all, nil
	}
	return s, nil
}
