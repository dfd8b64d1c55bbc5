package liveness

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness/judgement"
)

// The heartbeat of a device that is online allocates nothing, is no event, and takes no lock: all locks of the registry are held while
// each device beats. Those of the timers are held by the test of them.
func TestBeatIsOneAtomicUpdate(t *testing.T) {
	r, err := New(noSink{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.AddSource(SourceConfig{Name: "edge"})
	if err != nil {
		t.Fatal(err)
	}
	listened := s.Pulse(time.Now())
	s.Watermark(0, listened)
	const devices = 1000
	sessions := make([]Session, devices)
	for i := range sessions {
		if _, err := s.Open(&sessions[i], fmt.Sprint("d", i), Hello{}, nil, listened); err != nil {
			t.Fatal(err)
		}
	}
	beat := func() (heard int) {
		listened += time.Millisecond
		for i := range sessions {
			sessions[i].Prefetch()
			if sessions[i].Beat(listened) {
				heard++
			}
		}
		return heard
	}
	if n := testing.AllocsPerRun(5, func() { beat() }); n != 0 {
		t.Errorf("%v allocations for %d heartbeats, want none", n, devices)
	}
	before := r.outbox.queued.Load()
	locks := []*sync.Mutex{&r.reform.mu, &r.mu, &r.learning.snapshot}
	for i := range r.shards {
		locks = append(locks, &r.shards[i].mu)
	}
	locks = append(locks, &s.mu, &r.learning.mu, &r.flaps.mu, &r.numbers.mu, &r.outbox.mu)
	held := make(chan int, 1) // for the one value; never closed
	func() {
		for _, mu := range locks {
			mu.Lock()
			defer mu.Unlock()
		}
		go func() { held <- beat() }()
		testwait.Until(t, "heartbeats while all locks are held", func() bool { return len(held) > 0 })
	}()
	if heard := <-held; heard != devices {
		t.Errorf("%d of %d heartbeats were heard", heard, devices)
	}
	if queued := r.outbox.queued.Load(); queued != before {
		t.Errorf("%d events came of heartbeats, want none", queued-before)
	}
	last := time.Duration(0)
	for i := range sessions {
		d := sessions[i].device
		if f, known := d.conditionLocked(); !known || f.Last < listened-judgement.HeardTick {
			t.Errorf("%s was heard at %v, want %v", d.id, f.Last, listened)
		}
		last = max(last, d.last)
	}
	if last >= listened {
		t.Errorf("a device has %v of its last heartbeat, which only its timer is to know", last)
	}
	if err := s.close(t.Context()); err != nil {
		t.Error(err)
	}
}
