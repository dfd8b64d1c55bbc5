package rivals

import "time"

// ticks calls step soon after each multiple of a period, with the time since origin. What step misses
// while it runs is left out.
func ticks(origin time.Time, period time.Duration, step func(now time.Duration)) {
	for {
		time.Sleep(period - time.Since(origin)%period)
		step(time.Since(origin))
	}
}

// batchSize is how many callbacks are passed on at a time.
const batchSize = 256

// batches are callbacks for workers, which wait in a channel of 16. It is never closed.
type batches chan []func()

func startWorkers(n int) batches {
	b := make(batches, 16)
	for range n {
		go b.work()
	}
	return b
}

// pass waits while the channel is full.
func (b batches) pass(funcs []func()) { b <- funcs }

func (b batches) work() {
	for funcs := range b {
		for _, f := range funcs {
			f()
		}
	}
}

// sharedClock is read once for 256 operations, as an event loop can do.
type sharedClock struct {
	read  func() time.Duration
	last  time.Duration // what was read last
	calls uint          // of now, since the batch began
}

// now reads the clock at the first and then at each 256th call of a batch.
func (c *sharedClock) now() time.Duration {
	if c.calls&255 == 0 {
		c.last = c.read()
	}
	c.calls++
	return c.last
}

// batch begins a batch.
func (c *sharedClock) batch() { c.calls = 0 }
