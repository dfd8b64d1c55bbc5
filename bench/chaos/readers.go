package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/sse"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

const (
	readEvery  = 500 * time.Millisecond
	readWithin = 5 * time.Second
)

// readers are two readers of the events while the run lasts. One follows the stream across all
// restarts: it reconnects with the id of the last event that it was sent. The other one reads the
// log page by page, and shown states.
type readers struct {
	api    func() *apiclient.Client // of any node, another one each time
	stay   time.Duration            // with a node, at most; 0: as long as it lasts
	chance *rand.Rand

	mu       sync.Mutex // guards the fields below
	last     string     // id of the last message of the stream
	followed []cloudevent.Event
	missed   int // messages of the stream that events were missed
	streams  int // connections so far
	err      error
	after    uint64 // what the next page begins after
	seen     []cloudevent.Event
	shown    map[string]bool // DEVICE:SEQ of the latest event in a shown state
}

// follow follows the stream until ctx is done.
func (r *readers) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.stream(ctx); err != nil && ctx.Err() == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.err = err
			return
		}
		_ = run.Wait(ctx, 20*time.Millisecond+rand.N(100*time.Millisecond))
	}
}

// stream reads one response to its end. Only what a server must never send is an error.
func (r *readers) stream(ctx context.Context) error {
	if r.stay > 0 {
		stay, cancel := context.WithTimeout(ctx, r.stay/2+rand.N(r.stay))
		defer cancel()
		ctx = stay
	}
	api := r.api()
	request, err := api.Request(ctx, http.MethodGet, "/v1/events/stream?after=0", nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	request.Header.Set("Last-Event-ID", r.last)
	r.streams++
	r.mu.Unlock()
	answer, err := api.Do(request)
	if err != nil {
		return nil // the server is away
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return r.messages(answer.Body)
	case http.StatusServiceUnavailable, http.StatusLoopDetected: // a node that was the judge stands by now
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	return fmt.Errorf("the stream answers %s: %s", answer.Status, body)
}

// messages reads messages until the input ends. One that is cut off does not count.
func (r *readers) messages(body io.Reader) error {
	for in := sse.NewDecoder(body, 64<<10); ; {
		m, err := in.Next()
		if err == nil {
			err = r.take(&m)
		} else if !errors.Is(err, sse.ErrLong) {
			return nil // so ends every stream, in order or not
		}
		if err != nil {
			return err
		}
	}
}

// take notes a whole message.
func (r *readers) take(m *sse.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(m.ID) > 0 {
		r.last = string(m.ID)
	}
	if string(m.Event) == "missed" {
		r.missed++
		return nil
	}
	if len(m.Data) == 0 {
		return nil
	}
	var e cloudevent.Event
	err := json.Unmarshal(m.Data, &e)
	if err == nil && strconv.FormatUint(e.Data.Offset, 10) != string(m.ID) {
		err = fmt.Errorf("offset %d in a message with id %q", e.Data.Offset, m.ID)
	}
	if err != nil {
		return fmt.Errorf("the stream: %w", err)
	}
	r.followed = append(r.followed, e)
	return nil
}

// read reads what is new, and now and then an old page again, until ctx is done. What cannot be
// read is read later.
func (r *readers) read(ctx context.Context) {
	for run.Wait(ctx, readEvery) == nil {
		for full := true; full && ctx.Err() == nil; {
			full = r.page(ctx, r.after)
		}
		if r.after > 0 && r.chance.IntN(10) == 0 {
			r.page(ctx, r.chance.Uint64N(r.after))
		}
		if r.chance.IntN(4) == 0 {
			r.states(ctx)
		}
	}
}

// page reads the page after an offset, and reports whether it was full.
func (r *readers) page(ctx context.Context, after uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	page, next, err := pageAfter(ctx, r.api(), after)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, page...)
	r.after = max(r.after, next)
	return err == nil && len(page) == pageSize
}

// states notes the events that the shown states follow from, except pending ones.
func (r *readers) states(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	all, err := states(ctx, r.api())
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range all {
		if s.Seq > 0 && s.State != "pending" {
			r.shown[id+":"+strconv.FormatUint(s.Seq, 10)] = true
		}
	}
}

// State is what the API shows of a device.
type State struct {
	ID, State, Reason string
	Seq               uint64
	Timeout           float64   `json:"timeout_ms"`
	LastSeen          time.Time `json:"last_seen"`
	Maintenance       bool
	SleepUntil        time.Time `json:"sleep_until"`
	Failed            bool      `json:"-"` // there is an event of that
}

// states reads the state of each device.
func states(ctx context.Context, client *apiclient.Client) (map[string]State, error) {
	all := map[string]State{}
	for after := ""; ; {
		var page struct {
			Devices []State
			Next    string
		}
		if err := client.Get(ctx, "/v1/devices", url.Values{"limit": {"1000"}, "after": {after}}, &page); err != nil {
			return nil, err
		}
		for _, d := range page.Devices {
			all[d.ID] = d
		}
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

// shownSoFar returns a copy of what states were shown after.
func (r *readers) shownSoFar() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.shown)
}

// complete adds what was read to the evidence, once the stream has had time to come to its end.
func (r *readers) complete(ctx context.Context, e *Evidence) error {
	for limit := time.Now().Add(2 * readWithin); r.reached() < latest(e.Events) && time.Now().Before(limit); {
		if err := run.Wait(ctx, pollEvery); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Followed, e.Seen, e.Missed = clipped(r.followed, e), clipped(r.seen, e), r.missed
	return r.err
}

// reached returns the offset of the latest event of the stream.
func (r *readers) reached() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return latest(r.followed)
}

// clipped leaves out events after the log was read.
func clipped(list []cloudevent.Event, e *Evidence) []cloudevent.Event {
	n := len(list)
	for n > 0 && list[n-1].Data.Offset > latest(e.Events) && e.History.when(list[n-1].Time) > e.Until {
		n--
	}
	return list[:n:n]
}
