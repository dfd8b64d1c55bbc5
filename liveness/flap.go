package liveness

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// FlappingConfig defines when a device is flapping: when it went offline or came back Threshold
// times within Window. It stops when there were no more than half as many.
type FlappingConfig struct {
	Threshold int           // default: 5, at most 64
	Window    time.Duration // default: 10 min
}

const maxThreshold = 64

func (c FlappingConfig) withDefaults() FlappingConfig {
	c.Threshold = cmp.Or(c.Threshold, 5)
	c.Window = cmp.Or(c.Window, 10*time.Minute)
	return c
}

func (c FlappingConfig) validate() error {
	if c.Threshold < 2 || c.Threshold > maxThreshold || c.Window < 0 || c.Window > judgement.MaxSpan {
		return errors.New("want a Threshold from 2 to 64 and a Window up to a year")
	}
	return nil
}

// changes are the latest instants at which a device went offline or came back, in steady time.
type changes struct {
	at       []int64 // oldest first; at most Threshold
	flapping bool
}

// add records a change.
func (c *changes) add(at int64, keep int) {
	if over := len(c.at) + 1 - keep; over > 0 {
		c.at = append(c.at[:0], c.at[over:]...)
	}
	c.at = append(c.at, at)
}

// since returns how many changes there were after an instant.
func (c *changes) since(at int64) int {
	n := 0
	for _, t := range c.at {
		if t > at {
			n++
		}
	}
	return n
}

// flappers are the devices that are flapping.
type flappers struct {
	mu      sync.Mutex // guards handles; taken after a shard's
	handles map[uint32]struct{}
}

func (f *flappers) set(handle uint32, flapping bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !flapping {
		dropKept(&f.handles, handle)
		return
	}
	if f.handles == nil {
		f.handles = make(map[uint32]struct{})
	}
	f.handles[handle] = struct{}{}
}

func (f *flappers) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.handles)
}

func (f *flappers) all() []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	handles := make([]uint32, 0, len(f.handles))
	for h := range f.handles {
		handles = append(handles, h)
	}
	return handles
}

// flapLocked reports that a device begins to flap.
func (r *Registry) flapLocked(sh *deviceShard, d *device, now time.Duration) {
	at, c := r.clock.steady(), r.rules.Load().flapping
	if !d.changes.flapping && d.changes.since(at-int64(c.Window)) >= c.Threshold {
		d.changes.flapping = true
		r.flaps.set(d.handle, true)
		r.emitLocked(sh, d, DeviceFlappingStarted, "", now)
	}
}

// watchFlapping ends, each second, the flapping of the devices that have calmed down, until ctx is
// done.
func (r *Registry) watchFlapping(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, handle := range r.flaps.all() {
				r.endFlapping(handle)
			}
		case <-ctx.Done():
			return
		}
	}
}

// endFlapping ends the flapping of a device that changed seldom enough of late.
func (r *Registry) endFlapping(handle uint32) {
	sh, d := r.lock(handle)
	defer sh.mu.Unlock()
	if d == nil || d.marks&forgotten != 0 || d.changes == nil || !d.changes.flapping || r.outbox.busy() {
		return // another device may have its place
	}
	if _, known := d.conditionLocked(); !known {
		return // the next second will do: the event must say when the device was heard last
	}
	if c := r.rules.Load().flapping; d.changes.since(r.clock.steady()-int64(c.Window)) > c.Threshold/2 {
		return
	}
	d.changes.flapping = false
	r.flaps.set(handle, false)
	r.emitLocked(sh, d, DeviceFlappingStopped, "", d.source.Now())
}
