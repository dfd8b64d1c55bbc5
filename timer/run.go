package timer

import (
	"errors"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"
)

// task is what a worker does: the funcs of one slot of a batch, or a handler for the whole of it.
type task struct {
	batch *batch
	slots []uint32
	wg    *sync.WaitGroup
}

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
	for more := true; more; {
		now := s.engine.clock.Now()
		s.mu.Lock()
		s.alarm = 0
		batches, more = s.expireLocked(now, batches[:0])
		if len(batches) == 0 && !more {
			next, _ := s.nextLocked()
			s.alarm = next
			s.mu.Unlock()
			return next
		}
		s.mu.Unlock()
		s.engine.ready.put(batches)
		more = true // look once more, for what became due meanwhile
	}
	return noAlarm
}

// feed passes what is due to the pool, and waits for the pool so that the shards need not.
func (e *Engine) feed() {
	var running sync.WaitGroup
	for {
		batches := e.ready.take()
		if len(batches) == 0 {
			break
		}
		for _, b := range batches {
			e.submit(b, &running)
		}
	}
	running.Wait()
	e.pool.Release()
	close(e.done)
}

func (e *Engine) submit(b *batch, running *sync.WaitGroup) {
	step := len(b.slots)
	if b.group.index == funcGroup {
		step = 1
	}
	for i := 0; i < len(b.slots); i += step {
		running.Add(1)
		t := task{batch: b, slots: b.slots[i : i+step], wg: running}
		for {
			err := e.pool.Invoke(t)
			if err == nil {
				break
			}
			if !errors.Is(err, ants.ErrPoolOverload) { // the pool was released by somebody else: run it here
				e.run(t)
				break
			}
			e.ready.countRefused()
			time.Sleep(time.Millisecond)
		}
	}
}

// expiredBuffer is what a handler is given a part of.
type expiredBuffer [batchLen]Expired

// run is a worker's task.
func (e *Engine) run(t task) {
	defer t.wg.Done()
	buffer := e.buffers.Get().(*expiredBuffer)
	expired, releases := t.batch.shard.claim(t.batch, t.slots, buffer[:0])
	for _, release := range releases {
		release()
	}
	if len(expired) > 0 {
		e.call(t.batch.group, expired)
		for i := range expired {
			if expired[i].repeats {
				t.batch.shard.resume(expired[i].ID, e.clock.Now())
			}
		}
		clear(expired)
	}
	e.buffers.Put(buffer)
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
	if g.handler == nil {
		expired[0].f()
		return
	}
	g.handler(expired)
}
