package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"

	"github.com/holter-iot/holter/internal/config"
)

// newLogger returns a logger of the configured form.
func newLogger(c config.Log, out io.Writer) *slog.Logger {
	terminal := isTerminal(out)
	if c.Format == config.LogJSON || c.Format == config.LogAuto && !terminal {
		return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: c.Level}))
	}
	return slog.New(tint.NewTextHandler(out, &tint.Options{Level: c.Level, NoColor: !terminal, TimeFormat: "15:04:05.000"}))
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
