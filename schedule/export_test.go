package schedule

import "time"

// Resolve returns what a plan that is added now makes of its shape, and the instant after which it begins.
func (p *Plan) Resolve(now time.Time) (Schedule, time.Time, error) {
	s, err := p.resolve(now)
	return s, p.after(now), err
}

// Plus and Minus count from one instant to another.
func Plus(at int64, d time.Duration) int64 { return plus(at, d) }
func Minus(a, b int64) time.Duration       { return minus(a, b) }
