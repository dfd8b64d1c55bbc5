package score

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/loadgen/plan"
	"github.com/holter-iot/holter/loadgen/report"
)

// Options describe what to expect of the gateway beyond the plan, and what to tolerate.
type Options struct {
	// Timeout is the silence after which a device is offline. Default: what devices of the plan
	// announce, over MQTT one and a half of their keep alive.
	Timeout time.Duration
	// Slack is how late a verdict may come before its absence counts as missed, and how long a
	// return may be on its way for a verdict that tells no deadline. Default 2 s.
	Slack time.Duration
	// Clock is how far the clocks of gateway and generator may differ. Default none: on one machine
	// a verdict is false if it comes a nanosecond early.
	Clock time.Duration
	// ReconnectGrace is for how long at most a source waits to hear a device once it was deaf;
	// altogether it waits three times that at most from a device's timeout on. Default: the plan's
	// interval and 10 s, at most 5 min.
	ReconnectGrace time.Duration
	// Late is how long after it was due a verdict or a return may come before it counts as late.
	// Default 5 s.
	Late time.Duration
	// Keep is how long an absence that is over is remembered, for verdicts that come late. Default
	// 1 min.
	Keep time.Duration
}

func (o Options) withDefaults(p *plan.Plan) (Options, error) {
	announced := p.Timeout
	if p.Protocol == plan.MQTT {
		announced = (p.Timeout * 2 / 3).Truncate(time.Second) * 3 / 2
	}
	o.Timeout = cmp.Or(o.Timeout, announced)
	o.Slack = cmp.Or(o.Slack, 2*time.Second)
	o.ReconnectGrace = cmp.Or(o.ReconnectGrace, min(p.Interval+10*time.Second, 5*time.Minute))
	o.Late = cmp.Or(o.Late, 5*time.Second)
	o.Keep = cmp.Or(o.Keep, time.Minute)
	var errs []error
	if o.Timeout <= 0 {
		errs = append(errs, errors.New("score: there is no timeout; set that of the plan, or Options.Timeout to what the gateway uses"))
	}
	for name, d := range map[string]time.Duration{
		"Slack": o.Slack, "Clock": o.Clock, "ReconnectGrace": o.ReconnectGrace, "Late": o.Late, "Keep": o.Keep, "the plan's grace": p.Grace,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("score: %s is %v; it must not be negative", name, d))
		}
	}
	return o, errors.Join(errs...)
}

// device is what is known of a device.
type device struct {
	absences []*absence
	claims   []*claim
	tracks   []*track // one for each gateway that spoke of it
	flags    uint8
}

const (
	online     uint8 = 1 << iota // somebody said that it was there
	unwelcomed                   // it never had a connection
	abandoned                    // what it does is unknown from some instant on
	vouched                      // it is known by other means that the gateway holds it for present
)

// Score checks verdicts against the truth. All methods may be called concurrently.
type Score struct {
	plan    *plan.Plan
	options Options
	terms   terms

	mu       sync.Mutex // guards the fields below
	complete int64      // all that was done before is known
	devices  []device
	places   []*place
	gateways []*gateway
	unknown  []blank
	began    int64      // when the first stream was there
	answers  []interval // in which the gateway answered the fleet, oldest first
	stops    []interval // in which somebody stopped the gateway
	report   Report
}

// blank is a part of the fleet of which nothing is known from an instant on.
type blank struct {
	plan.Range

	from int64
}

// gateway is where verdicts are read.
type gateway struct {
	url string
	// fresh reports whether its log was empty when following began, so that the numbers of all
	// devices begin with 1.
	fresh, followed bool
	// full reports whether its events must be as complete as Holter's; numbered and reasoned report
	// whether some event had a number, and a reason.
	full, numbered, reasoned bool
	spoke, offline           bool // there was an event of a device, and an offline verdict
	clock                    report.Clock
	err                      int64 // of the clock, as it was measured last
}

// New makes a score for a plan, which must not change any more. The plan's Grace and Timeout say
// what is due when.
func New(p *plan.Plan, o Options) (*Score, error) {
	o, err := o.withDefaults(p)
	if err != nil {
		return nil, err
	}
	s := &Score{
		plan: p, options: o, devices: make([]device, max(p.Devices, 0)),
		terms: terms{
			timeout: int64(o.Timeout), grace: int64(p.Grace), slack: int64(o.Slack), clock: int64(o.Clock), reconnect: int64(o.ReconnectGrace),
			late: int64(o.Late), wills: p.Protocol == plan.MQTT,
		},
	}
	longest := int64(24 * time.Hour / unit)
	s.report = Report{
		Devices: len(s.devices), decided: hdrhistogram.New(1, longest, 3), told: hdrhistogram.New(1, longest, 3),
	}
	return s, nil
}

