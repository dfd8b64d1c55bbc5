package httpapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/sockets"
	"github.com/holter-iot/holter/liveness"
)

// deafAfterFailure is how long nothing is heard once a heartbeat was refused because its token could not be checked.
const deafAfterFailure = time.Second

// hearing is the source of the heartbeats that come by HTTP, and keeps its listening clock.
//
// All requests with heartbeats that are being handled are entered. A client cannot hold the clock up for more than some seconds: not with
// a body that comes slowly, nor with requests that it sends before it has the answer to those before, nor with connections that it leaves
// idle. Connections that wait because [Config.MaxConnections] are served hold the clock up until it is their turn.
//
// It is deaf while the process starts, while tokens cannot be checked, and when it does not run.
type hearing struct {
	*sockets.Clock

	source *liveness.Source

	beats   atomic.Uint64 // that were taken
	refused atomic.Uint64 // that were not
}

func newHearing(registry *liveness.Registry, name string, deaf func() bool, set *sockets.Set) (*hearing, error) {
	source, err := registry.AddSource(liveness.SourceConfig{Name: name})
	if err != nil {
		return nil, fmt.Errorf("httpapi: source of heartbeats: %w", err)
	}
	return &hearing{Clock: sockets.NewClock(source, set, deaf), source: source}, nil
}

// now returns the listening time to stamp a heartbeat with.
func (h *hearing) now() time.Duration { return h.source.Time(time.Now()) }

// Listen keeps the listening clock of the heartbeats by HTTP until ctx is done; without it no device that is heard there is ever
// judged. [API.Serve] calls it by itself. Call it once. It fails at once if the process has no descriptors left.
func (a *API) Listen(ctx context.Context) error {
	if a.ear == nil {
		return nil
	}
	if err := a.ear.Run(ctx); err != nil {
		return fmt.Errorf("httpapi: %w", err)
	}
	return nil
}

// deaf reports whether heartbeats are refused, through no fault of the devices.
func (a *API) deaf() bool {
	return a.config.Starting() != nil || a.tokens != nil && a.tokens.failing(a.now(), deafAfterFailure)
}
