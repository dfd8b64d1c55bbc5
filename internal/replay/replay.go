package replay

import (
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// replay is one question that is being answered.
type replay struct {
	question *Question
	fleet    *fleet
	sources  map[string]*source
	policies policies
	judges   judgement.Judge

	today, learned tally
	values         []tally
	falls          []fall // of members of groups; for OutageShare only

	silences, outages, undecided, suppressed, overlaps int
}

func newReplay(q *Question, f *fleet, sources map[string]*source) *replay {
	r := &replay{question: q, fleet: f, sources: sources, values: make([]tally, max(len(q.Values), len(q.Shares)))}
	r.policies.tried = make(map[int32][]liveness.Policy)
	return r
}

// policiesKept bounds policies.tried, all values together.
const policiesKept = 100_000

// policies are those that a replay tries.
type policies struct {
	tried map[int32][]liveness.Policy // by position of the rule: complete, with each value in the changed field
}

// of returns the policies to try on devices with a rule. They are valid until the next call. There may be as
// many rules as devices: then they are made again and again, and not kept.
func (p *policies) of(rule int32, f *fleet, q *Question) []liveness.Policy {
	if all, ok := p.tried[rule]; ok || len(q.Values) == 0 {
		return all
	}
	if len(p.tried) >= policiesKept/len(q.Values) {
		clear(p.tried)
	}
	all := make([]liveness.Policy, len(q.Values))
	for i, v := range q.Values {
		all[i] = changed(f.policies[rule], q.Field, v)
	}
	p.tried[rule] = all
	return all
}

// changed returns a policy with another value, complete.
func changed(p liveness.Policy, field Field, v time.Duration) liveness.Policy {
	switch field {
	case Timeout:
		p.Timeout = v
	case LateAfter:
		p.LateAfter = v
	case CloseGrace:
		p.CloseGrace = v
	case OutageShare: // it is not the device's
	}
	return p.Complete()
}

// gap judges a record.
func (r *replay) gap(g *judgement.Gap) {
	d := r.fleet.of(g.Num)
	switch {
	case d == nil:
		return
	case g.End > judgement.EndBye || g.At.Before(d.since):
		return
	}
	r.judge(d, g)
}

// overlapMargin is by how much two silences of a device may overlap: after a crash a listening clock goes
// on from where it was at the checkpoint before.
const overlapMargin = time.Minute

// judge judges a silence of a device with all values, and counts it if it began in the window. One that began
// earlier may leave the device offline, see [liveness.Policy.RecoverAfter].
func (r *replay) judge(d *device, g *judgement.Gap) {
	s := known(r.sources, g.Source)
	breaks, deaf := s.within(g.Start, g.Start+g.Length)
	start := g.At.Add(-g.Length - deaf)
	held, early := &r.fleet.policies[d.held], start.Before(r.question.From)
	if early && held.RecoverAfter <= 1 || !start.Before(r.question.To) {
		return
	}
	if d.source == s && g.Start+overlapMargin < d.last {
		r.overlaps++
		return
	}
	c := silence{gap: g, source: s, breaks: breaks, counts: !early && !g.Suppressed}
	c.classify(d, held.Timeout)
	r.goOn(d, &c, start)
	d.source, d.last = s, g.Start+g.Length
	offline := d.by(byHeld) > 0 // then it is a part of an outage
	if g.Suppressed && !early {
		r.suppressed++
	}
	if !c.counts && held.RecoverAfter <= 1 {
		return
	}
	today := r.outcome(d, &c, byHeld, held)
	switch {
	case !c.counts || offline:
	case g.End == judgement.EndOpen && today.judgement.Offline == 0:
		r.undecided++
		return
	default:
		if r.silences++; c.real {
			r.outages++
		}
	}
	r.count(d, &c, today)
}

// count counts what today's policies and the others say of a silence.
func (r *replay) count(d *device, c *silence, today outcome) {
	r.add(&r.today, c, &today, &today)
	if r.question.Field == OutageShare {
		r.fall(d, c, &today)
	}
	tried := r.policies.of(d.rule, r.fleet, r.question)
	for i := range tried {
		o := r.outcome(d, c, byValue+i, &tried[i])
		r.add(&r.values[i], c, &o, &today)
	}
	if r.question.Field == Timeout {
		o := today
		if d.learned > 0 {
			p := changed(r.fleet.policies[d.rule], Timeout, d.learned)
			o = r.outcome(d, c, byLearned, &p)
		}
		r.add(&r.learned, c, &o, &today)
		if c.counts {
			d.count(&o, &today)
		}
	}
}

// add adds an outcome of a silence to a tally, if the silence counts.
func (r *replay) add(t *tally, c *silence, o, today *outcome) {
	if c.counts {
		t.add(o, today)
	}
}

// count counts for a device with a tally of its own.
func (d *device) count(o, today *outcome) {
	if d.id == "" {
		return
	}
	if d.tally == nil {
		d.tally = new(deviceTally)
	}
	d.tally.today.add(today, today)
	d.tally.learned.add(o, today)
}

// silence is a gap that is judged.
type silence struct {
	gap    *judgement.Gap
	source *source
	breaks []judgement.Break // in it
	real   bool              // it is an outage, whatever it is judged for
	counts bool              // it began in the window, and not in maintenance
}

// judgeBy judges a silence by a policy. Most are too short for most policies.
func (r *replay) judgeBy(c *silence, p *liveness.Policy) judgement.Judgement {
	g := c.gap
	shortest := p.Timeout
	if p.LateAfter > 0 && g.Slept == 0 {
		shortest = min(shortest, p.LateAfter)
	}
	returned := g.Reason == liveness.NoReason || g.Length-g.Closed <= p.CloseGrace && !g.AtOnce
	if returned && g.Length-g.Slept <= shortest {
		return judgement.Judgement{}
	}
	return r.judges.Gap(g, p, c.source.grace(*p), c.breaks)
}

// classify finds out whether the silence is an outage. See the package's documentation.
func (c *silence) classify(d *device, timeout time.Duration) {
	long := c.gap.Length-c.gap.Slept > 2*timeout
	switch c.gap.End {
	case judgement.EndBye, judgement.EndOpen:
		c.real = true
	case judgement.EndSession:
		c.real = long || !c.gap.CutOff
	default:
		c.real = long && !d.sessions
	}
}
