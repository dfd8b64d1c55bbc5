//go:build linux

package attack

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// way is one way to attack: so many workers open connections, at most so many a second altogether, and do something with each.
type way struct {
	name, text string
	listener   string // of the server
	workers    int
	perSecond  int // 0: as fast as they go
	once       once
}

// once does something with a connection.
type once func(ctx context.Context, p *player, c net.Conn, turn int) error

const (
	churners = 100    // workers of a way that is bounded by its rate
	places   = 12_000 // places beside those of the established devices
)

// attacks returns all ways, in the order in which they are played.
func attacks() []way {
	headers := []string{
		"PROXY TCP4 999.1.1.1 127.0.0.1 1 2\r\n", "PROXY " + strings.Repeat("x", 200), "GET / HTTP/1.1\r\n\r\n",
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + strings.Repeat("y", 600), "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x01\x00",
	}
	var tokens []string
	for i := range 100 {
		tokens = append(tokens, fmt.Sprintf("HELLO "+prefix+" wrong\n", i))
	}
	return []way{
		{"tls-served", "1,000 TLS handshakes a second, each followed by the end", "tls", churners, 1000, secure(0)},
		{"tls-refused", "1,000 TLS handshakes a second without the certificate that is asked for", "certified", churners, 1000, secure(1)},
		{"loris", "10,000 connections that send a byte every 2 s", "line", 10_000, 0, drip("HELLO ")},
		{"tls-loris", "10,000 connections that send a byte of a TLS handshake every 2 s", "tls", 10_000, 0, drip("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")},
		{"garbage", "random bytes on 50 connections, as fast as they go", "line", 50, 0, pour(16 << 10)},
		{"udp-garbage", "random datagrams, as fast as they go", "udp", 4, 0, pour(200)},
		{"udp-pings", "heartbeats of 50 devices by datagrams, as fast as they go", "udp", 50, 0, datagrams},
		{"reconnects", "10,000 reconnects a second of one id, with the right token", "line", churners, 10_000, say("HELLO attacker " + token + "\n")},
		{"resets", "10,000 connections a second that end with a reset in the middle of a word", "line", churners, 10_000, reset},
		{"flood", "half as many connections again as there are places", "line", places * 3 / 2, 0, drip("H")},
		{"silent", "half as many connections again as there are places, which say nothing and come back when they are closed", "line", places * 3 / 2, 0, listen},
		{"pings", "heartbeats on 50 connections, as fast as they go", "line", 50, 0, pings},
		{"tokens", "5,000 wrong tokens a second, for established ids", "line", churners, 5000, say(tokens...)},
		{"proxy", "5,000 broken PROXY headers a second from a trusted network", "proxied", churners, 5000, say(headers...)},
	}
}

// order says how to attack.
type order struct {
	Name   string
	To     string // an address
	Length time.Duration
	Scale  float64
}

// outcome is what an attacker did.
type outcome struct {
	Done   int64 // connections, handshakes or writes that came to their end
	Failed int64 // those that did not, most of them because they were refused
}

// attacker prepares an attack, which begins with the command Work.
func attacker(ctx context.Context, args []string) (s measured.Subject, err error) {
	p := &player{}
	if err := json.Unmarshal([]byte(args[0]), &p.order); err != nil {
		return s, err
	}
	i := slices.IndexFunc(attacks(), func(w way) bool { return w.name == p.Name })
	s.Answer = func(string) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, p.Length)
		defer cancel()
		p.play(ctx, attacks()[i])
		return outcome{p.done.Load(), p.failed.Load()}, nil
	}
	return s, nil
}

// player is an attacker.
type player struct {
	order

	turns, done, failed atomic.Int64
}

// play attacks until ctx ends.
func (p *player) play(ctx context.Context, w way) {
	limit := rate.NewLimiter(rate.Inf, 0)
	if w.perSecond > 0 {
		n := scaled(w.perSecond, p.Scale)
		limit = rate.NewLimiter(rate.Limit(n), max(n/50, 1))
	}
	var all sync.WaitGroup
	for i := range scaled(w.workers, p.Scale) {
		all.Go(func() {
			_ = run.Wait(ctx, time.Duration(i)*100*time.Microsecond) // its error is that of ctx
			for limit.Wait(ctx) == nil && ctx.Err() == nil {
				turn := int(p.turns.Add(1))
				c, err := p.dial(ctx, w.listener, turn)
				if err == nil {
					err = w.once(ctx, p, c, turn)
					_ = c.Close()
				} else {
					_ = run.Wait(ctx, 100*time.Millisecond)
				}
				p.count(ctx, err)
			}
		})
	}
	all.Wait()
}

