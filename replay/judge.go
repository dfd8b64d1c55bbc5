package replay

import (
	"time"

	"github.com/holter-iot/holter/liveness"
)

// replay is one question that is being answered.
type replay struct {
	question *Question
	fleet    *fleet
	sources  map[string]*source
	policies policies
	judges   liveness.Judge

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
func (r *replay) gap(g *liveness.Gap) {
	d := r.fleet.of(g.Num)
	switch {
	case d == nil:
		return
	case g.End > liveness.EndBye || g.At.Before(d.since):
		return
	}
	r.judge(d, g)
}

// overlapMargin is by how much two silences of a device may overlap: after a crash a listening clock goes
// on from where it was at the checkpoint before.
const overlapMargin = time.Minute

// judge judges a silence of a device with all values, if it began in the window.
func (r *replay) judge(d *device, g *liveness.Gap) {
	s := known(r.sources, g.Source)
	breaks, deaf := s.within(g.Start, g.Start+g.Length)
	if start := g.At.Add(-g.Length - deaf); start.Before(r.question.From) || !start.Before(r.question.To) {
		return
	}
	switch {
	case d.source == s && g.Start+overlapMargin < d.last:
		r.overlaps++
		return
	case g.Suppressed:
		r.suppressed++
		return
	}
	d.source, d.last = s, g.Start+g.Length
	c := silence{gap: g, source: s, breaks: breaks}
	held := &r.fleet.policies[d.held]
	today := r.judgeBy(&c, held)
	if g.End == liveness.EndOpen && today.Offline == 0 {
		r.undecided++
		return
	}
	c.classify(d, held.Timeout)
	if r.silences++; c.real {
		r.outages++
	}
	r.count(d, &c, c.outcome(today))
}

// count counts what today's policies and the others say of a silence.
func (r *replay) count(d *device, c *silence, today outcome) {
	r.today.add(&today, &today)
	if r.question.Field == OutageShare && today.judgement.Offline > 0 {
		r.falls = append(r.falls, c.fall(d, today.judgement.Offline))
	}
	tried := r.policies.of(d.rule, r.fleet, r.question)
	for i := range tried {
		o := c.outcome(r.judgeBy(c, &tried[i]))
		r.values[i].add(&o, &today)
	}
	if r.question.Field == Timeout {
		o := today
		if d.learned > 0 {
			p := changed(r.fleet.policies[d.rule], Timeout, d.learned)
			o = c.outcome(r.judgeBy(c, &p))
		}
		r.learned.add(&o, &today)
		d.count(&o, &today)
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
	gap    *liveness.Gap
	source *source
	breaks []liveness.Break // in it
	real   bool             // it is an outage, whatever it is judged for
}

// judgeBy judges a silence by a policy. Most are too short for most policies.
func (r *replay) judgeBy(c *silence, p *liveness.Policy) liveness.Judgement {
	g := c.gap
	shortest := p.Timeout
	if p.LateAfter > 0 && g.Slept == 0 {
		shortest = min(shortest, p.LateAfter)
	}
	returned := g.Reason == liveness.NoReason || g.Length-g.Closed <= p.CloseGrace
	if returned && g.Length-g.Slept <= shortest {
		return liveness.Judgement{}
	}
	return r.judges.Gap(g, p, &c.source.config, c.breaks)
}

// classify finds out whether the silence is an outage. See the package's documentation.
func (c *silence) classify(d *device, timeout time.Duration) {
	long := c.gap.Length-c.gap.Slept > 2*timeout
	switch c.gap.End {
	case liveness.EndBye, liveness.EndOpen:
		c.real = true
	case liveness.EndSession:
		c.real = long || !c.gap.CutOff
	default:
		c.real = long && !d.sessions
	}
}

// outcome returns what a judgement means. Where the connection had ended, it is true.
func (c *silence) outcome(j liveness.Judgement) outcome {
	closed := j.Offline > 0 && j.Reason != liveness.Silence
	return outcome{judgement: j, real: c.real || closed, back: c.gap.End != liveness.EndOpen}
}
