package judgement

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Policy defines how long a device may be silent. In a rule, a zero field is left to the next rule.
type Policy struct {
	// Interval is how often the device intends to send a heartbeat. Default: a third of Timeout, 30
	// s if that is [Never].
	Interval time.Duration
	// Timeout is the heard silence after which the device is offline; with [Never] silence means
	// nothing. Default: 90 s.
	Timeout time.Duration
	// LateAfter is the heard silence after which the device is late; off if it is not less than
	// Timeout. Default: off.
	LateAfter time.Duration
	// CloseGrace is how long a device whose connection ended has to come back. Default: half of
	// Timeout, at most 10 s.
	CloseGrace time.Duration
	// SleepLimit is the longest sleep that a device may announce. Default: 24 h.
	SleepLimit time.Duration
	// Probes is how often a device that has a session open is asked for a sign of life before it is
	// judged for its silence; it is [Suspect] then. ProbeWait is the time from one probe to the
	// next, and from the last probe to the verdict, which does not wait for them: the first probe
	// comes after a silence of Timeout less Probes × ProbeWait. Where that is not after 0, which
	// validation refuses in a single rule, there are only as many as fit. A device may become late
	// while it is probed. Default: no probes, 5 s.
	Probes    int
	ProbeWait time.Duration
	// RecoverAfter is how many heartbeats in a row, up to 255, an offline device has to send before it is
	// online; opening a session is one. Until then it stays offline, without an event. A silence that is
	// longer than Timeout, or the end of its connection, begins the count anew, and so does a restart of
	// the process, which does not know it. A device that said goodbye, announces a sleep, or has a
	// Timeout of [Never] is not held back. Default: 1.
	RecoverAfter int
	// Quiet are windows of the day in which silence does not count, as [ParseQuiet] returns them: a silence
	// is Timeout, or LateAfter, long once so much of it has passed outside of the windows. So is a reconnect
	// grace. A device whose CloseGrace touches a window is not judged before its silence is; with a Timeout of
	// Never, before its CloseGrace has passed outside of the windows. The windows follow the wall clock; a
	// goodbye, and what a source reports of itself, do not wait for them. Default: none.
	Quiet string
	// Expect is when the device is expected, by the wall clock, as [ParseExpect] returns it: after a heartbeat
	// its silence does not count before the next instant of the schedule. Timeout, LateAfter and a reconnect
	// grace count from there, so that Timeout is the grace that it has. A heartbeat that comes before an
	// instant by less than a minute and less than half of Timeout, and is nearer to it than to the one before,
	// counts for it, since clocks differ. No deadline is learned of such a device. A rule that has an Expect
	// and no Timeout or Interval has a Timeout of 1 h, and as Interval how far apart two instants are. Default:
	// none.
	Expect string
	// Learn is what is done with the deadline that is learned of a device, see liveness.Registry.Learned.
	// LearnBudget is how many false alarms of the device are accepted in a month of 30 days: the fewer, the
	// longer the deadline. LearnMax is the longest deadline that is put in force because it was learned.
	// Default: LearnSuggest, 1, 24 h.
	Learn       LearnMode
	LearnBudget float64
	LearnMax    time.Duration
}

const (
	// DefaultTimeout is the Timeout of a fleet that has none of its own.
	DefaultTimeout       = 90 * time.Second
	defaultSleepLimit    = 24 * time.Hour
	maxDefaultCloseGrace = 10 * time.Second
	// maxRecoverAfter bounds Policy.RecoverAfter.
	maxRecoverAfter = 255
	// MaxSpan bounds every duration of a policy, so that no sum of them overflows a clock.
	MaxSpan = 366 * 24 * time.Hour
)

// Never is the longest Timeout there is, and means none: a broker tracks the device, and tells when
// its connection ended. It is a year of listening, after which the device is judged all the same.
const Never time.Duration = MaxSpan

// Validate returns the errors of fields that no rule may have.
func (p Policy) Validate() error { return p.ValidateWith(new(Calendars)) }

