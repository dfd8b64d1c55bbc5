package schedule

import "sync"

// ready is the queue of handles with a run to start. Each handle is in it at most once, so it holds
// no more than there are schedules and needs no memory of its own.
type ready struct {
	runs sync.WaitGroup // those that were taken, and have not ended

	mu          sync.Mutex // guards the fields below and the handles' behind; taken while a handle's lock is held
	some        *sync.Cond // signalled when take may have something to return
	head, tail  *Handle
	length      int
	closed      bool
	longestEver int
	workers     int // runs that may go on at a time, or Unlimited
	taken       int // runs that go on
}

func newReady(workers int) *ready {
	r := &ready{workers: workers}
	r.some = sync.NewCond(&r.mu)
	return r
}

// put appends a handle, or does nothing once the line is closed.
func (r *ready) put(h *Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.head == nil {
		r.head = h
		r.signalLocked()
	} else {
		r.tail.behind = h
	}
	r.tail = h
	r.length++
	r.longestEver = max(r.longestEver, r.length)
}

// takeHandle waits for the first handle, and for a worker, and returns nil when the line is closed. The caller must call done at the
// end of its run.
func (r *ready) takeHandle() *Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.closed && (r.head == nil || r.fullLocked()) {
		r.some.Wait()
	}
	if r.closed {
		return nil
	}
	h := r.head
	r.head, h.behind = h.behind, nil
	r.length--
	r.taken++
	r.runs.Add(1)
	return h
}

// done ends a run that was taken.
func (r *ready) done() {
	r.mu.Lock()
	r.taken--
	r.signalLocked()
	r.mu.Unlock()
	r.runs.Done()
}

// resize changes the number of workers.
func (r *ready) resize(workers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = workers
	r.signalLocked()
}

func (r *ready) fullLocked() bool { return r.workers != Unlimited && r.taken >= r.workers }

// signalLocked wakes take if it has something to return.
func (r *ready) signalLocked() {
	if r.head != nil && !r.fullLocked() {
		r.some.Signal()
	}
}

func (r *ready) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.head, r.tail, r.length = true, nil, nil, 0
	r.some.Signal()
}

// stats returns how many wait, how many did at most, and the number of workers.
func (r *ready) stats() (now, most, workers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.length, r.longestEver, r.workers
}
