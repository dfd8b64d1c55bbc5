package main

import (
	"os"
	"time"

	"github.com/holter-iot/holter/internal/cores"
)

// The cores. On a machine with one core everything shares it.
const (
	serverCore = 0
	clientCore = 1
)

const (
	// disturbed is how long the machine may stall before latencies that were measured meanwhile say nothing of a server.
	disturbed = 30 * time.Millisecond
	// attempts is how often a disturbed measurement is made anew before the last one has to do.
	attempts = 3
)

// meter reads clocks at the begin and the end of what is measured.
type meter struct {
	at                   time.Time
	server, client, busy time.Duration
}

// usage is what was used meanwhile. The shares are those of one core.
type usage struct {
	elapsed     time.Duration
	server      time.Duration
	serverShare float64
	otherShare  float64 // by all that is neither server nor client; the kernel's interrupts may be among it
}

func startMeter(c *child) (m meter, err error) {
	if m.server, err = c.cpu(); err != nil {
		return m, err
	}
	if m.client, err = cores.CPUTime(os.Getpid()); err != nil {
		return m, err
	}
	if m.busy, err = cores.BusyTime(); err != nil {
		return m, err
	}
	m.at = time.Now()
	return m, nil
}

func (m meter) read(c *child) (usage, error) {
	elapsed := time.Since(m.at)
	end, err := startMeter(c)
	if err != nil {
		return usage{}, err
	}
	u := usage{elapsed: elapsed, server: end.server - m.server}
	share := func(d time.Duration) float64 { return max(d.Seconds(), 0) / elapsed.Seconds() }
	u.serverShare = share(u.server)
	u.otherShare = share(end.busy - m.busy - u.server - (end.client - m.client))
	return u, nil
}
