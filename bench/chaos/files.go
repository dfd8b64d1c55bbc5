//go:build linux

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
		r.server.violation(WrongState, "ready still %v after its database was destroyed", noticedWithin)
	}
	r.writer.write(ctx)
	r.writer.made = slices.DeleteFunc(r.writer.made, func(w *Written) bool { return w.Kind == httpHeartbeat || w.Kind == ping })
	r.server.kill()
	if err := r.server.start(ctx); err != nil {
		return err
	}
	var err error
	select {
	case <-r.server.process.ready:
		err = r.writer.look(ctx)
	case <-r.server.process.ended:
		r.note("after its database was destroyed, the server does not start: %v", r.server.process.err)
		r.writer.lose()
	case <-time.After(readyPatience):
		err = errors.New("after its database was destroyed, the server neither starts nor ends")
	case <-ctx.Done():
		err = ctx.Err()
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
