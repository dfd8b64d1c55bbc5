package schedule

import "time"

// Resolve returns what a plan that is added now makes of its shape, and the instant after which it begins.
func (p *Plan) Resolve(now time.Time) (Schedule, time.Time, error) {
	s, err := p.resolve(now)
	return s, p.after(now), err
}
