package broker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// sparing passes on what the protocol's implementation warns of: without packets, for a CONNECT among them would show a password, and of
// each kind of message the 1st, 2nd, 4th, 8th … one, for a client can cause as many as it likes.
type sparing struct {
	slog.Handler

	seen *sync.Map // messages, which are constants, to *atomic.Uint64
}

// Enabled implements slog.Handler.
func (s *sparing) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && s.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (s *sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == mqtt.ErrMinimumKeepalive.Error() {
		return nil
	}
	count, _ := s.seen.LoadOrStore(r.Message, new(atomic.Uint64))
	n := count.(*atomic.Uint64).Add(1)
	if n&(n-1) != 0 {
		return nil
	}
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "pk", "packet", "will":
		default:
			clean.AddAttrs(a)
		}
		return true
	})
	clean.AddAttrs(slog.Uint64("times", n))
	return s.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (s *sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sparing{s.Handler.WithAttrs(attrs), s.seen}
}

// WithGroup implements slog.Handler.
func (s *sparing) WithGroup(name string) slog.Handler {
	return &sparing{s.Handler.WithGroup(name), s.seen}
}
