package loadgen

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
	"github.com/holter-iot/holter/loadgen/report"
)

// Run plays a fleet until all phases are over and the last verdict is in, or until ctx is done, which ends it in order. It always returns
// what is known, but nil if the configuration is wrong. The error is an [*Error] and says why the run did not pass.
func Run(ctx context.Context, cfg Config) (*report.Final, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, &Error{Status: StatusUsage, Reasons: []string{err.Error()}}
	}
	r := newRun(cfg)
	if cfg.View != nil {
		r.view = cfg.View(r.final.Run)
		defer func(v report.View) { _ = v.Close() }(r.view) // what it shows is only for looking
	}
	if r.prepare(ctx) {
		r.play(ctx)
	}
	return r.end(ctx)
}

// stage is what a run is about.
type stage uint8

const (
	ramping  stage = iota
	playing        // the phases
	settling       // until the verdicts are in that are still due
	stopping       // until the workers have ended
)

// run is a run that goes on. One goroutine uses it.
type run struct {
	cfg    Config
	p      *plan.Plan
	kernel kernel
	view   report.View

	way    way
	before map[string]uint64 // the kernel's counters at the beginning
	files  int
	fleet  *fleet
	judge  *judge // nil if nobody follows verdicts

	stage    stage
	began    time.Time // the ramp,
	begun    time.Time // the phases,
	settled  time.Time // when the waiting for verdicts ends at the latest,
	stopped  time.Time // and when the workers were told to stop
	seen     int       // devices that were welcomed once,
	progress time.Time // and when that last rose
	alone    time.Time // since when no device has been connected that should be; zero if one is
	total    total
	cpu      time.Duration
	sampled  time.Time
	notes    chan string // from the goroutine that gives signals
	noted    []string

	final   report.Final
	status  int
	reasons []string
}

func newRun(cfg Config) *run {
	r := &run{cfg: cfg, p: cfg.Plan, kernel: kernel{"/"}, notes: make(chan string, 16), files: files()}
	r.final.Run = report.Run{
		Tool: cfg.Tool, Command: cfg.CommandLine, Began: time.Now(), Host: r.kernel.host(), Fleet: report.FleetOf(cfg.Plan),
	}
	return r
}

// fail notes why the run does not pass. The first status stands, but for one that says that nothing could be run.
func (r *run) fail(status int, format string, args ...any) {
	if r.status == 0 || status == StatusNotRun {
		r.status = status
	}
	r.reasons = append(r.reasons, fmt.Sprintf(format, args...))
}

// prepare does all that has to be right before the first device connects.
func (r *run) prepare(ctx context.Context) bool {
	var err error
	if r.way, err = wayOf(ctx, r.p); err == nil {
		err = r.way.check(r.p.Devices)
	}
	if err == nil {
		err = bindable(r.p.Sources)
	}
	parts, processes := r.cfg.parts(r.files)
	if limit := r.files - spareFiles; err == nil && (r.p.Devices+parts-1)/parts > limit {
		err = fmt.Errorf("%d devices in %d workers are more than each may have files open (%d); give it at least %d workers "+
			"(--workers), or raise the limit (ulimit -n)", r.p.Devices, parts, r.files, (r.p.Devices+limit-1)/max(limit, 1))
	}
	if err != nil {
		r.fail(StatusNotRun, "%v", err)
		return false
	}
	if r.judge, err = follow(ctx, &r.cfg); err != nil {
		r.fail(StatusNotRun, "%v", err)
		return false
	}
	command := r.cfg.Command
	if !processes {
		command = nil
	}
	r.before = r.kernel.counters()
	r.began = time.Now()
	r.sampled, r.progress = r.began, r.began
	r.final.Began = r.began
	if r.fleet, err = muster(ctx, r.p, parts, command, r.cfg.Pipeline, r.began); err != nil {
		r.fail(StatusNotRun, "%v", err)
		return false
	}
	return true
}

// bindable says which of the source addresses is not of this machine.
func bindable(sources []netip.Addr) error {
	for _, a := range sources {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
		if err != nil {
			return fmt.Errorf("source %v cannot be used: %w; give addresses of this machine, such as 127.0.0.2-127.0.0.40 for targets on it", a, err)
		}
		_ = c.Close() // nothing was sent
	}
	return nil
}

// play goes on until all workers have ended.
func (r *run) play(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	signals, quit := context.WithCancel(ctx)
	defer quit()
	interrupted := ctx.Done()
	for r.fleet.waiting > 0 {
		select {
		case t := <-r.fleet.inbox:
			r.hear(signals, t)
		case now := <-tick.C:
			r.second(signals, now)
		case note := <-r.notes:
			r.noted = append(r.noted, note)
		case <-interrupted:
			interrupted = nil
			if r.view != nil { // whoever is impatient interrupts again, and then nobody tidies up
				_, r.view = r.view.Close(), nil
			}
			r.fail(StatusInterrupted, "interrupted %s after it began; the figures so far are kept", time.Since(r.began).Round(time.Second))
			r.stop(time.Now())
		}
	}
	quit()
	r.fleet.wg.Wait()
}

