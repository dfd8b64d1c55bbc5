package timer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/holter-iot/holter/dualmap"
)

// watch is a shard's goroutine: it sleeps until the earliest deadline and queues what is due.
func (s *shard) watch() {
	alarm := s.engine.clock.Alarm()
	defer alarm.Stop()
	for {
		next := s.expire()
		if next != noAlarm {
			alarm.Set(instant(next))
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
	defer s.mu.Unlock()
	s.alarm = 0
	*batches, more = s.expireLocked(now, *batches)
	if len(*batches) == 0 && !more {
		s.alarm = s.nextLocked()
	}
	return s.alarm, more
}

// task is what a worker does: the func of one entry of a batch, or a handler for all of them.
type task struct {
	batch *batch
	part  []dualmap.Original
	wg    *sync.WaitGroup
}

// feed passes what is due to the pool, and waits for the pool so that the shards need not.
func (e *Engine) feed() {
	defer close(e.done)
	var running sync.WaitGroup
	for b := e.ready.take(); b != nil; b = e.ready.take() {
		step := len(b.entries)
		if b.group.index == funcGroup {
			step = 1
		}
		for i := 0; i < len(b.entries); i += step {
			running.Add(1)
			e.submit(task{batch: b, part: b.entries[i : i+step : i+step], wg: &running})
		}
	}
	running.Wait()
	_ = e.pool.ReleaseContext(context.Background()) // fails only when the context ends
}

// refusedWait is how long a task that the pool refused waits before it is offered again.
const refusedWait = time.Millisecond

func (e *Engine) submit(t task) {
	for {
		err := e.pool.Invoke(t)
		if err == nil {
			return
		}
		if !errors.Is(err, ants.ErrPoolOverload) { // the pool was closed, and nobody but feed can do that
			e.run(t)
			return
		}
		e.ready.countRefused()
		<-time.After(refusedWait)
	}
}

// run is a worker's task.
func (e *Engine) run(t task) {
	defer t.wg.Done()
	s, g := t.batch.shard, t.batch.group
	c := s.claim(t.batch, t.part)
	for _, release := range c.releases {
		release()
	}
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
