package gateway_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// follower is a device of the line protocol that does as it is told: it sends three heartbeats in
// each timeout.
type follower struct {
	told  []string     // only after it has ended
	heard atomic.Int32 // how much of that there is
	quit  chan struct{}
}

// follow runs a follower until it is told to quit.
func (f *follower) follow(t *testing.T, c net.Conn, id string, interval, first time.Duration) {
	t.Helper()
	in := bufio.NewReader(c)
	if _, err := fmt.Fprintf(c, "HELLO %s ttl=%v\n", id, 3*interval); err != nil {
		t.Error(err)
		return
	}
	for next := time.Now().Add(first); ; {
		_ = c.SetReadDeadline(next)
		text, err := in.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) && text == "" {
			if _, err := io.WriteString(c, "PING\n"); err != nil {
				t.Error(err)
				return
			}
			next = time.Now().Add(interval)
			continue
		}
		if err != nil {
			select {
			case <-f.quit:
			default:
				t.Errorf("%s: %v", id, err)
			}
			return
		}
		if ttl, ok := strings.CutPrefix(strings.TrimSpace(text), "TTL "); ok {
			timeout, err := time.ParseDuration(ttl + "s")
			if err != nil {
				t.Error(err)
			}
			f.told = append(f.told, ttl)
			f.heard.Add(1)
			interval = timeout / 3
			next = time.Now().Add(interval)
		}
	}
}

// Devices that follow what they are told are told to slow down, and later that they need not any
// more; nobody is judged wrongly, and a device with a configured policy is left alone.
func TestPace(t *testing.T) {
	const devices, interval = 100, time.Second
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "fixed", Match: "fixed-*", Policy: liveness.Policy{Timeout: 3 * time.Second}}}}
	r := startRig(t, fleet, gateway.Config{MaxBeatRate: 110}) // it is on the way from 100/s to 66/s
	gateway.SoonCalm(r.gateway, 2*time.Second)
	var running sync.WaitGroup
	defer running.Wait()
	var all []*follower
	var conns []net.Conn
	for i := range devices {
		f, d := &follower{quit: make(chan struct{})}, r.dial()
		all, conns = append(all, f), append(conns, d.conn)
		id := fmt.Sprintf("d-%d", i)
		if i%10 == 9 {
			id = "fixed-" + id
		}
		running.Go(func() { f.follow(t, d.conn, id, interval, interval*time.Duration(i+1)/devices) })
	}
	end := func(from, to int) {
		for i := from; i < to; i++ {
			close(all[i].quit)
			_, _ = io.WriteString(conns[i], "BYE\n")
			_ = conns[i].Close()
		}
	}
	stretched := func(want time.Duration, times int32, from, to int) func() bool {
		return func() bool {
			for i := from; i < to; i++ {
				if i%10 != 9 && (r.device(fmt.Sprintf("d-%d", i)).Policy.Timeout != want || all[i].heard.Load() < times) {
					return false
				}
			}
			return true
		}
	}
	testwait.Until(t, "the fleet is slowed down", func() bool { return r.gateway.Stats().PaceFactor == 1.5 })
	testwait.Until(t, "all were told", stretched(4500*time.Millisecond, 1, 0, devices))
	if v := r.device("fixed-d-9"); v.Policy.Timeout != 3*time.Second || v.Policy.Interval != time.Second || v.Seq != 1 {
		t.Errorf("the device with a policy of its own is %+v", v)
	}
	end(0, 50)
	testwait.Until(t, "there is no need any more", func() bool { return r.gateway.Stats().PaceFactor == 1 })
	testwait.Until(t, "all were told", stretched(3*time.Second, 2, 50, devices))
	end(50, devices)
	running.Wait()
	for i, f := range all {
		want := "[4.5 3]"
		switch {
		case i%10 == 9:
			want = "[]"
		case i < 50:
			want = "[4.5]"
		}
		if got := fmt.Sprint(f.told); got != want {
			t.Errorf("device %d was told %v, want %v", i, got, want)
		}
	}
	events, err := r.log.Read(nil, 0, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == liveness.DeviceOffline && e.Reason != liveness.Bye {
			t.Errorf("%+v", e)
		}
	}
}

// A device that beats much too often sends a burst of heartbeats, and pauses.
const (
	burst      = 20
	burstPause = 50 * time.Millisecond
)

