package testwait

import (
	"sync"
	"testing"
	"time"
)

// beat is the time between two looks at the clock. What is less late than that is no stall.
const beat = 5 * time.Millisecond

// Stalls knows when the machine did not run the test's process, or ran it late. A test that bounds
// how long something takes adds it to the bound: the bound stays as tight as the promise on a quiet
// machine, and a busy one does not break it. Its methods may be called concurrently.
type Stalls struct {
	mu   sync.Mutex // guards the field below
	list []stall
}

// stall is a time in which a goroutine that was to run did not.
type stall struct{ from, to time.Time }

// Watch observes the process until the test ends.
func Watch(tb testing.TB) *Stalls {
	tb.Helper()
	s := &Stalls{}
	stop := make(chan struct{}) // closed when the test ends
	var watching sync.WaitGroup
	watching.Go(func() {
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(beat):
			}
			now := time.Now()
			if due := last.Add(beat); now.Sub(due) > beat {
				s.mu.Lock()
				s.list = append(s.list, stall{due, now})
				s.mu.Unlock()
			}
			last = now
		}
	})
	tb.Cleanup(func() {
		close(stop)
		watching.Wait()
	})
	return s
}

// Between returns for how much of a time the process stalled. A stall that lasts still is not
// counted until it is over.
func (s *Stalls) Between(from, to time.Time) (sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		if x.from.Before(from) {
			x.from = from
		}
		if x.to.After(to) {
			x.to = to
		}
		sum += max(0, x.to.Sub(x.from))
	}
	return sum
}
