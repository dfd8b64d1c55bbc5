package liveness

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// View is a picture of a device, with all that its state follows from.
type View struct {
	ID      string
	Num     uint32 // the device's number; 0 before its first event
	State   State
	Decided State  // of a Pending device: its state once that is committed
	Reason  Reason // of an offline device
	Closing Reason // why it goes offline unless it comes back, if its connection ended; otherwise NoReason
	// JudgedBy is the span of the policy that the state follows from, as it was then: the CloseGrace if a
	// connection ended, else the LateAfter of a late device and the Timeout of an offline one. Policy may have
	// another one by now. It is 0 if the state follows from none, such as an end that is judged at once, or from
	// which is not known.
	JudgedBy  time.Duration
	Connected bool
	Seq       uint64 // of its latest event that the sink has taken
	Epoch     uint64
	// Since is when the state changed last. It is kept in steady time, and shown by the wall clock
	// as it is set now.
	Since    time.Time
	Policy   Policy
	From     string // the rule that Policy.Timeout is from
	Group    string
	Flapping bool
	// Maintenance: its verdicts are not to raise an alarm. Window: a maintenance window covers it.
	// Own: it has a policy that was set at run time.
	Maintenance, Window, Own bool
	// Unverified: it was only ever heard without a proof of who it is, see [Signal].
	Unverified bool

	// The fields below are zero for a device that was never seen.

	Source   string
	LastSeen time.Time // the last heartbeat
	Deadline time.Time // of the verdict, if nothing is heard and the source goes on listening; zero if there is none to come
	// Last and Now are the source's listening time at the last heartbeat and now; HeardSilence is
	// the difference.
	Last, Now    time.Duration
	HeardSilence time.Duration
	// Deaf are the intervals after the last heartbeat for which the source was deaf; they do not
	// count. Of many, these are the latest, and DeafBefore is how long the earlier ones were together.
	Deaf       []judgement.DeafInterval
	DeafBefore time.Duration
	// NotBefore is the listening time before which the device is not judged, because its source was
	// deaf, a maintenance window suppresses its silence, its session was released, its timeout became
	// shorter, or its connection ended in a quiet window; 0 if none of these is so. Where several are, it
	// follows from the one that lasts longest.
	NotBefore time.Duration
	// Released: NotBefore follows from that its session was released, see [Session.Release]. Granted: from
	// that its timeout became shorter while its silence was under way, see [Registry.Reconfigure].
	// Suppressed: from a maintenance window.
	Released, Granted, Suppressed bool
	// Grace is the device's reconnect grace, if NotBefore follows from that its source was deaf; otherwise 0.
	// All gaps since its last heartbeat together put its verdict off by GraceMax at most, of which GraceUsed
	// has passed.
	Grace, GraceMax, GraceUsed time.Duration
	// Slept is how much of HeardSilence does not count because the device was asleep. Quieted is how much does
	// not because of Policy.Quiet and Policy.Expect, and QuietBy how much of the silence up to Deadline.
	Slept, Quieted, QuietBy time.Duration
	// Started is when the run began that is under way, see [Start]; zero if none is.
	Started time.Time
	// Expected is the instant from which its silence counts, see Policy.Expect.
	Expected time.Time
	Sleep    time.Time // when its sleep ends, if it sleeps
	// Asked is how often the device was probed since it was heard last, AskedAt when last.
	Asked   int
	AskedAt time.Time
	// Recovering is how many heartbeats in a row an offline device has sent, of Policy.RecoverAfter.
	Recovering int
}

// Device returns a picture of a device. Errors: ErrUnknownDevice.
func (r *Registry) Device(id string) (View, error) {
	sh, d, err := r.find(id)
	if err != nil {
		return View{}, err
	}
	defer sh.mu.Unlock()
	return r.viewLocked(d), nil
}

// Known implements [operate.Registry].
func (r operator) Known(id string) bool {
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.index.find(hash, id) != nil
}

func (r *Registry) viewLocked(d *device) View {
	f, _ := d.conditionLocked()
	f.Last = d.lastLocked()
	rule := d.rule.Value()
	committed := r.shards[d.handle%shardCount].committedLocked(d)
	v := View{
		ID: d.id, Num: d.num, State: d.stateLocked(), Connected: d.session != nil, Seq: committed, Epoch: d.epoch,
		Since: r.clock.wall(d.since), Policy: d.heldLocked(), From: d.fromLocked(),
		Flapping: d.changes != nil && d.changes.flapping, Maintenance: d.maintained(), Window: d.marks&byWindow != 0, Own: rule.own,
		Unverified: d.unverified(),
	}
	if rule.group != nil {
		v.Group = rule.group.Name
	}
	if d.running() {
		v.Started = r.clock.wall(r.shards[d.handle%shardCount].runs[d.handle])
	}
	if d.source != nil {
		v.JudgedBy = d.judgedByLocked(f)
		d.timesLocked(&v, f)
	}
	if v.State == Pending {
		v.Decided = d.state
	}
	return v
}