// A terminal is told by its parameter of the interval of heartbeats. It keeps that when it comes
// back, and so does its policy.
func TestPaceOfATerminal(t *testing.T) {
	t.Parallel()
	const phone = "13800000000"
	r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 24 * time.Second, Interval: 2 * time.Second}}, gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{jt808.Protocol{}}}}, MaxBeatRate: 2,
	})
	var client jt808.Client
	d := r.dial()
	d.say(string(client.AppendHello(nil, phone, "", 0)))
	d.answer(codec.Welcome)
	var raw []byte
	for raw == nil { // much more often than twice a second
		var beats []byte
		for range burst {
			beats = client.AppendBeat(beats, phone, 7)
		}
		d.say(string(beats))
		for range burst {
			if answer := d.any(); bytes.HasPrefix(answer, []byte{0x7e, 0x81, 0x03}) {
				raw = answer
				d.answer(codec.Heard)
			}
		}
		<-time.After(burstPause)
	}
	if want := []byte{1, 0, 0, 0, 1, 4, 0, 0, 0, 16}; !bytes.Contains(raw, want) { // eight times two seconds
		t.Errorf("the request is %x, want %x in it", raw, want)
	}
	id := r.events(1)[0].Subject
	check := func(what string) {
		t.Helper()
		if p := r.device(id).Policy; p.Timeout != 192*time.Second || p.Interval != 16*time.Second {
			t.Errorf("%s: the policy is %+v", what, p)
		}
	}
	check("told")
	_ = d.conn.Close()
	d = r.dial()
	d.say(string(client.AppendHello(nil, phone, "", 0)))
	d.answer(codec.Welcome)
	check("back")
	d.say(string(client.AppendBeat(nil, phone, 8)))
	d.answer(codec.Heard) // it is not told again
	check("heard")
}

// A terminal that was told an interval under a policy that has changed since is not judged by the
// new one before it was told that, and was heard again.
func TestPaceAfterThePolicyChanged(t *testing.T) {
	const phone = "13800000000"
	tests := []struct {
		name            string
		told, meanwhile time.Duration // timeouts; each interval is a twelfth
	}{
		{"a little", 100 * time.Second, 144 * time.Second}, // six times the new one
		{"much", 480 * time.Second, 480 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 24 * time.Second, Interval: 2 * time.Second}}, gateway.Config{
				Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{jt808.Protocol{}}}},
			})
			source := r.gateway.Source()
			told := liveness.Hello{Announced: liveness.Policy{Timeout: tt.told, Interval: tt.told / 12}}
			if _, err := source.Open(new(liveness.Session), phone, told, nil, source.Time(time.Now())); err != nil {
				t.Fatal(err)
			}
			check := func(what string, timeout time.Duration) {
				t.Helper()
				if p := r.device(phone).Policy; p.Timeout != timeout || p.Interval != timeout/12 {
					t.Errorf("%s: the policy is %+v, want a timeout of %v", what, p, timeout)
				}
			}
			var client jt808.Client
			d := r.dial()
			d.say(string(client.AppendHello(nil, phone, "", 0)))
			d.answer(codec.Welcome)
			check("back", tt.meanwhile)
			d.say(string(client.AppendBeat(nil, phone, 7)))
			if raw, want := d.any(), []byte{1, 0, 0, 0, 1, 4, 0, 0, 0, 2}; !bytes.Contains(raw, want) {
				t.Errorf("the request is %x, want %x in it", raw, want)
			}
			d.answer(codec.Heard)
			check("told", tt.meanwhile)
			for range 2 {
				d.say(string(client.AppendBeat(nil, phone, 8)))
				d.answer(codec.Heard)
				check("heard", 24*time.Second)
			}
		})
	}
}

// any reads an answer to a terminal, of whatever kind.
func (d *device) any() []byte {
	d.t.Helper()
	var c jt808.Client
	for size := 1; ; size++ {
		raw, err := d.in.Peek(size)
		if err != nil {
			d.t.Fatal(err)
		}
		if _, n := c.Next(raw); n > 0 {
			raw = append([]byte(nil), raw[:n]...)
			_, _ = d.in.Discard(n)
			return raw
		}
	}
}

// What a device announces itself counts from then on, unless it repeats what it was told.
func TestPaceAndTTL(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{MaxBeatRate: 2})
	d := r.dial()
	d.say("HELLO a ttl=6s\n")
	d.expect("OK 1 ttl=6")
	told := func() (text string) {
		for text == "" { // much more often than twice a second
			d.say(strings.Repeat("PING\n", burst))
			for range burst {
				if answer := d.hear(); answer != "PONG" {
					text = answer
					d.expect("PONG")
				}
			}
			<-time.After(burstPause)
		}
		return text
	}
	if got := told(); got != "TTL 48" {
		t.Fatalf("told %q", got)
	}
	for range 3 {
		d.say("TTL 48\n")
		d.expect("TTL 48")
		d.say("PING\n")
		d.expect("PONG")
	}
	d.say("TTL 10\n")
	d.expect("TTL 10")
	if got := told(); got != "TTL 80" {
		t.Errorf("told %q", got)
	}
}
