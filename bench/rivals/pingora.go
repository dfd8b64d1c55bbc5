package rivals

import (
	"slices"
	"sync"
	"time"
)

// pingoraContender is a stand-in, written for this comparison, of pingora-timeout of Cloudflare's proxy
// Pingora (github.com/cloudflare/pingora, pingora-timeout/src/timer.rs and fast_timeout.rs). Deadlines
// are rounded up to 10 ms, and all timers of one instant share a notification, which keeps a list of
// who waits for it under a lock of its own. An ordered map leads from instants to notifications; a
// clock looks each 10 ms which have come. A cancel leaves the list of its notification, which stays in the
// map until its instant. There is no renewal.
//
// Pingora has a map for each thread, so that threads do not wait for each other's locks; here one
// goroutine arms, so there is one map, a sorted slice, which has at most one entry for each 10 ms.
// Pingora cuts off deadlines to milliseconds before it rounds them, and its clock sleeps for 10 ms each
// time; here the former is left out, so that no timer is early, and the clock keeps to multiples of
// 10 ms, so that they are less late.
func pingoraContender() contender {
	return contender{
		name:    "pingora-timeout (stand-in)",
		version: "ours",
		runs:    "workers",
		renews:  "drop + register",
		lacks:   "a renewal; deadlines finer than 10 ms; on-time expiry while callbacks are slow",
		open: func(s setup) *rival {
			p, origin, due := &pingoraTimers{}, time.Now(), startWorkers(s.workers)
			go ticks(origin, wheelTick, func(now time.Duration) { p.step(now, due.pass) })
			return hold(s, library[*element[pingoraWaiter]]{
				arm: func(_ int, d time.Duration, f func()) *element[pingoraWaiter] {
					return p.arm(time.Since(origin)+d, f)
				},
				cancel: pingoraDrop,
			})
		},
	}
}

// pingoraWaiter is a timer.
type pingoraWaiter struct {
	of *pingoraNotify
	f  func()
}

// pingoraNotify is shared by the timers of one instant.
type pingoraNotify struct {
	mu   sync.Mutex // guards ring; taken after that of the timers
	ring element[pingoraWaiter]
}

type pingoraTimers struct {
	mu       sync.RWMutex    // guards the fields below
	at       []time.Duration // ascending
	notifies []*pingoraNotify
}

// arm starts a timer. Whoever holds the lock finds no notification in the map that has been sent.
func (p *pingoraTimers) arm(at time.Duration, f func()) *element[pingoraWaiter] {
	at = (at + wheelTick - 1).Truncate(wheelTick)
	p.mu.RLock()
	if i, ok := slices.BinarySearch(p.at, at); ok {
		defer p.mu.RUnlock()
		return p.notifies[i].wait(f)
	}
	p.mu.RUnlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	i, ok := slices.BinarySearch(p.at, at)
	if !ok {
		n := &pingoraNotify{}
		n.ring.clear()
		p.at, p.notifies = slices.Insert(p.at, i, at), slices.Insert(p.notifies, i, n)
	}
	return p.notifies[i].wait(f)
}

func (n *pingoraNotify) wait(f func()) *element[pingoraWaiter] {
	e := &element[pingoraWaiter]{value: pingoraWaiter{n, f}}
	n.mu.Lock()
	n.ring.push(e)
	n.mu.Unlock()
	return e
}

func pingoraDrop(e *element[pingoraWaiter]) {
	n := e.value.of
	n.mu.Lock()
	e.remove()
	n.mu.Unlock()
}

// step takes what is due out of the map, and passes on the callbacks without a lock.
func (p *pingoraTimers) step(now time.Duration, pass func([]func())) {
	p.mu.Lock()
	n, _ := slices.BinarySearch(p.at, now+1)
	due := slices.Clone(p.notifies[:n])
	p.at, p.notifies = slices.Delete(p.at, 0, n), slices.Delete(p.notifies, 0, n)
	p.mu.Unlock()
	for _, n := range due {
		for funcs := n.take(); len(funcs) > 0; funcs = n.take() {
			pass(funcs)
		}
	}
}

// take takes at most a batch of callbacks.
func (n *pingoraNotify) take() (funcs []func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for e := n.ring.first(); e != nil && len(funcs) < batchSize; e = n.ring.first() {
		e.remove()
		funcs = append(funcs, e.value.f)
	}
	return funcs
}
