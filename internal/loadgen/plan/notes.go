package plan

import (
	"fmt"
	"time"
)

// Notes returns warnings about valid plans, a sentence each: devices whose verdict is due only
// after the end, so that a missing one is not noticed.
func (p *Plan) Notes() []string {
	var notes []string
	end := p.Length()
	for _, o := range p.occasions() {
		wait, judged := p.verdictAfter(o.Kind)
		due := o.start + o.happens() + wait
		if judged && due > end && (o.forGood() || o.Back >= wait) {
			notes = append(notes, fmt.Sprintf("%s: the verdict on the last device (%v) is due after %v, but all is over after %v; "+
				"make the last phase at least %v longer, or nobody sees if it is missing",
				actField(o.phase, o.index), o.Kind, due, end, due-end))
		}
	}
	return notes
}

// verdictAfter returns how long after something was done the verdict on the device is due; false if
// there is none.
func (p *Plan) verdictAfter(k Kind) (wait time.Duration, judged bool) {
	switch k {
	case Silent, Crash:
		return p.Timeout, true
	case Close, Reset:
		return p.Grace, true
	case Bye:
		return 0, true
	default:
		return 0, false
	}
}
