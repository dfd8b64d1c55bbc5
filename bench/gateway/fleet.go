package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/loopback"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// rest is how long connections are left alone before their memory is measured: the workers that
// handed them to holter's event loop, which gnet keeps in a pool, end after 10 to 20 s without work.
const rest = 21 * time.Second

// fleet is a server with connections to it.
type fleet struct {
	row

	process *measured.Process
	client  *loopback.Conns
	secure  []net.Conn // of TLS, instead of the client's

	messages       [][]byte // of one write, by connection
	unit           int      // what comes back for a write: answers of holter, or bytes of the echo
	got            []int    // of it since the last write, by connection
	rest           [][]byte // of an answer that is not complete, by connection
	order          []int    // in which connections take turns
	sent, answered int      // writes
	waited         time.Duration
}

func newFleet(of row, p *measured.Process, client *loopback.Conns, n int) *fleet {
	return &fleet{
		row: of, process: p, client: client, messages: make([][]byte, n), got: make([]int, n), rest: make([][]byte, n),
		order: rand.New(rand.NewPCG(1, 2)).Perm(n),
	}
}

// close closes all connections.
func (f *fleet) close() {
	f.client.Close()
	for _, c := range f.secure {
		if c != nil {
			_ = c.Close() // the server is ended next
		}
	}
}

// idle makes connections that say nothing after their greeting, and returns the memory that they take.
func (f *fleet) idle(ctx context.Context, connecting *load, quick bool) (m measured.Memory, err error) {
	if err := f.process.FillEvents(); err != nil {
		return m, err
	}
	before, err := f.process.Collect()
	if err != nil {
		return m, err
	}
	connect := f.connect
	if f.transport == overTLS {
		connect = f.connectTLS
	}
	if *connecting, err = f.metered(1, func() error { return connect(ctx) }); err != nil {
		return m, err
	}
	if f.server == serverHolter && !quick {
		if err := run.Wait(ctx, rest); err != nil {
			return m, err
		}
	}
	m, err = f.process.Collect()
	m.Heap, m.Stacks, m.Resident = m.Heap-before.Heap, m.Stacks-before.Stacks, m.Resident-before.Resident
	return m, err
}

// beat keeps the server busy for a while with so many messages in each write.
func (f *fleet) beat(ctx context.Context, batch int, length time.Duration) (load, error) {
	f.order = f.order[:min(beating, len(f.order))]
	f.say(func(i int) ([]byte, int) { return f.beats(i, batch) })
	during := func(length time.Duration) error {
		end := time.Now().Add(length)
		return f.exchange(ctx, func(now time.Time) bool { return now.Before(end) })
	}
	if err := during(min(time.Second/2, length)); err != nil { // to warm up
		return load{}, err
	}
	return f.metered(batch, func() error { return during(length) })
}

// metered measures the server while messages are exchanged.
func (f *fleet) metered(batch int, exchange func() error) (l load, err error) {
	answered := f.answered
	f.waited = 0
	m, err := measured.StartMeter(f.process.PID)
	if err != nil {
		return l, err
	}
	if err := exchange(); err != nil {
		return l, err
	}
	l.Usage, err = m.Read()
	l.n, l.waiting = (f.answered-answered)*batch, f.waited.Seconds()/l.Elapsed.Seconds()
	return l, err
}

// say sets what connection i sends in each write from now on, and how many answers holter gives.
func (f *fleet) say(message func(i int) (p []byte, answers int)) {
	for i := range f.messages {
		f.messages[i], f.unit = message(i)
	}
	if f.server == serverEcho {
		f.unit = len(f.messages[0]) // they are all equally long
	}
}

// connect makes all connections, each of which sends its greeting, and returns once all are answered.
func (f *fleet) connect(ctx context.Context) error {
	n := len(f.messages)
	for opened := 0; opened < n; {
		for f.client.Len() < n && f.client.Len()-opened < 512 {
			if err := f.client.Dial(); err != nil {
				return err
			}
		}
		count, err := f.client.Wait(ctx, 100*time.Millisecond, func(int) error { return nil })
		if err != nil {
			return err
		}
		opened += count
	}
	f.say(func(i int) ([]byte, int) { return f.hello(i), 1 })
	return f.exchange(ctx, func(time.Time) bool { return f.sent < n })
}

// connectTLS does the same with TLS, 64 connections at a time.
func (f *fleet) connectTLS(ctx context.Context) error {
	f.secure = make([]net.Conn, len(f.messages))
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} // the server is ours
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range f.secure {
		group.Go(func() (err error) {
			if f.secure[i], err = dialer.DialContext(ctx, "tcp", f.process.Addr.String()); err != nil {
				return err
			}
			if _, err = f.secure[i].Write(f.hello(i)); err != nil {
				return err
			}
			answer := make([]byte, 256)
			n, err := f.secure[i].Read(answer)
			if err == nil {
				_, _, err = f.count(answer[:n])
			}
			return err
		})
	}
	f.answered = len(f.secure)
	return group.Wait()
}

// exchange sends as long as there is more to send, and returns once all is answered. It is a closed
// loop: each answer sends the next message, on the connection whose turn it is in a random order, so
// that memory is not visited in the order in which it was allocated. It never sleeps: to wake it
// would cost the server.
func (f *fleet) exchange(ctx context.Context, more func(now time.Time) bool) error {
	window := min(1000, len(f.order)) // writes that may be on their way
	if f.client.Packets {
		window = min(64, len(f.order)) // they wait in a queue of some hundred kilobytes
	}
	for now := time.Now(); more(now) || f.answered < f.sent; {
		for more(now) && f.sent-f.answered < window {
			i := f.order[f.sent%len(f.order)]
			if err := f.client.Write(i, f.messages[i]); err != nil {
				return err
			}
			f.sent++
		}
		answered, last := f.answered, now
		if _, err := f.client.Wait(ctx, 0, f.receive); err != nil {
			return fmt.Errorf("%d of %d writes answered: %w", f.answered, f.sent, err)
		}
		if now = time.Now(); f.answered == answered {
			f.waited += now.Sub(last)
		}
	}
	return nil
}

// receive takes what a connection has received.
func (f *fleet) receive(i int) error {
	p, err := f.client.Read(i)
	if err != nil {
		return err
	}
	n := len(p)
	if f.server == serverHolter {
		if len(f.rest[i]) > 0 {
			p = append(f.rest[i], p...)
		}
		var rest []byte
		if n, rest, err = f.count(p); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		f.rest[i] = append(f.rest[i][:0], rest...)
	}
	f.got[i] += n
	f.answered += f.got[i] / f.unit
	f.got[i] %= f.unit
	return nil
}
