package chaos

import "time"

// Rules are what the server is told about time, and what is tolerated of it.
type Rules struct {
	// Timeout, CloseGrace and Interval are the devices' policy.
	Timeout, CloseGrace, Interval time.Duration
	// Allowance is the least listening time that a device gets after the server
	// was deaf, and MaxGap the most that the listening clock advances at once.
	Allowance, MaxGap time.Duration
	// Checkpoint is the time between two checkpoints.
	Checkpoint time.Duration
	// Epsilon is how late the server may do what is due: a verdict, accepting a
	// connection, a checkpoint. It excuses no early verdict on a device that is
	// heard.
	Epsilon time.Duration
}

// slack is what reading two clocks of one machine may differ by.
const slack = 10 * time.Millisecond

// allowance is the listening time that each device gets after a break.
func (r *Rules) allowance() time.Duration { return max(r.Interval, r.Allowance) }

// lag is how long after a gap between two signs of life a verdict on that gap may
// be told.
func (r *Rules) lag() time.Duration { return min(r.Epsilon, r.Timeout/4) }

// lossWindow is how long before the end of a life the sign of life came that may
// be unknown to the next one and matter. A life goes on from the last
// checkpoint, with what was heard and what was listened up to then; a device
// that was well had been heard an interval before that at the latest. What
// matters is only a silence that seems longer by that than it was.
func (r *Rules) lossWindow() time.Duration { return r.Interval + r.lag() }
