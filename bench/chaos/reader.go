//go:build linux

package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/api"
	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	readEvery  = 500 * time.Millisecond
	readWithin = 5 * time.Second
)

// reader reads the log page by page while the run lasts: what is new, and now and then an old page
// again.
type reader struct {
	api    string
	client *http.Client
	chance *rand.Rand

	mu     sync.Mutex // guards the fields below
	after  uint64
	events []api.Event
	shown  map[string]bool // DEVICE:SEQ of the latest event in a shown state
}

// run reads until ctx is done. A page that cannot be read is read later.
func (r *reader) run(ctx context.Context) {
	for run.Wait(ctx, readEvery) == nil {
		for full := true; full && ctx.Err() == nil; {
			full = r.read(ctx, r.after)
		}
		if r.after > 0 && r.chance.IntN(10) == 0 {
			r.read(ctx, r.chance.Uint64N(r.after))
		}
		if r.chance.IntN(4) == 0 {
			r.states(ctx)
		}
	}
}

// read reads the page after an offset, and reports whether it was full.
func (r *reader) read(ctx context.Context, after uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	page, next, err := api.EventsAfter(ctx, r.client, r.api, after)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, page...)
	r.after = max(r.after, next)
	return len(page) == api.PageSize
}

// states notes the events that the shown states follow from, except pending ones.
func (r *reader) states(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	all, err := states(ctx, r.client, r.api)
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

// states reads the state of each device.
func states(ctx context.Context, client *http.Client, where string) (map[string]State, error) {
	all := map[string]State{}
	for after := ""; ; {
		var page struct {
			Devices []struct {
				ID, State, Reason string
				Seq               uint64
				Timeout           float64   `json:"timeout_ms"`
				LastSeen          time.Time `json:"last_seen"`
			}
			Next string
		}
		if err := api.GetJSON(ctx, client, where+"/v1/devices?limit=1000&after="+url.QueryEscape(after), &page); err != nil {
			return nil, err
		}
		for _, d := range page.Devices {
			all[d.ID] = State{State: d.State, Reason: d.Reason, Seq: d.Seq, Timeout: time.Duration(d.Timeout * float64(time.Millisecond)), LastSeen: d.LastSeen}
		}
		if page.Next == "" {
			return all, nil
		}
		after = page.Next
	}
}
