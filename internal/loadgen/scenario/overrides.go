package scenario

import (
	"math/bits"
	"reflect"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// Override changes the fields of a plan to those of another that are not zero, such as flags of a
// command. [plan.Plan.Validate] checks it afterwards.
//
// An interval keeps the ratio of the plan's timeout to its interval, unless a timeout is given, too.
// A grace that is half of the timeout, but at most 10 s, follows the new timeout. If length is not 0,
// all phases take that together: each of them, and when things happen in it, is stretched or shrunk
// in proportion. How long devices stay away remains, and what repeats does so as often a minute as
// before: more or fewer times.
func Override(p *plan.Plan, by plan.Plan, length time.Duration) {
	follows := p.Grace == graceOf(p.Timeout)
	if by.Interval > 0 && p.Interval > 0 && by.Timeout == 0 {
		by.Timeout = scale(p.Timeout, by.Interval, p.Interval)
	}
	if by.Timeout != 0 && follows && by.Grace == 0 {
		by.Grace = graceOf(by.Timeout)
	}
	to, from := reflect.ValueOf(p).Elem(), reflect.ValueOf(by)
	for i := range to.NumField() {
		if field := from.Field(i); !field.IsZero() {
			to.Field(i).Set(field)
		}
	}
	if total := p.Length(); length > 0 && total > 0 {
		p.Phases = stretch(p.Phases, length, total)
	}
}

// graceOf is the usual grace for a timeout.
func graceOf(timeout time.Duration) time.Duration {
	usual := plan.Plan{Timeout: timeout}
	usual.Fill()
	return usual.Grace
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
