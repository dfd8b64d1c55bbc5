package dag

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/panjf2000/ants/v2"
)

// A Pool is a number of goroutines shared by the runs of many graphs. At most as many nodes run at
// a time as it has workers, plus one in each goroutine that has called Graph.Run, which works
// itself. So a run continues, if slower, while all workers are busy, stuck, in runs inside of a
// node of the same pool, or closed. Abandoned attempts (see ErrAbandoned) are not among these goroutines.
//
// The goroutines are those of an ants pool, which keeps idle ones for a second. How many run is counted here, because a worker of
// ants counts as busy for a moment after its task has ended, and what is submitted then would be refused, or block.
type Pool struct {
	ants    *ants.Pool
	release sync.Once // ends ants
	workers int
	done    chan struct{} // closed by the last worker after closed was set

	mu     sync.Mutex // guards the fields below
	asking list.List  // of *request, each once at most: no more than there are runs
	busy   int
	closed bool
}

// A request is that of a run for one helper.
type request struct {
	help  func()
	place *list.Element // in Pool.asking, under its mu; nil if not there
}

// StartPool returns a pool with this many workers, 1 or more. The caller closes it.
func StartPool(workers int) (*Pool, error) {
	if workers < 1 {
		return nil, fmt.Errorf("dag: a pool of %d workers, want 1 or more", workers)
	}
	p := &Pool{workers: workers, done: make(chan struct{})}
	var err error
	if p.ants, err = ants.NewPool(-1); err != nil { // no limit, so that Submit never blocks
		return nil, fmt.Errorf("dag: start pool: %w", err)
	}
	return p, nil
}

// Close lets the workers end what they do and waits for them, until ctx ends; it then returns the error of ctx, and may be called
// again to wait longer. Runs of graphs on this pool go on, each with the goroutine that it was called on. A worker may not call it.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for e := p.asking.Front(); e != nil; e = p.asking.Front() {
			p.removeLocked(e)
		}
		if p.busy == 0 {
			close(p.done)
		}
	}
	p.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.release.Do(func() { _ = p.ants.ReleaseContext(context.Background()) }) //nolint:contextcheck // all workers are idle by now, so it fails only
	return nil
}

// ask gets q a helper as soon as a worker is free. It never blocks.
func (p *Pool) ask(q *request) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	q.place = p.asking.PushBack(q)
	start := p.startLocked()
	p.mu.Unlock()
	if start {
		p.start()
	}
}

// withdraw takes q back, if no worker has come yet.
func (p *Pool) withdraw(q *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.place != nil {
		p.removeLocked(q.place)
	}
}

func (p *Pool) removeLocked(e *list.Element) *request {
	q := p.asking.Remove(e).(*request)
	q.place = nil
	return q
}

// startLocked reports whether one more worker must be started, and counts it.
func (p *Pool) startLocked() bool {
	start := p.asking.Len() > 0 && p.busy < p.workers
	if start {
		p.busy++
	}
	return start
}

// start starts a worker that is already counted.
func (p *Pool) start() {
	if p.ants.Submit(p.serve) != nil { // the pool of ants is closed only after the last worker
		p.leave()
	}
}

// serve is the loop of a worker, which helps one run after the other.
func (p *Pool) serve() {
	defer p.leave() // also when a node calls runtime.Goexit
	for q := p.next(); q != nil; q = p.next() {
		q.help()
	}
}

func (p *Pool) next() *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.asking.Front(); e != nil {
		return p.removeLocked(e)
	}
	return nil
}

// leave ends a worker, and starts another one if a run has asked since.
func (p *Pool) leave() {
	p.mu.Lock()
	p.busy--
	start := p.startLocked()
	if p.closed && p.busy == 0 {
		close(p.done)
	}
	p.mu.Unlock()
	if start {
		p.start()
	}
}
