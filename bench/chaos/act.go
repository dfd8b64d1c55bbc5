//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault does one thing.
func (r *trial) fault(ctx context.Context, f *Fault) error {
	if f.writes() {
		r.writer.prepare(ctx)
	}
	if err := r.server.wait(ctx, f.Wait); err != nil {
		return err
	}
	switch f.Kind {
	case Kill:
		return r.kill(ctx, f.Down)
	case Term:
		r.server.term()
		return r.restart(ctx, f.Down)
	case Stop:
		return r.server.stop(ctx, f.Length)
	case Loop:
		return r.loop(ctx, f.Lives)
	case Stalls:
		return r.stalls(ctx, f)
	case Quota:
		return r.quota(ctx, f)
	case Beat:
		return r.beat(ctx, f.Down)
	case Write:
		return r.write(ctx, f.Down)
	case Disk, DiskKill:
		return r.during(ctx, f, r.disk.fill, r.disk.free)
	case Freeze, FreezeKill:
		return r.during(ctx, f, r.freeze, r.thaw)
	case Crash, CrashKill:
		return r.during(ctx, f, r.crash, func() error { return r.database.start(ctx) })
	case Files, Starved: // nobody plans these
	}
	return fmt.Errorf("there is no fault %q", f.Kind)
}

// kill kills the server, and restart starts it after a downtime.
func (r *trial) kill(ctx context.Context, down time.Duration) error {
	r.server.kill()
	return r.restart(ctx, down)
}

func (r *trial) restart(ctx context.Context, down time.Duration) error {
	if err := pause(ctx, down); err != nil {
		return err
	}
	return r.server.start(ctx)
}

// loop kills life after life.
func (r *trial) loop(ctx context.Context, lives []time.Duration) error {
	for _, length := range lives {
		if err := r.server.awaitReadyLife(ctx); err != nil {
			return err
		}
		if err := r.server.wait(ctx, length); err != nil {
			return err
		}
		if err := r.kill(ctx, 0); err != nil {
			return err
		}
	}
	return r.server.awaitReadyLife(ctx)
}

// stalls stops it again and again.
func (r *trial) stalls(ctx context.Context, f *Fault) error {
	for _, length := range f.Lives {
		if err := r.server.wait(ctx, length); err != nil {
			return err
		}
		if err := r.server.stop(ctx, f.Length); err != nil {
			return err
		}
	}
	return nil
}

// quota leaves it a share of a core for a time.
func (r *trial) quota(ctx context.Context, f *Fault) error {
	over := r.server.trouble(f.Kind)
	defer over()
	pid := r.server.life.cmd.Process.Pid
	limit := limitCPU(pid, f.Share)
	return errors.Join(r.server.wait(ctx, f.Length), limit.lift(pid))
}

// beat kills it right after it has answered devices that are silent from then
// on: from their last heartbeat, and not from an earlier one.
func (r *trial) beat(ctx context.Context, down time.Duration) error {
	for _, f := range r.faults {
		if err := f.last(); err != nil {
			return err
		}
	}
	if err := r.server.wait(ctx, beatWithin/2+rand.N(beatWithin/2)); err != nil {
		return err
	}
	return r.kill(ctx, down)
}

// beatWithin is the most between a heartbeat and a kill.
const beatWithin = 300 * time.Millisecond

// write kills it right after it has answered writes, and looks for them in the
// life after.
func (r *trial) write(ctx context.Context, down time.Duration) error {
	r.writer.write(ctx)
	err := r.kill(ctx, down)
	r.writer.end()
	return errors.Join(err, r.look(ctx))
}

func (r *trial) look(ctx context.Context) error {
	if err := r.server.awaitReadyLife(ctx); err != nil {
		return err
	}
	return r.writer.look(ctx)
}

// during causes a trouble, ends it after a time, and in the middle of it kills
// the server if the fault says so.
func (r *trial) during(ctx context.Context, f *Fault, begin, end func() error) error {
	over := r.server.trouble(f.Kind)
	defer over()
	if err := begin(); err != nil {
		return err
	}
	until := time.Now().Add(f.Length)
	err := r.server.wait(ctx, f.Length/2)
	if err == nil && f.kills() {
		r.writer.write(ctx)
		err = r.kill(ctx, f.Down)
		r.writer.end()
	}
	if err == nil {
		err = r.server.wait(ctx, time.Until(until))
	}
	if err = errors.Join(err, end()); err != nil || !f.kills() {
		return err
	}
	return r.look(ctx)
}

func (r *trial) freeze() error { r.database.stop(); return nil }
func (r *trial) thaw() error   { r.database.signal(syscall.SIGCONT); return nil }
func (r *trial) crash() error  { r.database.kill(); return nil }
