//go:build linux

package replays

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// player plays a plan against a server.
type player struct {
	*plan

	server *server
	began  time.Time
	ended  atomic.Bool  // the server is stopped, so that devices may fail
	behind atomic.Int64 // by how much something happened later than planned, at most
}

// play plays the plan until ctx ends. The error is that of the first device that failed.
func (p *player) play(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for i := range p.devices {
		all.Go(func() error {
			if err := p.device(ctx, i); err != nil && ctx.Err() == nil && !p.ended.Load() {
				return fmt.Errorf("%s: %w", p.devices[i], err)
			}
			return nil
		})
	}
	all.Go(func() error { return p.stop(ctx) })
	return all.Wait()
}

// stop stops the server when the plan says so.
func (p *player) stop(ctx context.Context) error {
	for _, s := range p.stalls {
		for _, do := range []struct {
			at     time.Duration
			signal syscall.Signal
		}{{s.at, syscall.SIGSTOP}, {s.at + s.length, syscall.SIGCONT}} {
			if !p.wait(ctx, do.at) {
				_ = syscall.Kill(p.server.PID(), syscall.SIGCONT)
				return nil
			}
			if err := syscall.Kill(p.server.PID(), do.signal); err != nil {
				return fmt.Errorf("stop the server: %w", err)
			}
		}
	}
	return nil
}

// wait waits until an instant of the plan, and reports false if ctx ends before.
func (p *player) wait(ctx context.Context, at time.Duration) bool {
	select {
	case <-time.After(time.Until(p.began.Add(at))):
	case <-ctx.Done():
		return false
	}
	late := int64(time.Since(p.began) - at)
	for {
		worst := p.behind.Load()
		if late <= worst || p.behind.CompareAndSwap(worst, late) {
			return true
		}
	}
}

// device plays the life of a device, and keeps its connection until ctx ends.
func (p *player) device(ctx context.Context, i int) error {
	id := p.devices[i]
	transport, _, _ := strings.Cut(id, "-")
	var do func(context.Context, kind) error
	switch transport {
	case web:
		w := caller{url: p.server.API + "/v1/beat/" + url.PathEscape(id)}
		defer w.calls.Wait()
		do = w.do
	case udp:
		c, err := new(net.Dialer).DialContext(ctx, "udp", p.server.udp)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		do = func(context.Context, kind) error {
			_, err := fmt.Fprintf(c, "HELLO %s\n", id)
			return err
		}
	default:
		l := line{id: id, address: p.server.Devices}
		defer l.close()
		do = l.do
	}
	for _, a := range p.acts[i] {
		if !p.wait(ctx, a.at) {
			return nil
		}
		if err := do(ctx, a.kind); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// line is a device that speaks the line protocol over TCP. A server ends the connection of a device that it
// judges: the device notices when it has something to say.
type line struct {
	id, address string
	conn        net.Conn      // nil if there is none
	gone        chan struct{} // closed when conn has ended
}

func (l *line) do(ctx context.Context, k kind) error {
	switch k {
	case open:
		return l.open(ctx)
	case beat:
		if l.ended() {
			return l.open(ctx)
		}
		return l.say("PING")
	case bye:
		if l.ended() {
			if err := l.open(ctx); err != nil {
				return err
			}
		}
		return l.say("BYE")
	case closes:
		l.close()
	}
	return nil
}

// open opens a connection, and closes the one before.
func (l *line) open(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", l.address)
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() { // until the connection ends
		_, _ = io.Copy(io.Discard, c)
		close(gone)
	}()
	before := l.conn
	l.conn, l.gone = c, gone
	err = l.say("HELLO " + l.id)
	if before != nil {
		_ = before.Close()
	}
	return err
}

func (l *line) ended() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

func (l *line) say(text string) error {
	_, err := io.WriteString(l.conn, text+"\n")
	return err
}

func (l *line) close() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// caller is a device that sends heartbeats by HTTP. One that is not answered holds up none of the next.
type caller struct {
	url   string
	calls sync.WaitGroup
}

func (c *caller) do(ctx context.Context, _ kind) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, nil)
	if err != nil {
		return err
	}
	c.calls.Go(func() {
		if resp, err := http.DefaultClient.Do(req); err == nil { // what is lost shows in the verdicts
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
	return nil
}
