package loadgen

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// Run plays a fleet until all phases are over and the last verdict has arrived, or until ctx is
// done, which ends it in order. It returns the report of what happened even if it fails; nil if the
// configuration is wrong. The error is an [*Error] and says why the run did not pass.
func Run(ctx context.Context, cfg Config) (*Report, error) {
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

// stage is how far a run has come.
type stage uint8

const (
	ramping  stage = iota
	playing        // the phases
	draining       // until the verdicts are in that are still due
	stopping       // until the workers have ended
)

// run is the state of a run. One goroutine uses it.
type run struct {
	cfg    Config
	p      *plan.Plan
	kernel kernel
	view   report.View

	way    way
	before map[string]uint64 // the kernel's counters at the beginning
	files  int
	fleet  *fleet
	judge  *scoring // nil if verdicts are not followed

	stage    stage
	began    time.Time // the ramp,
	begun    time.Time // the phases,
	drained  time.Time // when the waiting for verdicts ends at the latest,
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

// fail notes why the run does not pass. The first status stays, unless StatusNotRun follows.
func (r *run) fail(status int, format string, args ...any) {
	if r.status == 0 || status == StatusNotRun {
		r.status = status
	}
	r.reasons = append(r.reasons, fmt.Sprintf(format, args...))
}

// prepare checks the limits of this machine, starts the followers and then the workers. It reports
// whether that succeeded.
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
	if r.fleet, err = startWorkers(ctx, &r.cfg, parts, command, r.began); err != nil {
		r.fail(StatusNotRun, "%v", err)
		return false
	}
	return true
}

// bindable returns an error for the first source address that is not of this machine.
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
			if r.view != nil { // a second interrupt ends the program without tidying the terminal
				_, r.view = r.view.Close(), nil
			}
			r.fail(StatusInterrupted, "interrupted %s after it began; the figures so far are kept", time.Since(r.began).Round(time.Second))
			r.stop(time.Now())
		}
	}
	quit()
	r.fleet.wg.Wait()
}

// hear handles a worker's message.
func (r *run) hear(ctx context.Context, t workerMessage) {
	stopped := r.stage == stopping
	if err := r.fleet.handleMessage(t, stopped); err != nil && !(stopped && r.status == StatusNotRun) {
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
	if r.judge != nil && t.update != nil {
		r.judge.add(t.update)
		r.judge.answered(t.member)
	}
	if r.stage == ramping {
		r.total = r.fleet.sum()
		r.watchRamp(ctx, time.Now())
	}
}

// second is called each second.
func (r *run) second(ctx context.Context, now time.Time) {
	r.sample(now)
	switch r.stage {
	case ramping:
		r.watchRamp(ctx, now)
	case playing:
		r.watchFleet(now)
		if r.stage == playing && now.Sub(r.begun) >= r.p.Length() {
			r.drain(now)
		}
	case draining:
		if now.After(r.drained) || !r.waits(now) {
			r.stop(now)
		}
	case stopping:
		if now.Sub(r.stopped) > stopWithin {
			r.fleet.kill()
		}
	}
}
