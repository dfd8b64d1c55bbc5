package score

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// Report says how good the verdicts were.
type Report struct {
	// Verdicts has no mistakes and latencies before [Report.Final].
	report.Verdicts

	Devices int // of the plan
	// Events counts the events of devices, and Waiting the offline verdicts that wait for their
	// truth.
	Events, Waiting uint64
	// Figures are what was found of each kind of mistake.
	Figures [mistakes]Figure
	// Latency is how long after its deadline a right verdict was decided, by what the gateway says
	// of that; Told is how long after the deadline it came.
	Latency, Told report.Latency
	// Incomplete says where events were no longer kept when a stream that broke was read on, for the
	// first ten times: figures that follow from that are not the gateway's fault alone.
	Incomplete []string

	// Gateways whose events have no numbers, and no reasons, and need not: what follows from these
	// was not checked there.
	unnumbered, unreasoned int
	decided, told          *hdrhistogram.Histogram
}

// unit is that of the values in histograms.
const unit = time.Microsecond

// add counts a mistake; describe is asked for an example if there is room.
func (r *Report) add(m Mistake, describe func() report.Example) { r.Figures[m].add(1, 0, describe) }

// snapshot returns a copy that shares no memory with r, and its latencies.
func (r *Report) snapshot() Report {
	c := *r
	for i := range c.Figures {
		c.Figures[i].Examples = slices.Clone(c.Figures[i].Examples)
	}
	c.Incomplete = slices.Clone(c.Incomplete)
	c.decided, c.told = hdrhistogram.Import(r.decided.Export()), hdrhistogram.Import(r.told.Export())
	c.Latency, c.Told = report.LatencyOf(c.decided, unit), report.LatencyOf(c.told, unit)
	return c
}

// addVerdict notes a measurement of the gateway's clock.
func (g *gateway) addVerdict(v *Verdict) {
	c, skew := &g.clock, report.Millis(v.Skew)
	if !c.Measured && !c.Set {
		c.Least, c.Most = skew, skew
	}
	c.Set = v.Reason != ""
	c.Measured, c.Skew, c.Error = !c.Set, skew, report.Millis(v.Error)
	c.Least, c.Most = min(c.Least, skew), max(c.Most, skew)
}

// describe says what is known of a gateway.
func (g *gateway) describe(r *Report) {
	if !g.followed {
		return
	}
	g.clock.From = g.url
	r.Clocks = append(r.Clocks, g.clock)
	if !g.numbered && (g.spoke || !g.full) {
		r.unnumbered++
		r.NotChecked = append(r.NotChecked, fmt.Sprintf("what %s says has no numbers: whether events are missing, out of order or late, or contradict each other", g.url))
	}
	if !g.reasoned && g.offline {
		r.unreasoned++
		r.NotChecked = append(r.NotChecked, fmt.Sprintf("what %s says has no reasons: whether they are right", g.url))
	}
}
