package gateway

import (
	"context"
	"time"

	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/liveness/watermark"
)

// keepClock sends markers into the event loops until ctx is done. A marker follows the connections
// that waited to be accepted at its instant: what they say is read before it is passed.
func (g *Gateway) keepClock(ctx context.Context) error {
	var barrier sockets.Barrier
	accepts := g.acceptsOf(false)
	l := watermark.Loop{
		Source: g.source, Least: g.config.ProbeInterval,
		Pulse: func(now time.Time) (time.Duration, error) {
			listened := g.source.Pulse(now)
			barrier.Note(now, listened, accepts)
			return listened, nil
		},
		Advance: func(now time.Time) (time.Duration, error) {
			if listened, ok := barrier.Passed(now); ok {
				for _, l := range g.loops {
					l.events.Mark(int64(listened))
				}
			}
			if barrier.Waiting() {
				return sockets.LookAgain, nil
			}
			return 0, nil
		},
	}
	return l.Run(ctx)
}
