package main

import "time"

// The cores. On a machine with one core everything shares it.
const (
	measuredCore = 0
	driverCore   = 1
)

const (
	// disturbed is how long the machine may stall before latencies that were measured meanwhile say nothing of a server.
	disturbed = 100 * time.Millisecond
	// attempts is how often a disturbed measurement is made anew before the last one has to do.
	attempts = 2
)
