package server

import (
	"io"
	"log/slog"

	"github.com/lmittmann/tint"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/terminal"
)

// newLogger returns a logger of the configured form.
func newLogger(c config.Log, out io.Writer) *slog.Logger {
	terminal := terminal.IsTerminal(out)
	if c.Format == config.LogJSON || c.Format == config.LogAuto && !terminal {
		return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: c.Level}))
	}
	return slog.New(tint.NewTextHandler(out, &tint.Options{Level: c.Level, NoColor: !terminal, TimeFormat: "15:04:05.000"}))
}
