package server

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/terminal"
)

// newLogger returns a logger of the configured form. Lines of JSON name the node, or the host if it has no
// name of its own.
func newLogger(c config.Log, node string, out io.Writer) *slog.Logger {
	terminal := terminal.IsTerminal(out)
	if c.Format == config.LogJSON || c.Format == config.LogAuto && !terminal {
		if node == "" {
			node, _ = os.Hostname() // whoever needs it says that there is none
		}
		return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: c.Level, ReplaceAttr: inSeconds})).With("node", node)
	}
	return slog.New(tint.NewTextHandler(out, &tint.Options{Level: c.Level, NoColor: !terminal, TimeFormat: "15:04:05.000"}))
}

// inSeconds writes durations as numbers of seconds, and says so in their names: {"took": 1.5 s} becomes
// {"took_seconds": 1.5}.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}
