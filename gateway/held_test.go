package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// valve is a sink that can be shut: then it takes nothing, like one whose database is away.
type valve struct {
	*eventlog.Log

	mu    sync.Mutex // guards the fields below
	shut  bool
	count int // events that it took
}

func (v *valve) took() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.count
}

func (v *valve) set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
}

func (v *valve) Append(ctx context.Context, events []liveness.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut {
		return errors.New("the database is away")
	}
	v.count += len(events)
	return v.Log.Append(ctx, events)
}

// startValved starts a gateway whose sink is open.
func startValved(t *testing.T, fleet liveness.Config, cfg gateway.Config) (*rig, *valve) {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{Log: log}
	r := startOn(t, v, fleet, cfg)
	r.log = log
	t.Cleanup(func() { v.set(false) }) // before it is stopped
	return r, v
}

// typist is a device that types lines, and hears them, whatever carries them.
type typist interface {
	say(text string)
	expect(want string)
}

// datagrams says each line with a hello before it, as it must be in datagrams.
type datagrams struct {
	*sender

	heard []string
}

func (d *datagrams) expect(want string) {
	d.t.Helper()
	if len(d.heard) == 0 {
		d.heard = strings.SplitAfter(strings.TrimSuffix(d.hear(), "\n"), "\n")
	}
	got := strings.TrimSuffix(d.heard[0], "\n")
	d.heard = d.heard[1:]
	if got != want && !(strings.HasSuffix(want, "…") && strings.HasPrefix(got, strings.TrimSuffix(want, "…"))) {
		d.t.Fatalf("heard %q, want %q", got, want)
	}
}

// eachCarrier runs a test with each carrier of the line protocol.
func eachCarrier(t *testing.T, fleet liveness.Config, test func(t *testing.T, r *rig, v *valve, dial func() typist)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		r, v := startValved(t, fleet, gateway.Config{Guard: secret})
		test(t, r, v, func() typist { return r.dial() })
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		k := newKeys(t)
		cfg := k.config()
		cfg.Guard = secret
		r, v := startValved(t, fleet, cfg)
		test(t, r, v, func() typist { return r.dialTLS(k) })
	})
	t.Run("UDP", func(t *testing.T) {
		t.Parallel()
		r, v := startValved(t, fleet, gateway.Config{Guard: secret, Listen: packets("127.0.0.1:0")})
		test(t, r, v, func() typist { return &datagrams{sender: r.sender()} })
	})
}

// asked waits until what was said has caused an event that waits.
func (r *rig) asked() {
	r.t.Helper()
	testwait.Until(r.t, "an event waits", func() bool { return r.registry.Stats().Queued > 0 })
}

// Whatever a device says that causes an event: it is answered once that is committed, and
// heartbeats behind it count at once.
func TestAnswersWait(t *testing.T) {
	words := []struct{ say, want string }{
		{"HELLO pump s3cret ttl=7s", "OK 1 ttl=7"},
		{"SLEEP 60", "OK sleep=60"},
		{"TTL 9s", "TTL 9"},
		{"FAIL valve stuck", "OK"},
		{"BYE", "BYE"},
	}
	for _, w := range words {
		t.Run(strings.Fields(w.say)[0], func(t *testing.T) {
			eachCarrier(t, liveness.Config{}, func(t *testing.T, r *rig, v *valve, dial func() typist) {
				t.Helper()
				d := dial()
				greets := strings.HasPrefix(w.say, "HELLO")
				inPackets := strings.HasSuffix(t.Name(), "UDP")
				if !greets {
					d.say("HELLO pump s3cret\n")
					d.expect("OK 1 …")
					testwait.Until(t, "the hello is committed", func() bool { return r.registry.Stats().Queued == 0 })
				}
				v.set(true)
				begin := r.registry.Stats().Queued
				say, said := w.say+"\n", uint64(0)
				if !greets {
					said = 1 // that is counted, too, if not yet
				}
				if w.want != "BYE" {
					say += "PING 1\nPING 2\n"
				}
				if inPackets && !greets {
					say = "HELLO pump s3cret\n" + say
				}
				d.say(say)
				testwait.Until(t, "all is heard", func() bool { return r.gateway.Stats().Messages == said+uint64(strings.Count(say, "\n")) })
				testwait.Until(t, "an event waits", func() bool { return r.registry.Stats().Queued > begin }) // a message is counted before
				took := v.took()
				heard := make(chan struct{})
				go func() {
					defer close(heard)
					if inPackets && !greets {
						d.expect("OK 1 …")
					}
					d.expect(w.want)
					if v.took() == took {
						t.Errorf("%q was answered before it was committed", w.say)
					}
					if w.want != "BYE" {
						d.expect("PONG 1")
						d.expect("PONG 2")
					}
				}()
				time.AfterFunc(50*time.Millisecond, func() { v.set(false) }) // an answer that does not wait is there before
				<-heard
			})
		})
	}
}

