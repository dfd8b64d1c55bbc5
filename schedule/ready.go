package schedule

import "sync"

// ready is the queue of handles with a run to start. Each handle is in it at most once, so it holds
// no more than there are schedules and needs no memory of its own.
type ready struct {
	runs sync.WaitGroup // those that were taken, and have not ended

	mu          sync.Mutex // guards the fields below and the handles' behind; taken while a handle's lock is held
	some        *sync.Cond // signalled when head is set, or closed
	head, tail  *Handle
	length      int
	closed      bool
	longestEver int
}

func newReady() *ready {
	r := &ready{}
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
		r.some.Signal()
	} else {
		r.tail.behind = h
	}
	r.tail = h
	r.length++
	r.longestEver = max(r.longestEver, r.length)
}

// take waits for the first handle, and returns nil when the line is closed. The caller must see to it that runs is told the end.
func (r *ready) take() *Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.head == nil && !r.closed {
		r.some.Wait()
	}
	if r.closed {
		return nil
	}
	h := r.head
	r.head, h.behind = h.behind, nil
	r.length--
	r.runs.Add(1)
	return h
}

func (r *ready) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.head, r.tail, r.length = true, nil, nil, 0
	r.some.Signal()
}

// lengths returns how many wait, and how many did at most.
func (r *ready) lengths() (now, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.length, r.longestEver
}
