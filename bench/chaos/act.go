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

// inject injects a fault.
func (r *trial) inject(ctx context.Context, f *Fault) error {
	if f.Kind == Loop || f.writes() {
		if err := r.awaitReady(ctx); err != nil {
			return err
		}
	}
	if f.writes() {
		r.writer.prepare(ctx)
	}
	if err := r.wait(ctx, f.Wait); err != nil {
		return err
	}
	if err := r.choose(ctx); err != nil {
		return err
	}
	r.judges.injects(f.Kind, r.limit(f.Kind))
	switch f.Kind {
	case Kill, Loop:
		return r.restart(ctx, f.Down, syscall.SIGKILL, Killed)
	case Term:
		return r.restart(ctx, f.Down, syscall.SIGTERM, Ended)
	case Stop, Stalls:
		return r.server.stop(ctx, f.Length)
	case Quota:
		defer r.trouble(f.Kind)()
		return r.server.share(ctx, f.Share, f.Length)
	case Beat:
		return r.beat(ctx, f.Down)
	case Write:
		nothing := func() error { return nil }
		return r.during(ctx, f, nothing, nothing)
	case Disk, DiskKill:
		return r.during(ctx, f, r.disk.fill, r.disk.free)
	case Freeze, FreezeKill:
		return r.during(ctx, f, r.freeze, r.thaw)
	case Crash, CrashKill:
		return r.during(ctx, f, func() error { r.database.Kill(); return nil }, r.database.Restart)
	case LongStop, StandbyKill, Rolling, Upgrade, KillAll, Cut, CutAll, CutTo, CutFrom, SlowDB, LossyDB:
		return r.injectNodes(ctx, f)
	case Promote, PromoteLoss:
		return r.promote(ctx, f)
	case EarKill, EarStop, EarLongStop, EarTerm, EarCut, EarCutTo, EarCutFrom, EarSlow, EarLossy:
		return r.injectEar(ctx, f)
	case Files, Starved: // are not planned
	}
	return fmt.Errorf("there is no fault %q", f.Kind)
}

// choose waits for a judge, if there are several nodes, and chooses it for the next fault.
func (r *trial) choose(ctx context.Context) error {
	if r.judges == nil {
		return nil
	}
	err := r.awaitReady(ctx)
	if now := r.judges.current(); now != nil {
		r.server = now
	}
	return err
}

// restart ends the server with a signal, and starts it after a downtime.
func (r *trial) restart(ctx context.Context, down time.Duration, signal syscall.Signal, kind BreakKind) error {
	if err := r.server.end(signal, kind); err != nil {
		return err
	}
	if err := run.Wait(ctx, down); err != nil {
		return err
	}
	return r.server.start(ctx)
}

// kill kills the server, and starts it after a downtime.
func (r *trial) kill(ctx context.Context, down time.Duration) error {
	return r.restart(ctx, down, syscall.SIGKILL, Killed)
}

// beat kills the server right after it has answered devices that then fall silent: their silence
// counts from these heartbeats, and not from earlier ones.
func (r *trial) beat(ctx context.Context, down time.Duration) error {
	for _, f := range r.fleets {
		if err := f.last(); err != nil {
			return err
		}
	}
	if err := r.wait(ctx, beatWithin/2+rand.N(beatWithin/2)); err != nil {
		return err
	}
	return r.kill(ctx, down)
}

// beatWithin is the longest time between a heartbeat and a kill.
const beatWithin = 300 * time.Millisecond

// during begins a trouble, if the fault has a length, and ends it after that. In the middle, the
// server is killed right after it has answered writes, if the fault does that; once all is over and
// the server is ready, they are looked for.
func (r *trial) during(ctx context.Context, f *Fault, begin, end func() error) error {
	if f.Length > 0 {
		defer r.trouble(f.Kind)()
	}
	if err := begin(); err != nil {
		return err
	}
	until := time.Now().Add(f.Length)
	err := r.wait(ctx, f.Length/2)
	if err == nil && f.writes() {
		r.writer.write(ctx)
		err = r.kill(ctx, f.Down)
		r.writer.end()
	}
	if err == nil {
		err = r.wait(ctx, time.Until(until))
	}
	if err = errors.Join(err, end()); err != nil || !f.writes() {
		return err
	}
	if err := r.awaitReady(ctx); err != nil {
		return err
	}
	return r.look(ctx)
}

func (r *trial) freeze() error { return r.database.Signal(syscall.SIGSTOP) }
func (r *trial) thaw() error   { return r.database.Signal(syscall.SIGCONT) }
