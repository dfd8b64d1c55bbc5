package timer

import (
	"context"
	"runtime"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// watch is a shard's goroutine: it sleeps until the earliest deadline and queues what is due.
func (s *shard) watch() {
	alarm := s.engine.clock.Alarm()
	defer alarm.Stop()
	for {
		next := s.expire()
		if next != noAlarm {
			alarm.Set(s.engine.scale.instant(next))
		}
		select {
		case <-alarm.C():
		case <-s.wake:
		case <-s.engine.stop:
			return
		}
	}
}

// expire queues all that is due and returns when to look again.
func (s *shard) expire() tick {
	var batches []*batch
	for {
		batches = batches[:0]
		next, more := s.expireSome(&batches)
		if len(batches) > 0 {
			s.engine.ready.put(batches)
		} else if !more {
			return next
		}
	}
}

// expireSome takes some of what is due. When it finds nothing, it also sets the alarm, under the
// same hold of the lock, so that no earlier deadline can come in unseen.
func (s *shard) expireSome(batches *[]*batch) (next tick, more bool) {
	now := s.engine.clock.Now()
	s.mu.Lock()
	defer s.unlock()
	s.alarm = 0
	*batches, more = s.expireLocked(now, *batches)
	if s.freed > 0 {
		s.sweepLocked() // fewer cancelled timers may be too many now
	}
	if len(*batches) == 0 && !more {
		s.alarm = s.nextLocked()
	}
	return s.alarm, more
}

// task is what a worker does: a handler for all entries of a batch, or the funcs of those that no
// other worker has taken. It is the funcs of a whole batch, at once, while the workers are unlimited.
type task struct {
	batch *batch
	part  []dualmap.Original // nil: what no other worker takes
}

// feed passes what is due to the workers, and waits for them so that the shards need not.
func (e *Engine) feed() {
	defer close(e.done)
	for b := e.ready.takeBatch(); b != nil; b = e.ready.takeBatch() {
		e.pass(b)
	}
	e.gate.drain()
	_ = e.pool.ReleaseContext(context.Background()) // fails only when the context ends
}

// pass gives a batch to workers. A worker of funcs goes on with the batch as long as there are more
// in it: another one is needed only while a func keeps it.
func (e *Engine) pass(b *batch) {
	for !b.allTaken() {
		switch {
		case e.gate.unlimited(): // the pool would cost more than goroutines of their own
			rest := b.takeAll()
			e.gate.join(1)
			go e.run(task{b, rest})
			runtime.Gosched() // else there would soon be as many goroutines, and stacks, as there are funcs
		case b.group.index == funcGroup:
			e.submit(task{b, nil})
			runtime.Gosched() // to the worker, which may need no other
		default:
			e.submit(task{b, b.takeAll()})
		}
	}
}

// refusedWait is how long a task for which no worker was free waits before it is offered again.
const refusedWait = time.Millisecond

func (e *Engine) submit(t task) {
	if e.nonblocking {
		for !e.gate.tryEnter() {
			e.ready.countRefused()
			<-time.After(refusedWait)
		}
	} else {
		e.gate.enter()
	}
	if e.pool.Invoke(t) != nil { // it was preallocated, and the last worker has left the gate but is not back yet
		go e.run(t)
	}
}

// run is a worker's task.
func (e *Engine) run(t task) {
	defer e.gate.leave()
	if t.part != nil {
		e.runPart(t, make([]Expired, 0, len(t.part)))
		return
	}
	room := make([]Expired, 0, 1)
	for {
		t.part = t.batch.takeOne()
		if t.part == nil {
			return
		}
		e.runPart(t, room)
		if e.gate.over() {
			return
		}
	}
}

func (e *Engine) runPart(t task, room []Expired) {
	s, g := t.batch.shard, t.batch.group
	c := s.claim(t.batch, t.part, room)
	if g.index == funcGroup && len(c.expired) > 1 {
		e.spread(s, g, c)
	} else {
		e.callClaimed(s, g, c)
	}
}

// spread calls each of several funcs on a goroutine of its own.
func (e *Engine) spread(s *shard, g *Group, c claimed) {
	e.gate.join(len(c.expired))
	for i, x := range c.expired {
		one := claimed{expired: c.expired[i : i+1]}
		if len(c.repeating) > 0 && c.repeating[0] == x.ID.original() { // they are in the same order
			one.repeating, c.repeating = c.repeating[:1], c.repeating[1:]
		}
		go func() {
			defer e.gate.leave()
			e.callClaimed(s, g, one)
		}()
	}
}

func (e *Engine) callClaimed(s *shard, g *Group, c claimed) {
	if len(c.repeating)+len(c.kept) > 0 {
		defer func() { s.resume(g, &c, e.clock.Now()) }() // whatever the callback does
	}
	if len(c.expired) > 0 {
		e.call(g, c.expired)
	}
}

func (e *Engine) call(g *Group, expired []Expired) {
	defer func() {
		if v := recover(); v != nil {
			e.panics.Add(1)
			if e.onPanic != nil {
				e.onPanic(v)
			}
		}
	}()
	if g.index == funcGroup {
		expired[0].f()
		return
	}
	g.handler(expired)
}
