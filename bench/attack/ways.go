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

// order says how to attack.
type order struct {
	target

	Name   string
	Length time.Duration
	Scale  float64
}

// args returns the arguments of the process that carries the order out.
func (o order) args(benchmark string) ([]string, error) {
	text, err := json.Marshal(o)
	return []string{benchmark, string(text)}, err
}

// outcome is what an attacker did.
type outcome struct {
	Done   int64 // connections, handshakes or writes that came to their end
	Failed int64 // those that did not, most of them because they were refused
}

// way is one way to attack.
type way struct {
	name, text string
	play       func(p *player, ctx context.Context)
}

// attacks returns all ways, in the order in which they are played.
func attacks() []way {
	return []way{
		{"tls-served", "1,000 TLS handshakes a second, each followed by the end", (*player).tlsServed},
		{"tls-refused", "1,000 TLS handshakes a second without the certificate that is asked for", (*player).tlsRefused},
		{"loris", "10,000 connections that send a byte every 2 s", (*player).loris},
		{"tls-loris", "10,000 connections that send a byte of a TLS handshake every 2 s", (*player).tlsLoris},
		{"garbage", "random bytes on 50 connections, as fast as they go", (*player).garbage},
		{"udp-garbage", "random datagrams, as fast as they go", (*player).udpGarbage},
		{"reconnects", "10,000 reconnects a second of one id, with the right token", (*player).reconnects},
		{"resets", "10,000 connections a second that end with a reset in the middle of a word", (*player).resets},
		{"flood", "half as many connections again as there are places", (*player).flood},
		{"tokens", "5,000 wrong tokens a second, for established ids", (*player).tokens},
		{"proxy", "5,000 broken PROXY headers a second from a trusted network", (*player).proxyGarbage},
	}
}

const (
	lorisConnections = 10_000
	places           = 12_000 // places beside those of the established devices
)

// attacker prepares an attack, which begins with the command Work.
func attacker(ctx context.Context, args []string) (s measured.Subject, err error) {
	p := &player{}
	if len(args) != 1 {
		return s, errors.New("want one order")
	}
	if err := json.Unmarshal([]byte(args[0]), &p.order); err != nil {
		return s, err
	}
	i := slices.IndexFunc(attacks(), func(w way) bool { return w.name == p.Name })
	if i < 0 {
		return s, fmt.Errorf("no attack %q", p.Name)
	}
	s.Answer = func(string) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, p.Length)
		defer cancel()
		attacks()[i].play(p, ctx)
		return outcome{p.done.Load(), p.failed.Load()}, nil
	}
	return s, nil
}

// player is an attacker.
type player struct {
	order

	turns, done, failed atomic.Int64
}

func (p *player) scaled(n int) int { return scaled(n, p.Scale) }

// dial connects from one of many addresses, so that their ports last. The connection ends with ctx, and with a reset.
func (p *player) dial(ctx context.Context, to string) (*net.TCPConn, error) {
	from := net.IPv4(127, 0, 1, 1+byte(p.turns.Add(1)%200))
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: -1, LocalAddr: &net.TCPAddr{IP: from}}
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	tcp := c.(*net.TCPConn)
	end, _ := ctx.Deadline()
	return tcp, errors.Join(tcp.SetLinger(0), tcp.SetDeadline(end))
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

// churn does something with new connections, at most so many times a second.
func (p *player) churn(ctx context.Context, perSecond int, to string, once func(ctx context.Context, c *net.TCPConn) error) {
	const workers = 100
	perSecond = p.scaled(perSecond)
	limit := rate.NewLimiter(rate.Limit(perSecond), max(perSecond/50, 1))
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for limit.Wait(ctx) == nil {
				c, err := p.dial(ctx, to)
				if err == nil {
					err = once(ctx, c)
					_ = c.Close()
				}
				p.count(ctx, err)
			}
		})
	}
	all.Wait()
}

// hold keeps so many connections, which send a byte every now and then, and opens a new one for each that is closed.
func (p *player) hold(ctx context.Context, n int, to, first string) {
	var all sync.WaitGroup
	for i := range p.scaled(n) {
		all.Go(func() {
			if run.Wait(ctx, time.Duration(i)*100*time.Microsecond) != nil {
				return
			}
			for ctx.Err() == nil {
				c, err := p.dial(ctx, to)
				if err == nil {
					err = drip(ctx, c, first)
					_ = c.Close()
				}
				p.count(ctx, err)
				_ = run.Wait(ctx, 100*time.Millisecond) // its error is that of ctx
			}
		})
	}
	all.Wait()
}

