package score

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

const (
	// slackByDefault is that of [New].
	slackByDefault = 2 * time.Second
	// lateAfter is how long after it was due a verdict or a return may come before it counts as late.
	lateAfter = 5 * time.Second
	// keepFor is how long an absence that is over is remembered, for verdicts that come late.
	keepFor = time.Minute
	// maxReconnect bounds for how long a source waits to hear a device once it was deaf: the interval
	// that the device announces and 10 s.
	maxReconnect = 5 * time.Minute
)

// termsOf returns when the verdicts on a plan are due.
func termsOf(p *plan.Plan, slack time.Duration) (terms, error) {
	timeout, interval := p.Timeout, p.Interval
	if p.SpeaksMQTT() { // the keep alive is announced as the interval, and one and a half of it is the timeout
		interval = (timeout * 2 / 3).Truncate(time.Second)
		timeout = interval * 3 / 2
	}
	slack = cmp.Or(slack, slackByDefault)
	var errs []error
	if timeout <= 0 {
		errs = append(errs, errors.New("score: there is no timeout; set that of the plan"))
	}
	if slack < 0 || p.Grace < 0 {
		errs = append(errs, fmt.Errorf("score: the slack is %v and the plan's grace %v; they must not be negative", slack, p.Grace))
	}
	return terms{
		timeout: int64(timeout), grace: int64(p.Grace), slack: int64(slack), late: int64(lateAfter), keep: int64(keepFor),
		reconnect: int64(min(interval+10*time.Second, maxReconnect)), wills: p.SpeaksMQTT(),
	}, errors.Join(errs...)
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
	plan  *plan.Plan
	terms terms

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
}

// New makes a score for a plan, which must not change any more. The plan's Grace and Timeout say
// what is due when. slack is how late a verdict may come before its absence counts as missed, and how
// long a return may be on its way for a verdict that tells no deadline; 0: 2 s. On one machine a
// verdict is false if it comes a nanosecond early.
func New(p *plan.Plan, slack time.Duration) (*Score, error) {
	t, err := termsOf(p, slack)
	if err != nil {
		return nil, err
	}
	s := &Score{plan: p, terms: t, devices: make([]device, max(p.Devices, 0))}
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
	a := absence{at: nanos(t.At), last: nanos(t.Last), back: nanos(t.Back), sent: max(nanos(t.Back), nanos(t.Sent)), heard: max(nanos(t.Back), nanos(t.Heard)), kind: t.Kind}
	switch {
	case t.Kind == plan.Lost && t.Cause == plan.NoAnswer: // the device's own doing
	case t.Kind == plan.Lost:
		a.mark = lost
	case !t.Connected:
		a.mark = unheard
	}
	if !t.Greeted.IsZero() {
		a.attempts = []attempt{{nanos(t.Greeted), a.at, a.at}}
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
		if !d.introduce(&a) {
			return // no gateway knows of it yet
		}
	}
	for _, old := range d.absences {
		if old.absorb(&a, s.terms.grace) {
			return
		}
		if old.back == 0 && old.gone() && a.last > old.at {
			old.back, old.sent, old.heard = a.last, a.last, a.last
			old.mark |= inferred
		}
	}
	d.absences = append(d.absences, &a)
}

// absorb merges b into a if both report the same absence: no sign of life lies between them. It
// reports whether they do.
func (a *absence) absorb(b *absence, grace int64) bool {
	same := a.at == b.at && a.kind == b.kind
	if !same && (!a.gone() && a.kind != plan.Sleep || !b.gone() || b.last > a.at || a.last > b.at) {
		return false
	}
	if a.back != 0 && b.last >= a.back && !same {
		return false
	}
	if b.back != 0 && (a.back == 0 || a.mark.has(inferred) || b.back < a.back) {
		a.back, a.sent, a.heard = b.back, b.sent, b.heard
		a.mark &^= inferred
	}
	a.mark |= b.mark & lost
	for _, t := range b.attempts {
		a.try(t, grace)
	}
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
	s.sumBehindLocked(&r)
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
