package server

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
)

// reloads are the reloads of the configuration of a process: one after the other.
type reloads struct {
	turn chan struct{} // capacity 1: holds a value during a reload; never closed
	logs *logs
	log  *slog.Logger
}

func newReloads(l *logs) reloads {
	return reloads{make(chan struct{}, 1), l, l.logger()}
}

// hangup is who asks for a reload by a signal, for the log.
const hangup = "SIGHUP"

// Hangups returns what receives SIGHUP until stop is called: whoever calls it before the configuration is read
// misses no change of the file. Until then, and after stop, the signal ends the process; for a process that
// was told to ignore it, by nohup, it is a reload all the same, which does no harm.
func Hangups() (hangups <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1) // room for one: the next reload reads what was written before it; never closed
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// reloading reloads at each SIGHUP until ctx is done: then the process ends, and the log says that it does not
// reload, until end is called, which waits.
func reloading(ctx context.Context, hangups <-chan os.Signal, log *slog.Logger, reload func(ctx context.Context, who string) (httpapi.Reloaded, error)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-hangups: // those that come during a reload are one
				onHangup(ctx, log, reload)
			case <-ended:
				return
			}
		}
	})
	return func() {
		cancel()
		close(ended)
		all.Wait()
	}
}

// onHangup reloads, unless ctx is done.
func onHangup(ctx context.Context, log *slog.Logger, reload func(ctx context.Context, who string) (httpapi.Reloaded, error)) {
	err := ctx.Err()
	if err == nil {
		_, err = reload(ctx, hangup) // what it does is logged
	}
	if err != nil {
		log.Warn("the configuration was not reloaded, because this process ends", "by", hangup)
	}
}

// once runs a reload when those before it have ended, and logs it. apply puts a configuration without
// mistakes in force; the error is its own.
func (r *reloads) once(who string, live *config.Config, check func(*config.Config) error,
	apply func(next *config.Config) (httpapi.Reloaded, error),
) (out httpapi.Reloaded, err error) {
	begin := time.Now()
	defer managerReloads()()
	next, err := live.Again()
	if err == nil {
		err = check(&next)
	}
	if err != nil {
		out.Mistakes = mistakes(err)
	} else if out, err = apply(&next); err != nil {
		return out, err
	}
	out.File, _, _ = live.InForce()
	out.Took = float64(time.Since(begin).Microseconds()) / 1000
	r.tell(who, &out)
	return out, nil
}

// enter waits until no other reload is under way. leave ends this one.
func (r *reloads) enter(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *reloads) leave() { <-r.turn }

// mistakes returns the errors that one joins, each as a text.
func mistakes(err error) (all []string) {
	if list, ok := err.(interface{ Unwrap() []error }); ok { // those within one mistake belong to it
		for _, e := range list.Unwrap() {
			all = append(all, mistakes(e)...)
		}
		return all
	}
	return []string{err.Error()}
}

// tell logs what a reload did, and who asked for it: keys, but no values that may be secret.
func (r *reloads) tell(who string, out *httpapi.Reloaded) {
	for _, m := range out.Mistakes {
		r.log.Error("mistake in the configuration", "error", m)
	}
	if len(out.Mistakes) > 0 {
		r.log.Error("the configuration was not reloaded, because it has mistakes; what was in force stays in force", "by", who, "file", out.File, "mistakes", len(out.Mistakes))
		return
	}
	for _, c := range out.Failed {
		r.log.Error("a changed setting could not be put in force", "key", c.Key, "in_force", c.Before, "file", c.After, "error", c.Error)
	}
	for _, c := range out.Restart {
		r.log.Warn("a changed setting needs a restart", "key", c.Key, "in_force", c.Before, "file", c.After)
	}
	keys := make([]string, len(out.Changed))
	for i, c := range out.Changed {
		keys[i] = c.Key
	}
	r.log.Info("the configuration was reloaded", "by", who, "file", out.File, "changed", strings.Join(keys, ", "), "need_restart", len(out.Restart), "failed", len(out.Failed),
		"devices", out.Devices, "moved", out.Moved, "took", time.Duration(out.Took*float64(time.Millisecond)))
}

// plan is what a reload is to do.
type plan struct {
	before, next *config.Config // next has what needs a restart as before has it
	live         []config.Change
	out          httpapi.Reloaded
}

// newPlan compares two configurations. rebuilds says that the parts are made anew from the next one.
func newPlan(before, next *config.Config, rebuilds bool) *plan {
	p := &plan{before: before}
	var kept []string
	for _, c := range before.Compare(next) {
		if c.Effect == config.Live || rebuilds && c.Effect == config.Rebuilt {
			p.live = append(p.live, c)
			continue
		}
		kept = append(kept, c.Key)
		p.out.Restart = append(p.out.Restart, changeOf(c, nil))
	}
	in := next.Keeping(before, kept)
	p.next = &in
	return p
}

func changeOf(c config.Change, err error) httpapi.SettingChange {
	out := httpapi.SettingChange{Key: c.Key, Before: c.Before, After: c.After}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// has reports whether a setting is to come in force, of those that begin with one of some keys.
func (p *plan) has(keys ...string) bool {
	return slices.ContainsFunc(p.live, func(c config.Change) bool { return isOneOf(c.Key, keys) })
}

func isOneOf(key string, keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return key == k || strings.HasPrefix(key, k+".") })
}

// do puts settings in force if some of their keys have changed. If that fails, they stay as before.
func (p *plan) do(put func(c *config.Config) error, keys ...string) {
	if !p.has(keys...) {
		return
	}
	err := put(p.next)
	if err == nil {
		return
	}
	var failed []string
	p.live = slices.DeleteFunc(p.live, func(c config.Change) bool {
		if !isOneOf(c.Key, keys) {
			return false
		}
		failed = append(failed, c.Key)
		p.out.Failed = append(p.out.Failed, changeOf(c, err))
		return true
	})
	kept := p.next.Keeping(p.before, failed)
	p.next = &kept
}

// done returns what was done.
func (p *plan) done() httpapi.Reloaded {
	for _, c := range p.live {
		p.out.Changed = append(p.out.Changed, changeOf(c, nil))
	}
	return p.out
}
