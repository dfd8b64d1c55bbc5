package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/mqtt/packet"
)

// idle is what clients cost that say no more than they must.
type idle struct {
	measured.Usage // while they ping; none if they do not

	clients  int
	resident int // bytes that they cost in all
	settled  int // the same after a collection, where a broker has one
	pings    int
}

// perPing returns the microseconds of CPU that a ping took.
func (r idle) perPing() float64 {
	if r.pings == 0 {
		return math.NaN()
	}
	return float64(r.CPU.Nanoseconds()) / 1000 / float64(r.pings)
}

// costs are clients that are measured.
type costs struct {
	clients string // what rows call them
	listen  string // what the broker is told
	of      func(b *bench, ctx context.Context, p *measured.Process, r *idle) (stop func(), err error)
}

func allCosts() []costs {
	return []costs{
		{"3.1.1", plain, pinging(packet.V311)},
		{"5", plain, pinging(packet.V5)},
		{"5 on TLS", secure, (*bench).secured},
	}
}

// idleRow names clients of a broker.
func idleRow(broker string, c costs) string { return broker + ", " + c.clients }

// idle measures what clients of a broker cost.
func (b *bench) idle(ctx context.Context, broker string) error {
	for _, c := range allCosts() {
		r, err := b.cost(ctx, broker, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.clients, err)
		}
		row := idleRow(broker, c)
		b.idled[row] = append(b.idled[row], r)
		b.Progress("  %s: %d B each, %d after a collection", row, r.resident/r.clients, r.settled/r.clients)
	}
	return nil
}

func (b *bench) cost(ctx context.Context, broker string, c costs) (r idle, err error) {
	p, err := measured.Start(ctx, measured.Alone, b.Name(), broker, b.Dir, c.listen)
	if err != nil {
		return r, err
	}
	defer p.Stop()
	empty, err := p.Collect()
	if err != nil {
		return r, err
	}
	stop, err := c.of(b, ctx, p, &r)
	if err != nil {
		return r, err
	}
	defer stop()
	full, err := p.Collect()
	r.resident, r.settled = r.resident-empty.Resident, full.Resident-empty.Resident
	return r, err
}

// pinging returns what connects clients of a version, each of which pings once a second.
func pinging(v packet.Version) func(*bench, context.Context, *measured.Process, *idle) (func(), error) {
	return func(b *bench, ctx context.Context, p *measured.Process, r *idle) (func(), error) {
		r.clients = b.idling
		clients, err := newPingers(ctx, p.Addr, r.clients, r.clients, v)
		if err != nil {
			return nil, err
		}
		r.resident, err = measured.Resident(p.PID)
		if err == nil {
			_, err = clients.ping(ctx, min(warmup, b.Length))
		}
		if err == nil {
			r.Usage, err = measured.During(func() error {
				got, err := clients.ping(ctx, b.Length)
				r.pings = got.sent
				return err
			}, p.PID)
		}
		if clients.lost > 0 {
			err = errors.Join(err, fmt.Errorf("%d clients were cut off", clients.lost))
		}
		return clients.close, err
	}
}

// secured connects clients on TLS, 32 at a time, which do not ping.
func (b *bench) secured(ctx context.Context, p *measured.Process, r *idle) (stop func(), err error) {
	conns := make([]net.Conn, b.idlingTLS)
	r.clients = len(conns)
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} // the server is ours
	group, dialing := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	k := kind{version: packet.V5, name: "secured"}
	for i := range conns {
		group.Go(func() (err error) {
			if conns[i], err = dialer.DialContext(dialing, "tcp", p.Addr.String()); err != nil {
				return err
			}
			if _, err = conns[i].Write(k.greeting(i)); err != nil {
				return err
			}
			_, err = conns[i].Read(make([]byte, 256))
			return err
		})
	}
	stop = func() {
		for _, c := range conns {
			_ = c.Close() // the server is ended next
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	r.resident, err = measured.Resident(p.PID)
	return stop, err
}

func (b *bench) reportIdle() string {
	var rows []string
	for _, c := range allCosts() {
		for _, broker := range brokers() {
			rows = append(rows, idleRow(broker, c))
		}
	}
	each := func(title string, of func(idle) int) figures.Column[idle] {
		return figures.Col(title, 0, func(r idle) float64 { return float64(of(r)) / float64(r.clients) })
	}
	table := figures.Table("broker, clients", rows, b.idled,
		figures.Count("clients", func(r idle) int { return r.clients }),
		each("resident, B each", func(r idle) int { return r.resident }), each("after a collection", func(r idle) int { return r.settled }),
		figures.Col("pings/s", 0, func(r idle) float64 { return float64(r.pings) / r.Elapsed.Seconds() }),
		figures.Col("µs of CPU per PINGREQ", 2, idle.perPing),
		figures.Percent("busy", func(r idle) float64 { return r.Share }), figures.Percent("generator", func(r idle) float64 { return r.Driver }),
		figures.Percent("others", func(r idle) float64 { return r.Others }))
	if table == "" {
		return ""
	}
	return "\n### Idle clients\n\nResident memory once all are connected, less what was there before the first; and, for programs of Go, after a " +
		"collection and `debug.FreeOSMemory`. Holter has device, session and timer for each. Then each client pings once a second, evenly spread.\n\n" + table
}