// What is not committed in time is answered with "busy". Heartbeats are answered before and after,
// and the device may say it again.
func TestAnswersGiveUp(t *testing.T) {
	t.Parallel()
	eachCarrier(t, liveness.Config{}, func(t *testing.T, r *rig, v *valve, dial func() typist) {
		t.Helper()
		v.set(true)
		d := dial()
		hello := ""
		if _, ok := d.(*datagrams); ok {
			hello = "HELLO pump s3cret\n"
		}
		d.say("HELLO pump s3cret\nPING 1\n")
		d.expect("ERR busy …")
		d.expect("PONG 1")
		if hello == "" {
			d.say("PING 2\n")
			d.expect("PONG 2")
		}
		d.say(hello + "TTL 5s\nPING 3\n")
		if hello != "" {
			d.expect("ERR busy …")
		}
		d.expect("ERR busy …")
		d.expect("PONG 3")
		if got := r.device("pump").State; got != liveness.Pending {
			t.Errorf("state = %v, want pending", got)
		}
		v.set(false)
		testwait.Until(t, "it is committed", func() bool { return r.device("pump").State == liveness.Online })
		d.say("HELLO pump s3cret\n")
		d.expect("OK …")
		v.set(true)
		d.say(hello + "BYE\n")
		if hello == "" {
			d.expect("ERR busy …")
			d.expect("EOF")
		} else {
			d.expect("OK …")
			d.expect("ERR busy …")
		}
	})
}

// A device that is known, and comes back, is not kept waiting by a database that is away; and a
// heartbeat never is.
func TestAnswersDoNotWait(t *testing.T) {
	eachCarrier(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Hour}}, func(t *testing.T, r *rig, v *valve, dial func() typist) {
		t.Helper()
		d := dial()
		d.say("HELLO pump s3cret\n")
		d.expect("OK 1 …")
		if c, ok := d.(*device); ok {
			_ = c.conn.Close()
			testwait.Until(t, "it is gone", func() bool { return r.gateway.Stats().Connections == 0 })
			d = dial()
		}
		v.set(true)
		other := dial()
		other.say("HELLO other s3cret\n")
		r.asked()
		d.say("HELLO pump s3cret\nPING 1\n")
		d.expect("OK …")
		d.expect("PONG 1")
		if r.registry.Stats().Queued == 0 {
			t.Error("nothing waits any more")
		}
	})
}

// A verdict is told once it is committed.
func TestVerdictWaits(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS=%v", secure), func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			cfg := gateway.Config{}
			if secure {
				cfg = k.config()
			}
			r, v := startValved(t, liveness.Config{}, cfg)
			var d *device
			if secure {
				d = r.dialTLS(k)
			} else {
				d = r.dial()
			}
			d.say("HELLO pump ttl=300ms\n")
			d.expect("OK …")
			v.set(true)
			testwait.Until(t, "a verdict", func() bool { return r.device("pump").State == liveness.Pending })
			took := v.took()
			heard := make(chan string)
			go func() { heard <- d.hear() }()
			time.AfterFunc(100*time.Millisecond, func() { v.set(false) })
			if got := <-heard; got != "BYE silence" || v.took() == took {
				t.Errorf("heard %q, %d events committed since", got, v.took()-took)
			}
		})
	}
}

