package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

// noticedWithin is how long the server may take to notice that its files are gone: it looks for
// them at each checkpoint.
const noticedWithin = 2*checkpoint + recovery

// files deletes or truncates the database, or deletes the whole data directory, depending on the
// seed. The server must notice that, and must not answer a write afterwards that is gone after the
// restart, if it starts at all.
func (r *trial) files(ctx context.Context, e *Evidence) error {
	r.writer.prepare(ctx)
	defer r.writer.end()
	if err := r.destroy(); err != nil {
		return err
	}
	for limit := time.Now().Add(noticedWithin); r.server.isReady(ctx) && time.Now().Before(limit); {
		if err := run.Wait(ctx, pollEvery); err != nil {
			return err
		}
	}
	if r.server.isReady(ctx) {
		r.violation(WrongState, "ready still %v after its database was destroyed", noticedWithin)
	}
	r.writer.write(ctx)
	r.writer.made = slices.DeleteFunc(r.writer.made, func(w Written) bool { return w.Kind == httpHeartbeat || w.Kind == ping })
	if err := r.kill(ctx, 0); err != nil {
		return err
	}
	err := r.server.awaitReady(ctx)
	switch {
	case err == nil:
		err = r.writer.look(ctx)
	case errors.Is(err, errEnded):
		r.note("after its database was destroyed, the server does not start: %v", r.server.err)
		r.writer.done, err = append(r.writer.done, r.writer.made...), nil // nothing is left of it
	}
	e.Writes = r.writer.done
	return err
}

func (r *trial) destroy() error {
	all, err := filepath.Glob(filepath.Join(r.config.Dir, "data", "*"))
	if err != nil {
		return err
	}
	for _, file := range all {
		database := filepath.Ext(file) == ".db" || filepath.Ext(file) == ".db-wal"
		var err error
		switch {
		case r.config.Seed%3 == 0:
			err = os.RemoveAll(file)
		case database && r.config.Seed%3 == 1:
			err = os.Truncate(file, 0)
		case database:
			err = os.Remove(file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
