package scenario

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
)

// Overrides are settings that override a scenario's, such as flags of a command. Zero fields change
// nothing.
type Overrides struct {
	Connections int // the number of devices
	Seed        uint64
	ID          string
	Group       int
	Protocol    string
	Targets     []string // see ParseTarget
	Sources     []netip.Addr
	Token, User string
	Publish     string
	// Interval keeps the ratio of the plan's timeout to its interval, unless Timeout is given, too.
	Interval, Timeout time.Duration
	// Grace is the plan's; if that is half of the timeout, but at most 10 s, it follows the new
	// timeout.
	Grace  time.Duration
	Jitter float64
	Ramp   float64
	// Duration is the length of all phases together. Each phase, and when things happen in it, is
	// stretched or shrunk in proportion. How long devices stay away remains, and what repeats does
	// so as often a minute as before: more or fewer times.
	Duration time.Duration
}

// Apply changes a plan. [plan.Plan.Validate] checks it afterwards.
func (o Overrides) Apply(p *plan.Plan) {
	o.pace(p)
	replace(&p.Devices, o.Connections)
	replace(&p.Seed, o.Seed)
	replace(&p.ID, o.ID)
	replace(&p.Group, o.Group)
	replace(&p.Protocol, o.Protocol)
	replace(&p.Token, o.Token)
	replace(&p.User, o.User)
	replace(&p.Publish, o.Publish)
	replace(&p.Jitter, o.Jitter)
	replace(&p.Ramp, o.Ramp)
	if len(o.Targets) > 0 {
		p.Targets = append([]string(nil), o.Targets...)
	}
	if len(o.Sources) > 0 {
		p.Sources = append([]netip.Addr(nil), o.Sources...)
	}
	if total := p.Length(); o.Duration > 0 && total > 0 {
		p.Phases = stretch(p.Phases, o.Duration, total)
	}
}

// pace changes interval, timeout and grace.
func (o Overrides) pace(p *plan.Plan) {
	usual := plan.Plan{Timeout: p.Timeout}
	usual.Fill()
	follows := p.Grace == usual.Grace
	if o.Interval > 0 && p.Interval > 0 {
		p.Timeout = scale(p.Timeout, o.Interval, p.Interval)
	}
	replace(&p.Interval, o.Interval)
	replace(&p.Timeout, o.Timeout)
	if follows {
		usual = plan.Plan{Timeout: p.Timeout}
		usual.Fill()
		p.Grace = usual.Grace
	}
	replace(&p.Grace, o.Grace)
}

func replace[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// stretch returns phases that take length together instead of total.
func stretch(phases []plan.Phase, length, total time.Duration) []plan.Phase {
	longer := make([]plan.Phase, len(phases))
	var began, ended time.Duration // of the phase as it was
	for i, ph := range phases {
		began, ended = ended, ended+ph.Length
		longer[i] = plan.Phase{Name: ph.Name, Length: scale(ended, length, total) - scale(began, length, total)}
		for _, a := range ph.Acts {
			a.After, a.Within = scale(a.After, length, total), scale(a.Within, length, total)
			if a.Times > 1 && a.Every > 0 {
				a.Times = 1 + int(scale(time.Duration(a.Times-1)*a.Every, length, total)/a.Every)
			}
			if a.Times == 1 {
				a.Every = 0
			}
			longer[i].Acts = append(longer[i].Acts, a)
		}
	}
	return longer
}

// scale returns d times to / from, rounded down, or the longest duration if that is too long. Of
// what is negative it changes nothing.
func scale(d, to, from time.Duration) time.Duration {
	const most = time.Duration(1<<63 - 1)
	if d < 0 || to < 0 || from <= 0 {
		return d
	}
	high, low := bits.Mul64(uint64(d), uint64(to))
	if high >= uint64(from) {
		return most
	}
	quotient, _ := bits.Div64(high, low, uint64(from))
	return time.Duration(min(quotient, uint64(most)))
}