// timesLocked fills in what follows from the source's clock.
func (d *device) timesLocked(v *View, f judgement.Condition) {
	s, r, o := d.source, d.source.registry, d.outlookLocked(f)
	v.Source, v.Last = s.name, f.Last
	v.Now = max(s.Now(), f.Last)
	v.HeardSilence = v.Now - f.Last
	counted := o.Pace.Counts(f.From(), v.Now)
	v.Expected, v.Quieted = o.Pace.Expected, max(v.Now-f.From()-counted, 0)
	v.Slept = min(max(f.From()-f.Last, r.shards[d.handle%shardCount].judged[d.handle].slept), v.HeardSilence)
	s.mu.Lock()
	defer s.mu.Unlock()
	v.LastSeen = d.seenLocked(f.Last)
	v.Deaf = s.deafSinceLocked(f.Last)
	v.DeafBefore = s.deafBeforeLocked(v)
	switch f.State {
	case Offline:
		v.Reason, v.Recovering = f.Reason, int(f.Asked)
		return
	case Sleeping:
		v.Sleep = s.wallLocked(f.Until)
	case NeverSeen, Online, Late, Unknown, Suspect, Pending:
	}
	if f.Suspect() {
		v.Asked, v.AskedAt = int(f.Asked), s.wallLocked(f.Until)
	}
	if f.Ending() {
		v.Closing = f.Reason
	}
	if f.Awaited(o.Policy) {
		if o.Delay != judgement.NoDelay {
			v.NotBefore = o.NotBefore
		}
		v.Released, v.Granted, v.Suppressed = o.Delay == judgement.AfterRelease, o.Delay == judgement.AfterGrant, o.Delay == judgement.AfterWindow
		if o.Delay == judgement.AfterDeaf {
			v.Grace = s.config.Load().grace(o.Policy)
			v.GraceMax = judgement.MaxGraces * v.Grace
			v.GraceUsed = min(max(counted-o.Plain, 0), v.GraceMax)
		}
		at, _ := f.Verdict(o.Policy, o.NotBefore)
		v.Deadline = s.wallLocked(at)
		v.QuietBy = max(at-f.From()-o.Pace.Counts(f.From(), at), 0)
	}
}

// deafSinceLocked returns the deaf intervals after a listening time.
func (s *Source) deafSinceLocked(listened time.Duration) []judgement.DeafInterval {
	for i := range s.deaf {
		if s.deaf[i].Listened > listened {
			return append([]judgement.DeafInterval(nil), s.deaf[i:]...)
		}
	}
	return nil
}

// deafBeforeLocked returns for how long the source was deaf after a device's last heartbeat, but for the intervals
// that the view lists: that is what the silence is short of by the wall clock.
func (s *Source) deafBeforeLocked(v *View) time.Duration {
	if len(v.Deaf) < deafKept {
		return 0
	}
	sum := s.wallLocked(v.Now).Sub(v.LastSeen) - v.HeardSilence
	for i := range v.Deaf {
		sum -= v.Deaf[i].To.Sub(v.Deaf[i].From)
	}
	if sum <= judgement.DriftTolerance { // the clocks are no more apart
		return 0
	}
	return sum
}

// stateLocked returns the state to show.
func (d *device) stateLocked() State {
	shown := d.shownLocked()
	if shown == Pending || !d.expected() || d.state == Sleeping {
		return shown
	}
	if !d.source.unheard(d.wholeLocked(d.last)) || !d.source.unheard(d.wholeLocked(d.lastLocked())) { // the timer's is no earlier
		return shown
	}
	if d.rule.Value().Expect != "" && !d.running() && d.unexpectedLocked() {
		return shown
	}
	return Unknown
}

// unexpectedLocked reports whether the device was not expected yet when its source was deaf. Then its state is
// as well known as before.
func (d *device) unexpectedLocked() bool {
	s := d.source
	f, _ := d.conditionLocked()
	f.Last = d.lastLocked()
	by := s.pace(d.policyLocked(), f.Last, f.From())
	if p := s.latest.Load(); p != nil && p.deaf {
		return by.Expected.After(s.registry.clock.time())
	}
	return !by.Expected.IsZero() && !by.Expected.Before(s.wall(s.deafness.Cut()))
}