// hear takes what a worker tells.
func (r *run) hear(ctx context.Context, t tiding) {
	stopped := r.stage == stopping
	if err := r.fleet.take(t, stopped); err != nil && !(stopped && r.status == StatusNotRun) {
		m := t.member
		if !stopped && r.stage == ramping && r.total.Seen == 0 && m.fault != "" {
			r.fail(StatusNotRun, "the fleet cannot be played: %s", m.fault)
			r.stop(time.Now()) // the others would say the same
			return
		}
		if r.stage == ramping && r.fleet.waiting == 0 {
			r.fail(StatusNotRun, "%v; no worker is left", err)
			return
		}
		r.fail(StatusFailed, "%v", err)
		r.noted = append(r.noted, err.Error())
		if r.judge != nil && m.died {
			known := m.stats.At // it had told all that it did until then
			if known.IsZero() {
				known = r.began
			}
			r.judge.scored.Unknown(m.Range, known)
		}
	}
	if r.judge != nil && t.news != nil {
		r.judge.told(t.news)
		r.judge.answered(t.member)
	}
	if r.stage == ramping {
		r.total = r.fleet.sum()
		r.watchRamp(ctx, time.Now())
	}
}

// second is what is to be done each second.
func (r *run) second(ctx context.Context, now time.Time) {
	r.sample(now)
	switch r.stage {
	case ramping:
		r.watchRamp(ctx, now)
	case playing:
		r.watchFleet(now)
		if r.stage == playing && now.Sub(r.begun) >= r.p.Length() {
			r.settle(now)
		}
	case settling:
		if now.After(r.settled) || !r.waits(now) {
			r.stop(now)
		}
	case stopping:
		if now.Sub(r.stopped) > stopWithin {
			r.fleet.kill()
		}
	}
}

// stopWithin is how long workers may take to end.
const stopWithin = time.Minute

// mostMissing: one in so many devices may be missing when the phases begin, and at the end.
const mostMissing = 100

// watchRamp begins the phases when all are there, and ends the run if nobody comes any more.
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
		errors: r.total.Errors, kernel: newErrors(r.kernel.counters(), r.before), way: r.way, files: r.files,
		unwelcomed: r.unwelcomed(), lateness: report.LatencyOf(r.fleet.all[lateness], time.Microsecond), protocol: r.p.Protocol,
		backlog: r.kernel.number("proc/sys/net/core/somaxconn"), synBacklog: r.kernel.number("proc/sys/net/ipv4/tcp_max_syn_backlog"),
		tracked: r.kernel.number("proc/sys/net/netfilter/nf_conntrack_count"), trackable: r.kernel.number("proc/sys/net/netfilter/nf_conntrack_max"),
		moment: now.Sub(r.began),
	})
}

// unwelcomed is how many devices wait for an answer, if it is the ramp that is held up by it.
func (r *run) unwelcomed() int {
	if r.stage != ramping {
		return 0
	}
	return r.total.Connecting
}

// beginIn is how soon the phases begin once all are there: long enough for every worker to hear of it.
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
	r.fleet.tellAll(order{Begin: r.begun.UnixNano()})
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

// waits says whether the judge waits for anything.
func (r *run) waits(now time.Time) bool {
	return r.judge.waits(now, r.fleet.until(), r.begun.Add(r.p.Length()))
}

func (r *run) settle(now time.Time) {
	if r.judge == nil || !r.waits(now) {
		r.stop(now)
		return
	}
	r.stage, r.settled = settling, now.Add(r.longestWait())
}

// stop tells the workers to end. What is said of the devices from now on does not count.
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

// expectAll looks whether those are there at the end that should be.
func (r *run) expectAll(now time.Time) {
	missing := r.total.Devices - r.total.Away - r.total.Welcomed
	if r.status == 0 && r.stage != ramping && missing > r.total.Devices/mostMissing {
		r.fail(StatusFailed, "at the end %d of %d devices were not connected although they should have been; %s", missing, r.total.Devices, r.cause(now))
	}
}

// end makes the report.
func (r *run) end(ctx context.Context) (*report.Final, error) {
	now := time.Now()
	f := &r.final
	f.Ended = now
	if r.judge != nil {
		r.verdicts(ctx)
	}
	if r.fleet != nil {
		r.total = r.fleet.sum()
		f.Hits = r.diagnose(now)
		if r.status == 0 { // what the target did is no limit then
			f.Hits = slices.DeleteFunc(f.Hits, ofTarget)
		}
		for i, to := range []*report.Distribution{&f.RTT, &f.RTTPlanned, &f.Lateness, &f.Connect} {
			var err error
			if *to, err = report.DistributionOf(r.fleet.all[i], time.Microsecond); err != nil {
				r.fail(StatusFailed, "%v", err)
			}
		}
	}
	if ctx.Err() != nil && r.status == 0 {
		r.fail(StatusInterrupted, "interrupted before it began")
	}
	f.Outcome = report.Outcome{Passed: r.status == 0, Status: r.status, Reasons: r.reasons}
	if r.status == 0 {
		return f, nil
	}
	return f, &Error{Status: r.status, Reasons: slices.Clone(r.reasons)}
}

// verdicts makes the final score, and says what does not hold.
func (r *run) verdicts(ctx context.Context) {
	r.judge.stop()
	at := r.stopped
	if at.IsZero() { // all workers have died
		at = time.Now()
	}
	verdicts, failures, err := r.judge.finish(ctx, at)
	if err != nil {
		failures = append(failures, err.Error())
	}
	r.final.Verdicts = verdicts
	if r.stage == ramping { // of a fleet that did not come about nothing can be said
		return
	}
	for _, text := range failures {
		r.fail(StatusFailed, "%s", text)
	}
}
