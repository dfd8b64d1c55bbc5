package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// faultsEvery is the time between two rounds of orders.
const faultsEvery = 50 * time.Millisecond

// Device is the truth about a device.
type Device struct {
	drive.Journal

	ID  string
	TTL time.Duration // as it announces it
	// Steps are what it was ordered to do and did, in order. A device without a connection does
	// nothing that the server could notice: it was Silent.
	Steps []plan.Truth
}

// fleet plays the devices with one timeout, and orders some, chosen by chance, to fall silent, to
// end their connections or to say goodbye, and to come back.
type fleet struct {
	player

	plan   *plan.Plan
	policy *Policy
	truths []plan.Truth  // what its devices did so far; of the goroutine that calls devices
	from   time.Time     // what the times of orders count from
	end    time.Duration // a device that would come back later is gone for good

	mu     sync.Mutex // guards the fields below
	chance *rand.Rand
	free   []time.Duration // by device: when it may be chosen again; 0: at once
	done   int             // orders
}

// play gives orders until ctx is done. Some devices are silent from the beginning on, and each of
// the others has its turn about once in six timeouts.
func (f *fleet) play(ctx context.Context) error {
	if err := f.some(1+len(f.free)/50, f.die); err != nil {
		return err
	}
	perRound := float64(len(f.free)) * float64(faultsEvery) / float64(6*f.policy.Timeout)
	for due := 0.0; run.Wait(ctx, faultsEvery) == nil && time.Since(f.from) < f.end; due -= float64(int(due)) {
		due += perRound
		if err := f.some(int(due), f.any); err != nil {
			return err
		}
	}
	return nil
}

// last makes some devices send a heartbeat at once and then fall silent.
func (f *fleet) last() error {
	return f.some(2+len(f.free)/20, func(device int, now time.Duration) error {
		return f.order(drive.Order{Device: device, Beat: true, Step: plan.Step{Kind: plan.Silent, At: now}}, f.policy.Timeout)
	})
}

// some chooses devices by chance, and gives those an order that are free.
func (f *fleet) some(n int, do func(device int, now time.Duration) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for now := time.Since(f.from); n > 0; n-- {
		device := f.chance.IntN(len(f.free))
		if f.free[device] > now {
			continue
		}
		f.done++
		if err := do(device, now); err != nil {
			return err
		}
	}
	return nil
}

// die makes a device fall silent for good.
func (f *fleet) die(device int, now time.Duration) error {
	f.free[device] = never
	return f.give(drive.Order{Device: device, Step: plan.Step{Kind: plan.Silent, At: now}})
}

// any makes a device do something, one in twelve for good.
func (f *fleet) any(device int, now time.Duration) error {
	kinds := []plan.Kind{plan.Silent, plan.Silent, plan.Crash, plan.Close, plan.Reset, plan.Bye}
	o := drive.Order{Device: device, Step: plan.Step{Kind: kinds[f.chance.IntN(len(kinds))]}}
	o.At = now + time.Duration(f.chance.Int64N(int64(faultsEvery)))
	switch {
	case f.chance.IntN(12) == 0:
		f.free[device] = never
		return f.give(o)
	case o.Kind == plan.Close || o.Kind == plan.Reset:
		return f.order(o, f.policy.CloseGrace)
	default:
		return f.order(o, f.policy.Timeout)
	}
}

// order lets a device come back, unless the end comes first: not so late that it is judged, just
// about, or later. limit is when it is.
func (f *fleet) order(o drive.Order, limit time.Duration) error {
	away := (0.1 + 3*f.chance.Float64()*f.chance.Float64()) * float64(limit)
	f.free[o.Device] = never
	if back := o.At + time.Duration(away); back <= f.end {
		o.Back, f.free[o.Device] = back, back+f.policy.Timeout/2
	}
	return f.give(o)
}

// ownAddresses are the source addresses of the devices of the fleet with a number, one for each.
func ownAddresses(fleet, devices int) []netip.Addr {
	list := make([]netip.Addr, devices)
	for n := range list {
		list[n] = netip.AddrFrom4([4]byte{127, byte(10 + fleet), byte(n >> 8), byte(n)})
	}
	return list
}

// devices returns the truth about all devices. led is where a balancer has led their connections; nil if there is none.
func (f *fleet) devices(led routes) ([]Device, error) {
	p, err := f.played()
	if err != nil {
		return nil, err
	}
	f.truths = append(f.truths, p.Truths...)
	count := len(p.Journals)
	all, steps, unwelcomed := make([]Device, count), stepsOf(f.truths, count), greetings(f.truths, count)
	for n, j := range p.Journals {
		j.Busy = append(j.Busy, unwelcomed[n]...)
		slices.Sort(j.Busy)
		if led != nil {
			if j.Targets, err = led.targets(f.plan.Sources[n], &j); err != nil {
				return nil, fmt.Errorf("%s: %w", f.plan.DeviceID(n), err)
			}
		}
		all[n] = Device{Journal: j, ID: f.plan.DeviceID(n), TTL: f.plan.Timeout, Steps: steps[n]}
	}
	return all, nil
}

// greetings returns the greetings of each of n devices that were not welcomed, be it that the device
// gave up or that the server was killed before it answered: it perhaps heard them.
func greetings(truths []plan.Truth, n int) [][]int64 {
	all := make([][]int64, n)
	for _, t := range truths {
		if t.Kind == plan.Lost && t.Back.IsZero() && !t.Greeted.IsZero() {
			all[t.Device] = append(all[t.Device], t.Greeted.UnixNano())
		}
	}
	return all
}

// stepsOf returns the truth about each of n devices, whose instants end up in order.
func stepsOf(truths []plan.Truth, n int) [][]plan.Truth {
	all := make([][]plan.Truth, n)
	for _, t := range truths {
		switch {
		case t.Kind == plan.Lost && t.Back.IsZero() && t.Cause == drive.CauseUnanswered:
			t.Kind = plan.Reset // it gave up, and went to another node
		case t.Kind == plan.Lost, !t.Back.IsZero(): // not on purpose, or told a second time
			continue
		case !t.Connected || t.Kind == plan.Crash:
			t.Kind = plan.Silent
		}
		all[t.Device] = append(all[t.Device], t)
	}
	return all
}