// ValidateWith is validate, but for what was parsed before.
func (p Policy) ValidateWith(c *Calendars) error {
	var errs []error
	check := func(name string, d time.Duration) {
		if d < 0 || d > MaxSpan {
			errs = append(errs, fmt.Errorf("%s is %v, want 0 to %v", name, d, MaxSpan))
		}
	}
	check("Interval", p.Interval)
	check("Timeout", p.Timeout)
	check("LateAfter", p.LateAfter)
	check("CloseGrace", p.CloseGrace)
	check("SleepLimit", p.SleepLimit)
	check("ProbeWait", p.ProbeWait)
	if p.Probes < 0 || p.Probes > maxProbes {
		errs = append(errs, fmt.Errorf("%s is %d, want 0 to %d", "Probes", p.Probes, maxProbes))
	}
	if p.RecoverAfter < 0 || p.RecoverAfter > maxRecoverAfter {
		errs = append(errs, fmt.Errorf("%s is %d, want 1 to %d", "RecoverAfter", p.RecoverAfter, maxRecoverAfter))
	}
	if _, err := c.quiet(p.Quiet); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", "Quiet", err))
	}
	if _, err := c.expectation(p.Expect); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", "Expect", err))
	}
	if p.Learn > LearnApply {
		errs = append(errs, fmt.Errorf("%s is %d, want off, suggest or apply", "Learn", p.Learn))
	}
	if b := p.LearnBudget; b != 0 && !(b >= LeastLearnBudget && b <= MaxLearnBudget) { // nor NaN
		errs = append(errs, fmt.Errorf("%s is %v a month, want %v to %v", "LearnBudget", b, LeastLearnBudget, MaxLearnBudget))
	}
	if p.LearnMax < 0 || p.LearnMax > MaxLearned {
		errs = append(errs, fmt.Errorf("%s is %v, want up to %v", "LearnMax", p.LearnMax, MaxLearned))
	}
	if len(errs) == 0 && p.Timeout > 0 && p.Probes > 0 {
		wait := cmp.Or(p.ProbeWait, defaultProbeWait)
		if span := time.Duration(p.Probes) * wait; span >= p.Timeout {
			errs = append(errs, fmt.Errorf("%s is %v, want less than Timeout, %v", "Probes × ProbeWait", span, p.Timeout))
		}
	}
	return errors.Join(errs...)
}

// AtLeast fails if Timeout is set and less than least.
func (p Policy) AtLeast(least time.Duration) error {
	if p.Timeout != 0 && p.Timeout < least {
		return fmt.Errorf("%s is %v, want %v or more", "Timeout", p.Timeout, least)
	}
	return nil
}

// ValidateFleet is validate for the fleet's policy, whose zero fields are the defaults.
func (p Policy) ValidateFleet() error {
	if err := p.Validate(); err != nil {
		return err
	}
	return p.Complete().Validate()
}

// Or returns p with its zero fields taken from q.
func (p Policy) Or(q Policy) Policy {
	return Policy{
		Interval:     cmp.Or(p.Interval, q.Interval),
		Timeout:      cmp.Or(p.Timeout, q.Timeout),
		LateAfter:    cmp.Or(p.LateAfter, q.LateAfter),
		CloseGrace:   cmp.Or(p.CloseGrace, q.CloseGrace),
		SleepLimit:   cmp.Or(p.SleepLimit, q.SleepLimit),
		Probes:       cmp.Or(p.Probes, q.Probes),
		ProbeWait:    cmp.Or(p.ProbeWait, q.ProbeWait),
		RecoverAfter: cmp.Or(p.RecoverAfter, q.RecoverAfter),
		Quiet:        cmp.Or(p.Quiet, q.Quiet),
		Expect:       cmp.Or(p.Expect, q.Expect),
		Learn:        cmp.Or(p.Learn, q.Learn),
		LearnBudget:  cmp.Or(p.LearnBudget, q.LearnBudget),
		LearnMax:     cmp.Or(p.LearnMax, q.LearnMax),
	}
}

// Complete returns p with the defaults in its zero fields.
func (p Policy) Complete() Policy {
	timeout := DefaultTimeout
	if p.Expect != "" {
		timeout = expectGrace
	}
	p = p.Or(Policy{
		Timeout: timeout, SleepLimit: defaultSleepLimit, RecoverAfter: 1, Learn: LearnSuggest, LearnBudget: 1, LearnMax: defaultLearnMax,
	})
	if p.Probes > 0 {
		p.ProbeWait = cmp.Or(p.ProbeWait, defaultProbeWait)
	}
	interval := max(p.Timeout/3, 1)
	if p.Timeout == Never {
		interval = DefaultTimeout / 3
	}
	return p.Or(Policy{
		Interval:   interval,
		CloseGrace: max(min(p.Timeout/2, maxDefaultCloseGrace), 1),
	})
}
