package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/fleet"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

const (
	warmup = time.Second / 2
	// rest is how long connections are left alone before their memory is measured: the workers that
	// handed them to holter's event loop, which gnet keeps in a pool, end after 10 to 20 s without work.
	rest = 21 * time.Second
	// interval is that between planned heartbeats: none while anything is measured.
	interval = time.Hour
)

// result is how a server took heartbeats, or connections.
type result struct {
	measured.Usage

	n      int             // heartbeats answered, or connections
	memory measured.Memory // of all connections together
}

// rate returns how many there were per second, perCPU per second of the server's CPU time, and cost
// how many microseconds of that each took.
func (r result) rate() float64   { return float64(r.n) / r.Elapsed.Seconds() }
func (r result) perCPU() float64 { return float64(r.n) / r.CPU.Seconds() }
func (r result) cost() float64   { return 1e6 / r.perCPU() }

// each returns a part of the memory for each connection.
func (r result) each(bytes int) float64 { return float64(bytes) / float64(r.n) }

// play connects n devices, and returns once all are welcomed. They play until stop is called.
func play(ctx context.Context, of row, p *measured.Process, n int) (d *drive.Drive, stop func() error, err error) {
	devices := &plan.Plan{
		Protocol: of.protocol, Devices: n, Targets: []string{p.Addr.String()}, Interval: interval, Ramp: 1e6,
	}
	fleet.Fill(devices)
	return fleet.Play(ctx, drive.Config{Plan: devices, Closed: of.batch > 0, Pipeline: max(of.batch, 1)})
}

// beats keeps a server busy for a while: each answer sends the next heartbeats.
func (b *bench) beats(ctx context.Context, of row, p *measured.Process) (r result, err error) {
	d, stop, err := play(ctx, of, p, b.connections)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := run.Wait(ctx, min(warmup, b.Length)); err != nil {
		return r, err
	}
	before := d.Stats()
	r.Usage, err = measured.During(func() error { return run.Wait(ctx, b.Length) }, p.PID)
	after := d.Stats()
	r.n = int(after.Answered - before.Answered)
	if len(after.Errors) > 0 {
		err = errors.Join(err, fmt.Errorf("errors of the devices: %v", after.Errors))
	}
	return r, err
}

// idleMemory makes connections that say nothing after their greeting, and measures the memory that
// they take.
func (b *bench) idleMemory(ctx context.Context, of row, p *measured.Process) (r result, err error) {
	before, err := p.Collect()
	if err != nil {
		return r, err
	}
	var stop func() error
	r.Usage, err = measured.During(func() (err error) {
		if strings.HasSuffix(of.protocol, overTLS) {
			r.n = b.idleTLS
			stop, err = connectTLS(ctx, p, r.n)
		} else {
			r.n = b.idle
			_, stop, err = play(ctx, of, p, r.n)
		}
		return err
	}, p.PID)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if of.server == serverHolter && !b.Quick {
		if err := run.Wait(ctx, rest); err != nil {
			return r, err
		}
	}
	after, err := p.Collect()
	r.memory = measured.Memory{
		Heap: after.Heap - before.Heap, Stacks: after.Stacks - before.Stacks, Resident: after.Resident - before.Resident,
	}
	return r, err
}

// connectTLS makes n connections of TLS, 64 at a time, each of which greets and is answered. The load
// generator has no TLS.
func connectTLS(ctx context.Context, p *measured.Process, n int) (stop func() error, err error) {
	conns := make([]net.Conn, n)
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} // the server is ours
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range conns {
		group.Go(func() (err error) {
			if conns[i], err = dialer.DialContext(ctx, "tcp", p.Addr.String()); err != nil {
				return err
			}
			if _, err = conns[i].Write(line.Client{}.AppendHello(nil, fmt.Sprintf("dev-%07d", i), "", interval)); err != nil {
				return err
			}
			_, err = conns[i].Read(make([]byte, 256))
			return err
		})
	}
	stop = func() error {
		for _, c := range conns {
			_ = c.Close() // the server is ended next
		}
		return nil
	}
	return stop, group.Wait()
}
