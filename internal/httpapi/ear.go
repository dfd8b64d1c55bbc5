package httpapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/liveness"
)

// deafAfterFailure is how long the source stays deaf after a heartbeat was refused because its
// token could not be checked.
const deafAfterFailure = time.Second

// hearing is the source of the heartbeats that come by HTTP, and keeps its listening clock.
//
// All requests with heartbeats that are being handled hold up the clock. A client can do so only
// for some seconds: neither with a slow body, nor with pipelined requests, nor with idle
// connections for longer. Connections beyond [Config.MaxConnections] hold up the clock until they
// are served.
//
// It is deaf while the process starts, while tokens cannot be checked or it is not known whether they
// are needed, and when it does not run.
type hearing struct {
	*sockets.Clock

	source *liveness.Source

	beats   atomic.Uint64 // accepted heartbeats
	refused atomic.Uint64 // refused heartbeats
}

func newHearing(registry *liveness.Registry, name string, deaf func() bool, set *sockets.Set) (*hearing, error) {
	source, err := registry.AddSource(liveness.SourceConfig{Name: name})
	if err != nil {
		return nil, fmt.Errorf("httpapi: source of heartbeats: %w", err)
	}
	return &hearing{Clock: sockets.NewClock(source, set, deaf), source: source}, nil
}

// now returns the listening time of a heartbeat that is received now.
func (h *hearing) now() time.Duration { return h.source.Time(time.Now()) }

// Listen moves the listening clock of the heartbeats by HTTP until ctx is done. Without it no
// device heard there is ever judged. [API.Serve] calls it. Call it once. It fails at once if the
// process has no descriptors left.
func (a *API) Listen(ctx context.Context) error {
	if a.ear == nil {
		return nil
	}
	if err := a.ear.Run(ctx); err != nil {
		return fmt.Errorf("httpapi: %w", err)
	}
	return nil
}

// Progress returns a count that grows several times a second while [API.Listen] works, as those
// of a gateway do; nothing if the API takes no heartbeats.
func (a *API) Progress() []uint64 {
	if a.ear == nil {
		return nil
	}
	return []uint64{a.ear.Passes()}
}

// deaf reports whether heartbeats are refused for reasons other than their devices.
func (a *API) deaf() bool {
	if a.config.Starting() != nil {
		return true
	}
	if a.tokens == nil {
		return false
	}
	_, unknown := a.config.Auth.Required()
	return unknown != nil || a.tokens.failing(a.now(), deafAfterFailure)
}
