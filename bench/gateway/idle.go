package main

import (
	"context"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// idleConnections is how many connections are held: near to the usual limit of 20,000 files.
const idleConnections = 18_000

// settling is how long connections are left alone before their memory is measured, if they were handed over: the workers that did it,
// which gnet keeps in a pool, end after 10 to 20 s without work.
const settling = 21 * time.Second

// idleResult is what connections cost that say nothing.
type idleResult struct {
	measured.Usage

	connections            int
	heap, stacks, resident float64 // bytes for each connection
	connected              time.Duration
}

// rate returns how many connections were made, greeted and answered per second.
func (r idleResult) rate() float64 { return float64(r.connections) / r.connected.Seconds() }

// user returns the memory of the program, bytes for each connection.
func (r idleResult) user() float64 { return r.heap + r.stacks }

// measureIdle measures the rate of connecting and the memory of connections that were greeted.
func (b *bench) measureIdle(ctx context.Context, server string) error {
	if !b.wanted("idle", server) {
		return nil
	}
	var env []string
	heap, profile := b.profile("idle", server, "heap")
	if profile {
		env = []string{"GODEBUG=memprofilerate=1"}
	}
	return b.with(ctx, server, env, func(ctx context.Context, s session) error {
		settle := time.Duration(0)
		if server == serverHolter || server == serverGnetEnroll {
			settle = settling
		}
		r, err := holdIdle(ctx, s, idleConnections, settle, func() (time.Duration, error) {
			return s.client.connect(ctx, idleConnections, inLines(greeting(server, "10m")))
		})
		if err != nil {
			return err
		}
		if profile {
			if err := s.child.ProfileHeap(heap); err != nil {
				return err
			}
		}
		b.idle.add(server, r)
		b.progress("%-8s %-11s %8.0f connections/s; heap %.0f, stacks %.0f, resident %.0f bytes each", "idle", server, r.rate(), r.heap,
			r.stacks, r.resident)
		return nil
	})
}

// holdIdle makes connections that have greeted, and weighs what that left behind.
func holdIdle(ctx context.Context, s session, connections int, settle time.Duration, connect func() (time.Duration, error)) (r idleResult, err error) {
	r.connections = connections
	if err := s.child.FillEvents(); err != nil {
		return r, err
	}
	before, err := s.child.Collect()
	if err != nil {
		return r, err
	}
	m, err := measured.StartMeter(s.child.PID)
	if err != nil {
		return r, err
	}
	if r.connected, err = connect(); err != nil {
		return r, err
	}
	if r.Usage, err = m.Read(); err != nil {
		return r, err
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	after, err := s.child.Collect()
	if err != nil {
		return r, err
	}
	r.heap = float64(after.Heap-before.Heap) / float64(connections)
	r.stacks = float64(after.Stacks-before.Stacks) / float64(connections)
	r.resident = float64(after.Resident-before.Resident) / float64(connections)
	return r, nil
}
