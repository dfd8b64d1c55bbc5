package server

import (
	"context"
	"sync"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
)

// role is what a node is at the moment. The zero role stands by.
type role struct {
	mu       sync.Mutex    // guards the fields below
	judge    *server       // nil while the node stands by, or starts
	starting bool          // a judge is being made from the configuration
	settled  chan struct{} // closed when starting ends; nil if nobody waits
}

// set makes the node a judge that is being started, a judge, or a standby.
func (r *role) set(judge *server, starting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge, r.starting = judge, starting
	if !starting && r.settled != nil {
		close(r.settled)
		r.settled = nil
	}
}

// wait returns the judge, nil for a standby, once the node is one or the other.
func (r *role) wait(ctx context.Context) (*server, error) {
	for {
		r.mu.Lock()
		judge, starting := r.judge, r.starting
		if starting && r.settled == nil {
			r.settled = make(chan struct{})
		}
		settled := r.settled
		r.mu.Unlock()
		if !starting {
			return judge, nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// keep calls do, and reports true, unless the role is no longer that of a judge, nil for a standby.
func (r *role) keep(judge *server, do func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starting || r.judge != judge {
		return false
	}
	do()
	return true
}

// reload reads the configuration again. A standby takes it for when it judges. While a judge is being started,
// it waits.
func (n *node) reload(ctx context.Context, who string) (httpapi.Reloaded, error) {
	if err := n.reloads.enter(ctx); err != nil {
		return httpapi.Reloaded{}, err
	}
	defer n.reloads.leave()
	s, err := n.role.wait(ctx)
	if err != nil {
		return httpapi.Reloaded{}, err
	}
	check := func(next *config.Config) error {
		if err := Check(next); err != nil || s == nil {
			return err
		}
		return s.look()
	}
	return n.reloads.once(who, n.live.Load(), check, func(next *config.Config) (httpapi.Reloaded, error) {
		for {
			p := newPlan(n.live.Load(), next, s == nil)
			if s != nil {
				s.apply(ctx, p)
			} else {
				p.do(func(c *config.Config) error { n.reloads.logs.set(c.Log); return nil }, "log")
			}
			if n.role.keep(s, func() { n.live.Store(p.next) }) {
				return p.done(), nil
			}
			var err error
			if s, err = n.role.wait(ctx); err != nil { // it became another one meanwhile, from what was in force before
				return p.done(), err
			}
		}
	})
}
