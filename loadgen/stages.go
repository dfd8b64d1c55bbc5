package loadgen

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// stopWithin is how long workers may take to end.
const stopWithin = time.Minute

// One in mostMissing devices may be missing when the phases begin, and at the end.
const mostMissing = 100

// watchRamp begins the phases when all devices are connected, and ends the run if no more of them
// connect.
func (r *run) watchRamp(ctx context.Context, now time.Time) {
	if r.total.Seen > r.seen {
		r.seen, r.progress = r.total.Seen, now
	}
	patience := r.cfg.Patience
	if r.seen == 0 && r.total.Failed > 0 && r.total.Connecting == 0 {
		patience /= 2
	}
	missing := r.total.Devices - r.seen
	switch {
	case r.total.Devices == 0:
		return // no worker is left
	case missing <= 0:
		r.begin(ctx, now)
	case now.Sub(r.progress) < patience:
	case missing <= r.total.Devices/mostMissing:
		r.fail(StatusFailed, "%d of %d devices never got in: %s", missing, r.total.Devices, r.cause(now))
		r.begin(ctx, now)
	default:
		r.fail(StatusNotRun, "the ramp stalled: %d of %d devices were welcomed, and none in the last %s; %s",
			r.seen, r.total.Devices, now.Sub(r.progress).Round(time.Second), r.cause(now))
		r.stop(now)
	}
}

// cause names the limits, two at most, that explain most of what goes wrong.
func (r *run) cause(now time.Time) string {
	switch hits := r.diagnose(now); len(hits) {
	case 0:
	case 1:
		return sentence(hits[0])
	default:
		return sentence(hits[0]) + "; " + sentence(hits[1])
	}
	return fmt.Sprintf("why, nothing here shows (%d are on the way, %d wait their turn, %d wait to try again)",
		r.total.Connecting, r.total.Queued, r.total.Pausing)
}

func (r *run) diagnose(now time.Time) []report.Hit {
	return diagnose(evidence{
		errors: r.total.Errors, kernel: report.Grown(r.kernel.counters(), r.before), way: r.way, files: r.files,
		unwelcomed: r.unwelcomed(), lateness: report.LatencyOf(r.fleet.all[drive.Lateness], time.Microsecond), protocol: r.p.Protocol,
		backlog: r.kernel.number("proc/sys/net/core/somaxconn"), synBacklog: r.kernel.number("proc/sys/net/ipv4/tcp_max_syn_backlog"),
		tracked: r.kernel.number("proc/sys/net/netfilter/nf_conntrack_count"), trackable: r.kernel.number("proc/sys/net/netfilter/nf_conntrack_max"),
		moment: now.Sub(r.began),
	})
}

// unwelcomed returns how many devices wait for an answer to their greeting while the fleet ramps
// up.
func (r *run) unwelcomed() int {
	if r.stage != ramping {
		return 0
	}
	return r.total.Connecting
}

// beginIn is how soon the phases begin once all devices are connected: long enough to tell every
// worker.
const beginIn = 500 * time.Millisecond

func (r *run) begin(ctx context.Context, now time.Time) {
	if now.Sub(r.sampled) > tellEvery/looksPerTell { // the end of the ramp, to be seen
		r.sample(now)
	}
	r.stage, r.begun = playing, now.Add(beginIn)
	if r.judge != nil {
		r.judge.begin(r.begun)
	}
	took := now.Sub(r.began)
	r.noted = append(r.noted, fmt.Sprintf("%d devices were welcomed within %v: %.0f a second", r.seen, took.Round(10*time.Millisecond),
		float64(r.seen)/took.Seconds()))
	r.fleet.tellAll(order{Begin: r.begun})
	if steps := r.p.Signals(); len(steps) > 0 {
		r.fleet.wg.Go(func() { r.signal(ctx, steps) })
	}
}

// signal gives the signals of the plan.
func (r *run) signal(ctx context.Context, steps []plan.Step) {
	for _, s := range steps {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(r.begun.Add(s.At))):
		}
		note := "signal"
		if s.Back > 0 {
			note = fmt.Sprintf("signal, for %v", s.Back-s.At)
		}
		from, back := time.Now(), max(s.Back-s.At, 0)
		r.judge.stopped(from, from.Add(back))
		if r.cfg.OnSignal != nil {
			if err := r.cfg.OnSignal(ctx, s); err != nil {
				note += fmt.Sprintf(": %v", err)
			}
			r.judge.stopped(from, time.Now().Add(back))
		}
		select {
		case r.notes <- note:
		case <-ctx.Done():
			return
		}
	}
}

// longAlone is how long the target may be gone, unless back-offs are longer.
const longAlone = time.Minute

// watchFleet ends a run whose target is gone for good.
func (r *run) watchFleet(now time.Time) {
	if r.total.Welcomed > 0 || r.total.Away+r.total.Welcomed >= r.total.Devices {
		r.alone = time.Time{}
		return
	}
	if r.alone.IsZero() {
		r.alone = now
	}
	if gone := now.Sub(r.alone); gone > max(longAlone, 2*r.p.BackoffMax) {
		r.fail(StatusFailed, "the target is gone: no device has been connected for %s; %s", gone.Round(time.Second), r.cause(now))
		r.stop(now)
	}
}

// longestWait is how long the last verdicts are waited for at the most.
func (r *run) longestWait() time.Duration { return r.p.Timeout + r.p.Grace + comesLate }

// waits reports whether the judge waits for verdicts or reports.
func (r *run) waits(now time.Time) bool {
	return r.judge.waits(now, r.fleet.until(), r.begun.Add(r.p.Length()))
}

func (r *run) drain(now time.Time) {
	if r.judge == nil || !r.waits(now) {
		r.stop(now)
		return
	}
	r.stage, r.drained = draining, now.Add(r.longestWait())
}

// stop tells the workers to end. Later verdicts are ignored.
func (r *run) stop(now time.Time) {
	if r.stage == stopping {
		return
	}
	r.expectAll(now)
	r.stage, r.stopped = stopping, now
	if r.judge != nil {
		r.judge.stop()
	}
	r.fleet.tellAll(order{Stop: true})
}

// expectAll checks that the devices that should be connected at the end are.
func (r *run) expectAll(now time.Time) {
	missing := r.total.Devices - r.total.Away - r.total.Welcomed
	if r.status == 0 && r.stage != ramping && missing > r.total.Devices/mostMissing {
		r.fail(StatusFailed, "at the end %d of %d devices were not connected although they should have been; %s", missing, r.total.Devices, r.cause(now))
	}
}
