package liveness_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

// Two sources, of which one may not be configured any more, are stalled, cut off, restarted and
// retired in any order. No device is judged before its timeout of heard silence, and every device
// that falls silent is judged within what gaps may cost.

const (
	boundsTimeout  = 20 * unit
	boundsInterval = 5 * unit
	boundsGrace    = boundsInterval + 10*unit
	boundsRetire   = 40 * time.Second
)

type boundsOp struct {
	kind   string
	device int
	n      int
}

func boundsOps() *rapid.Generator[[]boundsOp] {
	kinds := []string{"listen", "listen", "listen", "beat", "beat", "stall", "stall", "cut", "restart", "restart", "drop", "retire", "checkpoint"}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) boundsOp {
		return boundsOp{
			kind:   rapid.SampledFrom(kinds).Draw(t, "kind"),
			device: rapid.IntRange(0, 3).Draw(t, "device"),
			n:      rapid.IntRange(1, 30).Draw(t, "n"),
		}
	}), 1, 60)
}

// boundsRun is a registry with one source that is always there, and one that may be dropped.
type boundsRun struct {
	*testing.T

	shelf    *shelf
	memory   *heapMemory
	registry *liveness.Registry
	sources  []*liveness.Source // those that were added
	dropped  bool
	stop     func()
}

func (b *boundsRun) begin(past []keep.Block) error {
	var err error
	b.registry, err = liveness.New(b.shelf, liveness.Config{
		Policy:      liveness.Policy{Timeout: boundsTimeout, Interval: boundsInterval},
		RetireAfter: boundsRetire,
		Flapping:    liveness.FlappingConfig{Window: 1, Threshold: 64},
	})
	if err != nil {
		return err
	}
	b.sources = nil
	for _, name := range []string{"edge:a", "edge:b"} {
		if name == "edge:b" && b.dropped {
			continue
		}
		s, err := b.registry.AddSource(liveness.SourceConfig{Name: name, MaxGap: unit, ReconnectGrace: 10 * unit})
		if err != nil {
			return err
		}
		b.sources = append(b.sources, s)
	}
	b.memory = new(heapMemory)
	b.registry.Keeper().UseMemory(b.memory)
	b.recall(past)
	err = b.shelf.restore(b.registry)
	b.stop = start(b.T, b.registry) // also after an error, so that the timers end
	b.pulse()
	b.shelf.checkpoint(b.registry) // as a store does
	return err
}

// recall adds a memory's content to the shelf.
func (b *boundsRun) recall(past []keep.Block) {
	b.shelf.mu.Lock()
	defer b.shelf.mu.Unlock()
	c, whole := keep.Recall(past)
	for name, rec := range b.shelf.sources {
		if rec.Blank = len(past) == 0; whole {
			c.Source(&rec)
		}
		b.shelf.sources[name] = rec
	}
	for id, rec := range b.shelf.devices {
		rec.Heard, rec.HeardBy = c.Heard(rec.Num)
		b.shelf.devices[id] = rec
	}
}

func (b *boundsRun) pulse() {
	for _, s := range b.sources {
		s.Watermark(0, s.Pulse(time.Now()))
	}
	synctest.Wait()
}

func (b *boundsRun) listen(d time.Duration) {
	for ; d > 0; d -= step {
		time.Sleep(step)
		b.pulse()
	}
}

// source returns the source that hears a device.
func (b *boundsRun) source(device int) *liveness.Source {
	return b.sources[min(device/2, len(b.sources)-1)]
}

func (b *boundsRun) apply(o boundsOp) error {
	switch o.kind {
	case "listen":
		b.listen(time.Duration(o.n) * unit)
	case "beat":
		s := b.source(o.device)
		_, err := s.Apply(fmt.Sprint("d", o.device), liveness.Signal{At: s.Time(time.Now())})
		return err
	case "stall":
		time.Sleep(unit + time.Duration(o.n)*step)
		b.pulse()
	case "cut":
		b.source(o.device).Deafen(time.Now())
		time.Sleep(time.Duration(o.n) * unit)
		b.pulse()
	case "checkpoint":
		synctest.Wait()
		b.shelf.checkpoint(b.registry)
	case "retire":
		_ = b.registry.Operator().Retire("edge:b") // or it is there
	case "drop", "restart":
		synctest.Wait()
		past := b.memory.photo()
		if o.n%5 == 0 { // the power is lost, too
			past = nil
		}
		b.stop()
		time.Sleep(time.Duration(o.n) * unit)
		b.dropped = b.dropped || o.kind == "drop"
		return b.begin(past)
	}
	return nil
}

// judged checks the verdicts.
func (b *boundsRun) judged() error {
	events, err := b.shelf.Read(nil, 0, 1<<20)
	if err != nil {
		return err
	}
	// The clock of a retired source takes steps of up to 5 s.
	const most = boundsTimeout + 3*boundsGrace + unit + 5*time.Second
	for _, e := range events {
		if e.Type == liveness.DeviceOffline && (e.Reason != liveness.Silence || e.HeardSilence < boundsTimeout || e.HeardSilence > most) {
			return fmt.Errorf("%s: %v after %v of heard silence, want silence after %v to %v", e.ID(), e.Reason, e.HeardSilence, boundsTimeout, most)
		}
	}
	b.listen(boundsRetire + boundsTimeout + 3*boundsGrace + 10*time.Second)
	views, _ := b.registry.List(nil, 0, 100)
	for _, v := range views {
		if v.State != liveness.Offline {
			return fmt.Errorf("%s is never judged: %+v", v.ID, v)
		}
	}
	return nil
}

func TestBounds(t *testing.T) {
	fewer(t, 40)
	rapid.Check(t, func(rt *rapid.T) {
		ops := boundsOps().Draw(rt, "ops")
		var err error
		synctest.Test(t, func(t *testing.T) {
			b := &boundsRun{T: t, shelf: newShelf(t)}
			if err = b.begin(nil); err != nil {
				return
			}
			for _, o := range ops {
				if err = b.apply(o); err != nil {
					break
				}
			}
			if err == nil {
				err = b.judged()
			}
			b.stop()
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}
