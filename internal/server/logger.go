package server

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"

	"github.com/lmittmann/tint"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/terminal"
)

// logs makes the lines of a log, whose form may change while the program runs.
type logs struct {
	out     io.Writer
	node    string
	current atomic.Pointer[slog.Handler]
}

// newLogs returns the log of a node. Lines of JSON name it, or the host if it has no name of its own.
func newLogs(c config.Log, node string, out io.Writer) *logs {
	if node == "" {
		node, _ = os.Hostname() // whoever needs it says that there is none
	}
	l := &logs{out: out, node: node}
	l.set(c)
	return l
}

// set puts another form in force, also for loggers that there are.
func (l *logs) set(c config.Log) {
	h := l.newHandler(c)
	l.current.Store(&h)
}

// logger returns a logger.
func (l *logs) logger() *slog.Logger { return slog.New(&switched{logs: l}) }

// newHandler returns a handler of the configured form.
func (l *logs) newHandler(c config.Log) slog.Handler {
	terminal := terminal.IsTerminal(l.out)
	if c.Format == config.LogJSON || c.Format == config.LogAuto && !terminal {
		h := slog.NewJSONHandler(l.out, &slog.HandlerOptions{Level: c.Level, ReplaceAttr: inSeconds})
		return h.WithAttrs([]slog.Attr{slog.String("node", l.node)})
	}
	return tint.NewTextHandler(l.out, &tint.Options{Level: c.Level, NoColor: !terminal, TimeFormat: "15:04:05.000"})
}

// switched is a handler that follows its logs.
type switched struct {
	logs   *logs
	derive []func(slog.Handler) slog.Handler // what WithAttrs and WithGroup have asked for, in that order
	latest atomic.Pointer[derived]
}

// derived is a handler that was made from a form of the log.
type derived struct {
	of      *slog.Handler
	handler slog.Handler
}

func (s *switched) handler() slog.Handler {
	current := s.logs.current.Load()
	if d := s.latest.Load(); d != nil && d.of == current {
		return d.handler
	}
	h := *current
	for _, derive := range s.derive {
		h = derive(h)
	}
	s.latest.Store(&derived{current, h})
	return h
}

func (s *switched) with(derive func(slog.Handler) slog.Handler) slog.Handler {
	return &switched{logs: s.logs, derive: append(slices.Clip(s.derive), derive)}
}

// Enabled implements [slog.Handler].
func (s *switched) Enabled(ctx context.Context, l slog.Level) bool {
	return s.handler().Enabled(ctx, l)
}

// Handle implements [slog.Handler].
func (s *switched) Handle(ctx context.Context, r slog.Record) error {
	return s.handler().Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (s *switched) WithAttrs(attrs []slog.Attr) slog.Handler {
	return s.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (s *switched) WithGroup(name string) slog.Handler {
	return s.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

// inSeconds writes durations as numbers of seconds, and says so in their names: {"took": 1.5 s} becomes
// {"took_seconds": 1.5}.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}
