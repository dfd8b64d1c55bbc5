package plan

import "time"

// Range is the devices from From to To-1.
type Range struct{ From, To int }

// Len returns how many devices there are in a range.
func (r Range) Len() int { return r.To - r.From }

// Split divides the fleet into parts of consecutive numbers that differ in size by one device at
// most: as many as asked for, or one for each device if there are fewer of them.
func (p *Plan) Split(parts int) []Range {
	parts = min(max(parts, 1), max(p.Devices, 1))
	ranges := make([]Range, parts)
	for i := range ranges {
		ranges[i] = Range{From: i * p.Devices / parts, To: (i + 1) * p.Devices / parts}
	}
	return ranges
}

// Length returns how long all phases take together.
func (p *Plan) Length() time.Duration {
	var sum time.Duration
	for _, ph := range p.Phases {
		sum += ph.Length
	}
	return sum
}

// PhaseAt returns which phase it is at an instant since the beginning of the first, and when that
// one began; the last if all are over, and -1 if there is none or it is before the first.
func (p *Plan) PhaseAt(at time.Duration) (index int, began time.Duration) {
	if at < 0 {
		return -1, 0
	}
	var start time.Duration
	for i, ph := range p.Phases {
		if at < start+ph.Length || i == len(p.Phases)-1 {
			return i, start
		}
		start += ph.Length
	}
	return -1, 0
}