// Answers that are held are bounded: when there are too many, nothing is waited for.
func TestAnswersAreBounded(t *testing.T) {
	r, v := startValved(t, liveness.Config{}, gateway.Config{MaxOutbound: 4 << 10})
	v.set(true)
	d := r.dial()
	d.say("HELLO pump\n")
	r.asked()
	for i := range 300 {
		d.say(fmt.Sprintf("PING %d\n", i))
	}
	d.expect("ERR busy …")
	for i := range 300 {
		d.expect(fmt.Sprintf("PONG %d", i))
	}
}

// Who has said all, and said so to the kernel, still hears the answers.
func TestAnswersAfterTheLastWord(t *testing.T) {
	r, v := startValved(t, liveness.Config{}, gateway.Config{})
	v.set(true)
	d := r.dial()
	d.say("HELLO pump\nPING 1\nBYE\n")
	if err := d.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the connection has ended", func() bool { return r.registry.Stats().Queued > 0 && r.gateway.Stats().Connections == 0 })
	v.set(false)
	d.expect("OK 1 …")
	d.expect("PONG 1")
	d.expect("BYE")
	d.expect("EOF")
}

// The binary protocols wait as well. What they say while events cannot be stored, they say when the
// wait is over.
func TestBinaryAnswersWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		protocol codec.Protocol
		client   codec.Client
		id       string
		refuses  bool // in a way that its client can tell
	}{
		{teltonika.Protocol{}, teltonika.Client{}, "356307042441013", false},
		{frame.Protocol{}, frame.Client{}, "pump", true},
		{jt808.Protocol{}, jt808.Client{}, "13800138000", true},
		{gt06.Protocol{}, gt06.Client{}, "123456789012345", false},
	}
	for _, tt := range tests {
		t.Run(tt.protocol.Name(), func(t *testing.T) {
			t.Parallel()
			listen := []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{tt.protocol}}}
			r, v := startValved(t, liveness.Config{}, gateway.Config{Listen: listen})
			d := r.dial()
			hello := func() {
				d.say(string(tt.client.AppendHello(nil, tt.id, "", 0)))
				r.asked()
			}
			v.set(true)
			hello()
			if tt.refuses {
				if got := d.verdict(tt.client); got != codec.Refused || v.took() > 0 {
					t.Errorf("%v before it was committed", got)
				}
				hello()
			}
			v.set(false)
			if got := d.verdict(tt.client); got != codec.Welcome || v.took() == 0 {
				t.Errorf("%v, %d events committed", got, v.took())
			}
		})
	}
}

// answer returns the next that says yes or no.
func (d *device) verdict(by codec.Client) codec.AnswerKind {
	d.t.Helper()
	for input := []byte(nil); ; {
		for {
			a, n := by.Next(input)
			if n == 0 {
				break
			}
			if a.Kind == codec.Welcome || a.Kind == codec.Refused {
				return a.Kind
			}
			input = input[n:]
		}
		b, err := d.in.ReadByte()
		if err != nil {
			d.t.Fatal(err)
		}
		input = append(input, b)
	}
}

// Dismissed devices hear why, on each carrier, and nobody takes them for two.
func TestDismissed(t *testing.T) {
	for _, forget := range []bool{true, false} {
		t.Run(fmt.Sprintf("forget=%v", forget), func(t *testing.T) {
			eachCarrier(t, liveness.Config{}, func(t *testing.T, r *rig, _ *valve, dial func() typist) {
				t.Helper()
				for range 8 {
					d := dial()
					d.say("HELLO pump s3cret\n")
					d.expect("OK …")
					if forget {
						if err := r.registry.Forget("pump"); err != nil {
							t.Fatal(err)
						}
					} else if had, err := r.registry.Disconnect("pump"); !had || err != nil {
						t.Fatalf("Disconnect = %v, %v", had, err)
					}
					d.expect("BYE admin: an operator ended the session")
				}
				if st := r.gateway.Stats(); st.DuplicateIDs != 0 || st.Duplicates != 0 {
					t.Errorf("duplicate ids = %d, duplicates = %d", st.DuplicateIDs, st.Duplicates)
				}
			})
		})
	}
}