// dial connects, over TCP from one of many addresses, so that their ports last. The connection ends with ctx, and with a reset.
func (p *player) dial(ctx context.Context, listener string, turn int) (net.Conn, error) {
	if listener == "udp" {
		return new(net.Dialer).DialContext(ctx, "udp", p.To)
	}
	from := net.IPv4(127, 0, 1, 1+byte(turn%200))
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: -1, LocalAddr: &net.TCPAddr{IP: from}}
	c, err := d.DialContext(ctx, "tcp", p.To)
	if err != nil {
		return nil, err
	}
	end, _ := ctx.Deadline()
	return c, errors.Join(c.(*net.TCPConn).SetLinger(0), c.SetDeadline(end))
}

// count counts a turn, unless the end of the attack cut it off.
func (p *player) count(ctx context.Context, err error) {
	end, _ := ctx.Deadline()
	switch {
	case ctx.Err() != nil || !time.Now().Before(end):
	case err != nil:
		p.failed.Add(1)
	default:
		p.done.Add(1)
	}
}

// secure makes a handshake without a certificate of its own, and reads so many bytes: TLS 1.3 refuses a client after the handshake.
func secure(bytes int) once {
	return func(ctx context.Context, _ *player, c net.Conn, _ int) error {
		t := tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) // the server is ours
		err := t.HandshakeContext(ctx)
		if err == nil && bytes > 0 {
			_, err = t.Read(make([]byte, bytes))
		}
		return err
	}
}

// drip sends a byte every 2 s until the server closes the connection.
func drip(first string) once {
	return func(ctx context.Context, _ *player, c net.Conn, _ int) error {
		for i := 0; ; i++ {
			b := []byte{'x'}
			if i < len(first) {
				b[0] = first[i]
			}
			if _, err := c.Write(b); err != nil {
				return err
			}
			if err := run.Wait(ctx, 2*time.Second); err != nil {
				return err
			}
		}
	}
}

// say sends one of some texts and waits for the answer.
func say(texts ...string) once {
	return func(_ context.Context, _ *player, c net.Conn, turn int) error {
		if _, err := io.WriteString(c, texts[turn%len(texts)]); err != nil {
			return err
		}
		answer := make([]byte, 256)
		n, err := c.Read(answer)
		if err == nil && strings.HasPrefix(string(answer[:n]), "ERR") {
			err = errors.New("refused")
		}
		return err
	}
}

// reset sends the beginning of a word.
func reset(_ context.Context, _ *player, c net.Conn, _ int) error {
	_, err := io.WriteString(c, "HEL")
	return err
}

// listen says nothing until the server closes the connection.
func listen(_ context.Context, _ *player, c net.Conn, _ int) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// pings says hello, and then writes heartbeats until ctx or the connection ends. Answers are read and dropped.
func pings(ctx context.Context, p *player, c net.Conn, turn int) error {
	if _, err := fmt.Fprintf(c, "HELLO attacker-%d %s ttl=1h\n", turn, token); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	block := []byte(strings.Repeat("PING\n", 1000))
	for ctx.Err() == nil {
		if _, err := c.Write(block); err != nil {
			return err
		}
		p.count(ctx, nil)
	}
	return ctx.Err()
}

// datagrams writes heartbeats of one device until ctx ends.
func datagrams(ctx context.Context, p *player, c net.Conn, turn int) error {
	heartbeat := fmt.Appendf(nil, "HELLO attacker-%d %s ttl=1h\n", turn, token)
	for ctx.Err() == nil {
		_, err := c.Write(heartbeat)
		p.count(ctx, err)
	}
	return ctx.Err()
}

// pour writes random bytes in blocks until ctx or the connection ends.
func pour(size int) once {
	return func(ctx context.Context, p *player, c net.Conn, _ int) error {
		block := make([]byte, 64<<10)
		_, _ = rand.Read(block) // it cannot fail
		for i := 0; ctx.Err() == nil; i++ {
			at := i * 61 % (len(block) - size)
			if _, err := c.Write(block[at : at+size]); err != nil {
				return err
			}
			p.count(ctx, nil)
		}
		return ctx.Err()
	}
}
