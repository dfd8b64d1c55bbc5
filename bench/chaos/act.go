//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

// fault injects a fault.
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
		return r.loop(ctx, f.Uptimes)
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
		return r.during(ctx, f, r.crash, r.database.Restart)
	case Files, Starved: // are not planned
	}
	return fmt.Errorf("there is no fault %q", f.Kind)
}

// kill kills the server, and restart starts it after a downtime.
func (r *trial) kill(ctx context.Context, down time.Duration) error {
	r.server.kill()
	return r.restart(ctx, down)
}

func (r *trial) restart(ctx context.Context, down time.Duration) error {
	if err := run.Wait(ctx, down); err != nil {
		return err
	}
	return r.server.start(ctx)
}

// loop kills the server after each of some uptimes.
func (r *trial) loop(ctx context.Context, uptimes []time.Duration) error {
	for _, length := range uptimes {
		if err := r.server.awaitReadyProcess(ctx); err != nil {
			return err
		}
		if err := r.server.wait(ctx, length); err != nil {
			return err
		}
		if err := r.kill(ctx, 0); err != nil {
			return err
		}
	}
	return r.server.awaitReadyProcess(ctx)
}

// stalls stops the server again and again.
func (r *trial) stalls(ctx context.Context, f *Fault) error {
	for _, length := range f.Uptimes {
		if err := r.server.wait(ctx, length); err != nil {
			return err
		}
		if err := r.server.stop(ctx, f.Length); err != nil {
			return err
		}
	}
	return nil
}

// quota leaves the server a share of a core for a time.
func (r *trial) quota(ctx context.Context, f *Fault) error {
	over := r.server.trouble(f.Kind)
	defer over()
	limit := limitCPU(r.server.process.cmd.Process.Pid, f.Share)
	defer limit.lift()
	return r.server.wait(ctx, f.Length)
}

// beat kills the server right after it has answered devices that then fall silent: their silence
// counts from these heartbeats, and not from earlier ones.
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

// beatWithin is the longest time between a heartbeat and a kill.
const beatWithin = 300 * time.Millisecond

// write kills the server right after it has answered writes, and looks for them after the restart.
func (r *trial) write(ctx context.Context, down time.Duration) error {
	r.writer.write(ctx)
	err := r.kill(ctx, down)
	r.writer.end()
	return errors.Join(err, r.look(ctx))
}

func (r *trial) look(ctx context.Context) error {
	if err := r.server.awaitReadyProcess(ctx); err != nil {
		return err
	}
	return r.writer.look(ctx)
}

// during begins a trouble and ends it after a time. If the fault kills, the server is killed in
// between.
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

func (r *trial) freeze() error { return r.database.Signal(syscall.SIGSTOP) }
func (r *trial) thaw() error   { return r.database.Signal(syscall.SIGCONT) }
func (r *trial) crash() error  { r.database.Kill(); return nil }
