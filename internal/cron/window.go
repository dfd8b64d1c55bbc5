package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

const (
	maxWindow = 366 * 24 * time.Hour
	// coverBatch is the number of devices handled under one lock. makeWay is the pause when the
	// registry is busy.
	coverBatch = 256
	makeWay    = 20 * time.Millisecond
	// windowListed is the number of devices listed in the message at the end of a window.
	windowListed = 100
)

// window is a maintenance window: its devices are in maintenance from its instant on, for some
// time.
type window struct {
	chosen
	target

	ForMS float64 `json:"for_ms"`
	// Silence reports whether silence during the window counts or is excused, so that each device has
	// its whole timeout after the end. Default: counts.
	Silence string `json:"silence,omitempty"`
}

const (
	silenceCounts  = "counts"
	silenceExcused = "excused"
)

func (w *window) length() time.Duration { return time.Duration(w.ForMS * float64(time.Millisecond)) }

func (w *window) check(e *Engine) error {
	if !(w.ForMS >= 1000 && w.ForMS <= float64(maxWindow.Milliseconds())) {
		return bad("settings: for_ms is %v, want 1000 to %d: how long the window is open", w.ForMS, maxWindow.Milliseconds())
	}
	if w.Silence != "" && w.Silence != silenceCounts && w.Silence != silenceExcused {
		return bad("settings: silence is %.40q, want counts or excused", w.Silence)
	}
	if w.Device == "" && w.Group == "" {
		return bad("settings: want device or group, a pattern that says which devices it covers; * is for all")
	}
	if err := w.chosen.check(); err != nil || !w.given() {
		return err
	}
	return w.target.check(e, json.RawMessage("{}"))
}

// windowBody is the message about a window.
type windowBody struct {
	about

	Phase   string    `json:"phase"` // started or ended
	Until   time.Time `json:"until"`
	Covered int       `json:"covered"`
	// At the end: the offline devices, some of them by id.
	Offline   *int      `json:"offline,omitempty"`
	Devices   []offline `json:"devices,omitempty"`
	Truncated bool      `json:"truncated,omitempty"`
}

// do keeps the window open until its end. A process that takes over the run continues from there.
func (w *window) do(ctx, _ context.Context, e *Engine, run *claimedRun) outcome {
	until := run.Scheduled.Add(w.length())
	body := windowBody{about: aboutOf(run), Phase: "started", Until: until.UTC()}
	for told := run.Attempt > 1; ; {
		left, err := e.pass(ctx, run.ID)
		switch {
		case ctx.Err() != nil:
			return outcome{State: Idle}
		case err != nil:
			pauseAfter(ctx, 6)
			continue
		case left <= 0:
			return w.end(ctx, e, run, body)
		}
		if !told && w.given() {
			body.Covered = e.count(&w.chosen)
			if out := w.send(ctx, e, run, ":started", body); out.State == Failed {
				e.config.Logger.WarnContext(ctx, "nobody is told of a maintenance window", "schedule", run.Name, "error", out.Error)
			}
		}
		told = true
		wait(ctx, min(left, e.config.Poll), e.windows.change())
	}
}

// end sends the message about the end of the window.
func (w *window) end(ctx context.Context, e *Engine, run *claimedRun, body windowBody) outcome {
	body.Phase, body.Covered = "ended", e.count(&w.chosen)
	count, list := e.offline(&w.chosen, 0, windowListed)
	body.Offline, body.Devices, body.Truncated = &count, fitting(list), count > len(list)
	text := fmt.Sprintf("%d devices, %d of them offline at the end", body.Covered, count)
	if !w.given() {
		return outcome{State: Done, Output: text}
	}
	out := w.send(ctx, e, run, ":ended", body)
	out.Output = strings.Trim(text+"; "+out.Output, "; ")
	return out
}

// count counts devices.
func (e *Engine) count(c *chosen) (n int) {
	for range e.devices(c) {
		n++
	}
	return n
}

// open is a window that is open.
type open struct {
	chosen

	run     uint64
	name    string
	until   time.Time
	excuses bool
}

// windows holds the open maintenance windows according to the database. Maintenance of their
// devices is set again and again, for new devices and after errors.
type windows struct {
	passing sync.Mutex // held while devices are handled; taken before mu

	mu      sync.Mutex // guards the fields below
	open    []open
	passed  time.Time     // when all devices were last handled
	changed chan struct{} // closed and replaced to wake the waiting runs
}

