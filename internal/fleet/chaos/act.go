//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// fault does one thing.
func (r *run) fault(ctx context.Context, f *Fault) error {
	if err := r.server.wait(ctx, f.Wait); err != nil {
		return err
	}
	switch f.Kind {
	case Kill:
		r.server.kill()
		return r.restart(ctx, f.Down)
	case Term:
		r.server.term()
		return r.restart(ctx, f.Down)
	case Stop:
		return r.server.stop(ctx, f.Length)
	case Loop:
		return r.loop(ctx, f.Lives)
	case Disk, DiskKill:
		return r.during(ctx, f, r.disk.fill, r.disk.free)
	case Freeze, FreezeKill:
		return r.during(ctx, f, r.freeze, r.thaw)
	case Crash, CrashKill:
		return r.during(ctx, f, r.crash, func() error { return r.database.start(ctx) })
	}
	return fmt.Errorf("there is no fault %q", f.Kind)
}

// restart starts the server after a downtime.
func (r *run) restart(ctx context.Context, down time.Duration) error {
	if err := pause(ctx, down); err != nil {
		return err
	}
	return r.server.start(ctx)
}

// loop kills life after life.
func (r *run) loop(ctx context.Context, lives []time.Duration) error {
	for _, length := range lives {
		if err := r.server.awaitReadyLife(ctx); err != nil {
			return err
		}
		if err := r.server.wait(ctx, length); err != nil {
			return err
		}
		r.server.kill()
		if err := r.server.start(ctx); err != nil {
			return err
		}
	}
	return r.server.awaitReadyLife(ctx)
}

// during causes a trouble, ends it after a time, and in the middle of it kills
// the server if the fault says so.
func (r *run) during(ctx context.Context, f *Fault, begin, end func() error) error {
	over := r.server.trouble(f.Kind)
	defer over()
	if err := begin(); err != nil {
		return err
	}
	until := time.Now().Add(f.Length)
	err := r.server.wait(ctx, f.Length/2)
	if err == nil && f.kills() {
		r.server.kill()
		err = r.restart(ctx, f.Down)
	}
	if err == nil {
		err = r.server.wait(ctx, time.Until(until))
	}
	return errors.Join(err, end())
}

func (r *run) freeze() error { r.database.stop(); return nil }
func (r *run) thaw() error   { r.database.signal(syscall.SIGCONT); return nil }
func (r *run) crash() error  { r.database.kill(); return nil }
