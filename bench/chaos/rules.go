package chaos

import (
	"strings"
	"time"
)

// The server runs with its defaults, as far as they matter here.
const (
	maxGap     = time.Second // most that the listening clock advances at once
	checkpoint = 5 * time.Second

	defaultCloseGrace = 10 * time.Second
	reconnectGrace    = 10 * time.Second // more than an interval
	maxReconnectGrace = 5 * time.Minute
	// afterlife is for how long a server that is followed by another may answer heartbeats of which
	// the other one does not know.
	afterlife = 3 * time.Second
	// graces is how many reconnect graces a device has at most since its last heartbeat.
	graces = 3
)

const (
	// slack is what reading two clocks of one machine may differ by.
	slack = 10 * time.Millisecond
	// gapLoss is how much listening time a break may cost beside its own length.
	gapLoss = time.Second
	// recovery is how soon after a trouble the server must be as it was.
	recovery = 3 * time.Second
)

// Rules are what the devices announce, and what is tolerated of the server.
type Rules struct {
	// TTLs are the timeouts that devices announce, each by an equal share. Devices with the last
	// one beat so rarely that none of their heartbeats may be lost.
	TTLs []time.Duration
	// Epsilon is how late a verdict may come, or a connection be accepted. It excuses no early
	// verdict on a device that is heard.
	Epsilon time.Duration
}

// set reads timeouts with commas between.
func (r *Rules) set(text string) error {
	r.TTLs = nil
	for word := range strings.SplitSeq(text, ",") {
		ttl, err := time.ParseDuration(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		r.TTLs = append(r.TTLs, ttl)
	}
	return nil
}

// Policy is what follows from an announced timeout by the server's defaults.
type Policy struct {
	Timeout, CloseGrace time.Duration
	// Grace is the listening time that a device has to come back after a restart.
	Grace   time.Duration
	Epsilon time.Duration
}

func (r *Rules) of(ttl time.Duration) *Policy {
	return &Policy{
		Timeout: ttl, CloseGrace: min(defaultCloseGrace, ttl/2),
		Grace: min(ttl/3+reconnectGrace, maxReconnectGrace), Epsilon: r.Epsilon,
	}
}

// lag returns how long after a gap between two signs of life a verdict on that gap may come.
func (p *Policy) lag() time.Duration { return min(p.Epsilon, p.Timeout/4) }