func (w *windows) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// look wakes the waiting runs.
func (w *windows) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// change returns a channel that is closed by the next look.
func (w *windows) change() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// watchWindows ends the maintenance of devices whose window ended while no process ran.
func (e *Engine) watchWindows(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		if _, err := e.pass(ctx, 0); err == nil {
			return
		}
		pauseAfter(ctx, failures)
	}
}

// pass sets maintenance for the devices of open windows, and ends it for others. It returns how
// long the window of a run stays open.
func (e *Engine) pass(ctx context.Context, run uint64) (left time.Duration, err error) {
	e.windows.passing.Lock()
	defer e.windows.passing.Unlock()
	now, err := e.config.Now(ctx)
	if err != nil {
		return 0, err
	}
	begun, err := e.begunWindows(ctx, now)
	if err != nil {
		return 0, err
	}
	var list []open
	for _, o := range begun {
		if o.until.After(now) {
			list = append(list, o)
		}
		if o.run == run {
			left = o.until.Sub(now)
		}
	}
	e.windows.mu.Lock()
	was, fresh := e.windows.open, !e.windows.passed.IsZero() && time.Since(e.windows.passed) < e.config.Poll/2
	e.windows.mu.Unlock()
	if fresh && slices.Equal(was, list) { // another window has just done it
		return left, nil
	}
	if err := e.cover(ctx, list, ended(was, list), now); err != nil {
		return 0, err
	}
	e.windows.mu.Lock()
	defer e.windows.mu.Unlock()
	e.windows.open, e.windows.passed = list, time.Now()
	return left, nil
}

// begunWindows returns the windows that had started and not ended at an instant.
func (e *Engine) begunWindows(ctx context.Context, at time.Time) (list []open, err error) {
	runs, err := e.schedules.Begun(ctx, kindMaintenance, at)
	for i := range runs {
		run := &runs[i]
		act, err := actionOf(kindMaintenance, run.Of.Settings)
		w, ok := act.(*window)
		if err != nil || !ok {
			continue // its run reports the error
		}
		o := open{chosen: w.chosen, run: run.ID, name: run.Name, until: run.Scheduled.Add(w.length()), excuses: w.Silence == silenceExcused}
		if !run.Ended.IsZero() && run.Ended.Before(o.until) {
			o.until = run.Ended
		}
		list = append(list, o)
	}
	return list, err
}

// Restore excuses the silence of devices in the maintenance windows of the previous process: those that
// are open, and those that ended so lately that a part of a device's timeout is left. listened is when
// that process listened last; zero if there was none. Call it once, after the devices are restored and
// before anything listens. Errors: those of the database.
func (e *Engine) Restore(ctx context.Context, listened time.Time) error {
	if listened.IsZero() {
		return nil
	}
	now, err := e.config.Now(ctx)
	if err != nil {
		return err
	}
	begun, err := e.begunWindows(ctx, listened.Add(-liveness.Never))
	if err != nil {
		return err
	}
	begun = slices.DeleteFunc(begun, func(o open) bool { return !o.excuses })
	if len(begun) == 0 {
		return nil
	}
	e.registry.Operator().Suppress(func(id, group string, timeout time.Duration) (end time.Duration, ok bool) {
		end = -timeout
		for i := range begun {
			o := &begun[i]
			left := min(o.until.Sub(listened), 0)
			if o.until.After(now) {
				left = o.until.Sub(now)
			}
			if left > end && o.matches(id, group) {
				end, ok = left, true
			}
		}
		return end, ok
	})
	return nil
}

// ended returns the names of the windows that have ended.
func ended(was, list []open) string {
	var names []string
	for _, o := range was {
		if !slices.ContainsFunc(list, func(other open) bool { return other.run == o.run }) {
			names = append(names, o.name)
		}
	}
	if len(names) == 0 {
		return "window"
	}
	return "window " + strings.Join(names[:min(len(names), 3)], ", ")
}

// cover sets or ends maintenance for all devices. It asks each window in turn, so there should be
// few.
func (e *Engine) cover(ctx context.Context, list []open, ended string, now time.Time) error {
	by := func(id, group string) (w operate.Window, covered bool) {
		for i := range list {
			o := &list[i]
			if !o.matches(id, group) {
				continue
			}
			if !covered {
				w.Name, covered = "window "+o.name, true
			}
			if o.excuses {
				w.Suppress = max(w.Suppress, o.until.Sub(now))
			}
		}
		return w, covered
	}
	for from, more := uint64(0), true; more; {
		next, _, err := e.registry.Operator().Cover(from, coverBatch, ended, by)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, liveness.ErrBusy):
			wait(ctx, makeWay, nil)
		case err != nil:
			return err
		}
		from, more = next, err != nil || next != 0
	}
	return nil
}