// Add takes what was done to a device: when it was done, and again, with the same Device, Kind and
// At, when the device is back. Truths about devices outside the plan are ignored.
func (s *Score) Add(t plan.Truth) {
	if t.Kind == plan.Signal {
		return
	}
	a := absence{at: nanos(t.At), last: nanos(t.Last), back: nanos(t.Back), heard: max(nanos(t.Back), nanos(t.Heard)), kind: t.Kind}
	switch {
	case t.Kind == plan.Lost:
		a.mark = lost
	case !t.Connected:
		a.mark = unheard
	}
	s.note(t.Device, a)
}

// Unheard returns the devices that should be online and have no event that says so. If old is set,
// those that went offline are taken to have been online before, and left out.
func (s *Score) Unheard(old bool) (numbers []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.devices {
		d := &s.devices[n]
		switch {
		case d.flags&(online|unwelcomed|abandoned|vouched) != 0:
		case old && len(d.tracks) > 0:
			d.flags |= vouched
		default:
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Vouch notes that a gateway considers a device present although the stream did not say so.
func (s *Score) Vouch(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices[number].flags |= vouched
}

// Unknown notes that it is unknown what a part of the fleet does from an instant on, because the
// process that played it is gone; what it did before has been added, or is about to be. Verdicts of
// later deadlines are unjudged, and no verdict that is due later is missed. Numbers that are not of
// the plan are ignored.
func (s *Score) Unknown(r plan.Range, from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.From, r.To = max(r.From, 0), min(r.To, len(s.devices))
	for n := r.From; n < r.To; n++ {
		if d := &s.devices[n]; d.flags&abandoned == 0 {
			d.flags |= abandoned
			s.report.UnjudgedDevices++
		}
	}
	s.unknown = append(s.unknown, blank{r, nanos(from)})
}

// knownLocked returns until when it is known what a device does; never if for ever.
func (s *Score) knownLocked(n int) int64 {
	until := int64(never)
	if s.devices[n].flags&abandoned == 0 {
		return until
	}
	for _, b := range s.unknown {
		if n >= b.From && n < b.To {
			until = min(until, b.from)
		}
	}
	return until
}

// note adds an absence of a device, or what is new of one that is known.
func (s *Score) note(number int, a absence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < 0 || number >= len(s.devices) {
		return
	}
	d := &s.devices[number]
	if a.last == 0 {
		d.flags |= unwelcomed
		if a.back != 0 {
			d.flags &^= unwelcomed
		}
		return // no gateway knows of it yet
	}
	for _, old := range d.absences {
		if old.absorb(&a) {
			return
		}
		if old.back == 0 && old.gone() && a.last > old.at {
			old.back, old.heard = a.last, a.last
			old.mark |= inferred
		}
	}
	d.absences = append(d.absences, &a)
}

// absorb merges b into a if both report the same absence: no sign of life lies between them. It
// reports whether they do.
func (a *absence) absorb(b *absence) bool {
	same := a.at == b.at && a.kind == b.kind
	if !same && (!a.gone() && a.kind != plan.Sleep || !b.gone() || b.last > a.at || a.last > b.at) {
		return false
	}
	if a.back != 0 && b.last >= a.back && !same {
		return false
	}
	if b.back != 0 && (a.back == 0 || a.mark.has(inferred) || b.back < a.back) {
		a.back, a.heard = b.back, b.heard
		a.mark &^= inferred
	}
	a.mark |= b.mark & lost
	if same || b.kind == plan.Lost || b.mark.has(unheard) {
		return true
	}
	a.last = min(a.last, b.last)
	if a.kind == plan.Lost || a.kind == plan.Silent || a.kind == plan.Crash {
		a.kind, a.at = b.kind, b.at
	}
	return true
}

// Finish judges all that is left: the truth is complete until an instant, at which the fleet was
// still beating. What was decided later is left alone.
func (s *Score) Finish(now time.Time) Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judgeUntilLocked(nanos(now), true)
	s.deafAnsweredLocked(nanos(now))
	s.deafUnaskedLocked(nanos(now))
	return s.reportLocked()
}

// JudgeUntil judges what is ripe: all that was done by devices before an instant has been added,
// returns too. Without it verdicts wait for Finish, since a return may still have to be told. It
// looks at each device, which takes some 60 ms for a million that all have something waiting: once
// a second, or every few, is often enough.
func (s *Score) JudgeUntil(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judgeUntilLocked(nanos(until), false)
}

// Report returns the score so far, without verdicts that wait for their truth and absences that
// were not judged.
func (s *Score) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reportLocked()
}

func (s *Score) reportLocked() Report {
	r := s.report.snapshot()
	s.sumDeafLocked(&r)
	for _, g := range s.gateways {
		g.describe(&r)
	}
	return r
}

// nanos returns an instant as the tables have it.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// instant is the inverse of nanos.
func instant(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at).UTC()
}
