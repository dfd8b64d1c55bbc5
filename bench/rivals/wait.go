package rivals

import "time"

// await waits until a channel is closed or receives, and gives up when progress has not changed for as long as patience. A machine that
// stalls does not use up the patience.
func await[T any](c <-chan T, progress func() int64, patience time.Duration) (value T, ok bool) {
	last, idle := progress(), time.Duration(0)
	for idle < patience {
		select {
		case value := <-c:
			return value, true
		case <-time.After(time.Second):
		}
		if now := progress(); now != last {
			last, idle = now, 0
		} else {
			idle += time.Second
		}
	}
	return value, false
}

// stall is the longest time that the process was kept from running, as far as a tick of 50 ms can tell.
type stall struct {
	stop   chan struct{} // closed by end
	result chan time.Duration
}

func watchStall() *stall {
	s := &stall{stop: make(chan struct{}), result: make(chan time.Duration, 1)}
	go s.watch()
	return s
}

func (s *stall) watch() {
	const tick = 50 * time.Millisecond
	ticker := time.NewTicker(tick) // it allocates nothing, which would be counted
	defer ticker.Stop()
	var longest time.Duration
	for last := time.Now(); ; {
		select {
		case <-s.stop:
			s.result <- longest
			return
		case <-ticker.C:
			now := time.Now()
			longest, last = max(longest, now.Sub(last)-tick), now
		}
	}
}

func (s *stall) end() time.Duration {
	close(s.stop)
	return <-s.result
}