// drip sends a byte every 2 s until the server closes the connection.
func drip(ctx context.Context, c *net.TCPConn, first string) error {
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

func (p *player) loris(ctx context.Context) { p.hold(ctx, lorisConnections, p.Line, "HELLO ") }

func (p *player) tlsLoris(ctx context.Context) {
	p.hold(ctx, lorisConnections, p.TLS, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
}

func (p *player) flood(ctx context.Context) { p.hold(ctx, places*3/2, p.Line, "H") }

// secure makes a handshake without a certificate of its own.
func secure(ctx context.Context, c *net.TCPConn) (*tls.Conn, error) {
	t := tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) // the server is ours
	return t, t.HandshakeContext(ctx)
}

func (p *player) tlsServed(ctx context.Context) {
	p.churn(ctx, 1000, p.TLS, func(ctx context.Context, c *net.TCPConn) error {
		_, err := secure(ctx, c)
		return err
	})
}

// tlsRefused waits for the refusal, which TLS 1.3 sends after the handshake.
func (p *player) tlsRefused(ctx context.Context) {
	p.churn(ctx, 1000, p.Certified, func(ctx context.Context, c *net.TCPConn) error {
		t, err := secure(ctx, c)
		if err == nil {
			_, err = t.Read(make([]byte, 1))
		}
		return err
	})
}

// say sends a text and waits for the answer.
func say(c *net.TCPConn, text string) error {
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	answer := make([]byte, 256)
	n, err := c.Read(answer)
	if err == nil && strings.HasPrefix(string(answer[:n]), "ERR") {
		err = errors.New("refused")
	}
	return err
}

func (p *player) reconnects(ctx context.Context) {
	p.churn(ctx, 10_000, p.Line, func(_ context.Context, c *net.TCPConn) error { return say(c, "HELLO attacker "+token+"\n") })
}

func (p *player) resets(ctx context.Context) {
	p.churn(ctx, 10_000, p.Line, func(_ context.Context, c *net.TCPConn) error {
		_, err := io.WriteString(c, "HEL")
		return err
	})
}

func (p *player) tokens(ctx context.Context) {
	p.churn(ctx, 5000, p.Line, func(_ context.Context, c *net.TCPConn) error {
		return say(c, fmt.Sprintf("HELLO "+prefix+" wrong\n", p.turns.Load()%100))
	})
}

func (p *player) proxyGarbage(ctx context.Context) {
	headers := []string{
		"PROXY TCP4 999.1.1.1 127.0.0.1 1 2\r\n", "PROXY " + strings.Repeat("x", 200), "GET / HTTP/1.1\r\n\r\n",
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + strings.Repeat("y", 600), "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x01\x00",
	}
	p.churn(ctx, 5000, p.Proxied, func(_ context.Context, c *net.TCPConn) error {
		return say(c, headers[p.turns.Load()%int64(len(headers))])
	})
}

// pour writes random bytes in blocks until ctx or the connection ends.
func (p *player) pour(ctx context.Context, c net.Conn, size int) {
	block := make([]byte, 64<<10)
	_, _ = rand.Read(block) // it cannot fail
	for i := 0; ctx.Err() == nil; i++ {
		at := i * 61 % (len(block) - size)
		_, err := c.Write(block[at : at+size])
		p.count(ctx, err)
		if err != nil {
			return
		}
	}
}

func (p *player) garbage(ctx context.Context) {
	var all sync.WaitGroup
	for range p.scaled(50) {
		all.Go(func() {
			for ctx.Err() == nil {
				if c, err := p.dial(ctx, p.Line); err == nil {
					p.pour(ctx, c, 16<<10)
					_ = c.Close()
				}
			}
		})
	}
	all.Wait()
}

func (p *player) udpGarbage(ctx context.Context) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if c, err := (&net.Dialer{}).DialContext(ctx, "udp", p.UDP); err == nil {
				defer c.Close()
				for ctx.Err() == nil {
					p.pour(ctx, c, 200)
				}
			}
		})
	}
	all.Wait()
}
