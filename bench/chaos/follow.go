//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/api"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/loadgen/score"
)

// follower reads the stream of events across all restarts: it reconnects with the id of the last
// event that it was sent.
type follower struct {
	api    string
	client *http.Client

	mu     sync.Mutex // guards the fields below
	last   string     // id of the last message
	events []api.Event
	missed int
	resume int // connections so far
	err    error
}

// run follows until ctx is done.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			f.fail(err)
			return
		}
		_ = run.Wait(ctx, 20*time.Millisecond+rand.N(100*time.Millisecond))
	}
}

func (f *follower) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// follow reads one response to its end. Only what a server must never send is an error.
func (f *follower) follow(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.api+"/v1/events/stream?after=0", nil)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if f.last != "" {
		request.Header.Set("Last-Event-ID", f.last)
	}
	f.resume++
	f.mu.Unlock()
	answer, err := f.client.Do(request)
	if err != nil {
		return nil // the server is away
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return f.messages(answer.Body)
	case http.StatusServiceUnavailable:
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	return fmt.Errorf("the stream answers %s: %s", answer.Status, body)
}

// messages reads messages until the input ends. One that is cut off does not count.
func (f *follower) messages(body io.Reader) error {
	in := score.NewStreamDecoder(body, 64<<10)
	for {
		m, err := in.Next()
		if errors.Is(err, score.ErrLong) {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // so ends every stream, in order or not
		}
		if err := f.take(&m); err != nil {
			return err
		}
	}
}

// take notes a whole message.
func (f *follower) take(m *score.StreamMessage) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(m.ID) > 0 {
		f.last = string(m.ID)
	}
	switch {
	case len(m.Data) == 0:
		return nil
	case string(m.Event) == "missed":
		f.missed++
		return nil
	}
	var e api.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("the stream: %w", err)
	}
	if strconv.FormatUint(e.Offset, 10) != string(m.ID) {
		return fmt.Errorf("the stream has offset %d in a message with id %q", e.Offset, m.ID)
	}
	f.events = append(f.events, e)
	return nil
}

// reached returns the offset of the latest event that it was sent.
func (f *follower) reached() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return latest(f.events)
}
