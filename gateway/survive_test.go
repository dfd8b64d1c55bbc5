package gateway_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// exhaust opens connections to a server that may have few files open, until it has none left, and
// returns those that were served: they have said something and had an answer.
func exhaust(t *testing.T, r *rig, say, want string) (served []*device) {
	t.Helper()
	for range 200 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
		if err != nil {
			return served
		}
		d := &device{t: t, conn: c}
		d.init()
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := io.WriteString(c, fmt.Sprintf(say, len(served))); err != nil || !strings.HasPrefix(d.hear(), want) {
			return served
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		served = append(served, d)
	}
	return served
}

// Running out of descriptors must cost nobody his connection who has one.
func TestOutOfDescriptors(t *testing.T) {
	r := startChild(t, "gateway", 64).rig()
	served := exhaust(t, r, "HELLO d-%d ttl=60s\n", "OK ")
	if len(served) < 10 || len(served) > 60 {
		t.Fatalf("%d connections were served with 64 descriptors", len(served))
	}
	for round := range 3 {
		for i, d := range served {
			d.say(fmt.Sprintf("PING %d\n", round))
			if got, want := d.hear(), fmt.Sprintf("PONG %d", round); got != want {
				t.Fatalf("round %d, connection %d: heard %q, want %q", round, i, got, want)
			}
		}
	}
	// With some gone there is room again.
	for _, d := range served[:5] {
		d.say("BYE\n")
		d.expect("BYE")
	}
	d := r.dialUntil("HELLO late ttl=60s\n")
	d.say("PING\n")
	d.expect("PONG")
}

// A loop that is swamped falls behind; no verdict overtakes what it has not read.
func TestSwampedLoop(t *testing.T) {
	t.Parallel()
	ttl := 2 * time.Second
	for !swamped(t, ttl) { // a machine may be too slow to begin in 2 s
		ttl *= 2
	}
}

// swamped blocks an event loop for longer than the devices' time; it returns false if that was up before the block began.
func swamped(t *testing.T, ttl time.Duration) bool {
	t.Helper()
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1})
	var fleet []*device
	for range 20 {
		fleet = append(fleet, r.dial())
	}
	began := time.Now()
	for i, d := range fleet {
		d.say(fmt.Sprintf("HELLO d-%d ttl=%v\n", i, ttl))
	}
	for _, d := range fleet {
		d.expect("OK …")
	}
	inTime := false
	gateway.Block(r.gateway, 0, ttl+time.Second, func() {
		for _, d := range fleet {
			d.say("PING\n") // waits in the socket for the whole time
		}
		inTime = time.Since(began) < ttl-100*time.Millisecond
	})
	released := time.Now()
	if !inTime {
		return false
	}
	for _, d := range fleet {
		d.expect("PONG")
	}
	if got := offline(before(r.events(len(fleet)), released.Add(ttl))); got != nil {
		t.Errorf("%d false verdicts: %v", len(got), got)
	}
	return true
}

// before returns the events before an instant: after that, devices may be silent.
func before(events []liveness.Event, end time.Time) []liveness.Event {
	return slices.DeleteFunc(events, func(e liveness.Event) bool { return !e.Time.Before(end) })
}

// A flood from some keeps the loop busy; the others are not judged for it.
func TestFlood(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{
		Listen: unlimited(), Loops: 1, MaxOutbound: 1 << 20,
	})
	end := time.Now().Add(atChecks(time.Second, 2*time.Second))
	burst := []byte(strings.Repeat("PING 1\nnoise\n", 5000))
	flooded := make(chan struct{})
	for i := range 4 {
		d := r.dial()
		d.say(fmt.Sprintf("HELLO flood-%d ttl=1h\n", i))
		d.expect("OK …")
		go func() { _, _ = io.Copy(io.Discard, d.conn) }()
		go func() {
			defer func() { flooded <- struct{}{} }()
			for time.Now().Before(end) {
				if _, err := d.conn.Write(burst); err != nil {
					return
				}
			}
		}()
	}
	var fleet []*device
	var beating sync.WaitGroup
	done := make(chan struct{})
	for i := range 20 {
		d := r.dial()
		d.say(fmt.Sprintf("HELLO d-%d ttl=4s\n", i))
		d.expect("OK …")
		fleet = append(fleet, d)
		beating.Go(func() { // from now on: greeting the others, and the end of the flood, may take long
			beats := time.NewTicker(400 * time.Millisecond)
			defer beats.Stop()
			for {
				if _, err := io.WriteString(d.conn, "beat\n"); err != nil {
					t.Errorf("a device that beats was cut off: %v", err)
					return
				}
				select {
				case <-beats.C:
				case <-done:
					return
				}
			}
		})
	}
	for range 4 {
		<-flooded
	}
	for _, d := range fleet {
		d.say("PING done\n")
		d.expect("PONG done")
	}
	close(done)
	beating.Wait()
	for _, e := range r.events(24) {
		if e.Type == liveness.DeviceOffline {
			t.Errorf("%s was judged offline, %v after %v", e.Subject, e.Reason, e.HeardSilence)
		}
	}
	t.Logf("%d messages", r.gateway.Stats().Messages)
}

// Whoever waits for an answer gives up, and comes back. What is read at last begins with connections that
// nobody holds any more: the one behind them is the device's, and not another device.
func TestGivenUp(t *testing.T) {
	const tries = 12 // more than two devices that share an id may take from each other
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1})
	var alive *device
	gateway.Block(r.gateway, 0, 0, func() {
		for range tries {
			alive = r.dial()
			alive.say("HELLO a ttl=60s\n")
			_ = alive.conn.Close()
		}
		alive = r.dial()
		alive.say("HELLO a ttl=60s\n")
	})
	alive.expect("OK …")
	alive.say("PING\n")
	alive.expect("PONG")
	if st := r.gateway.Stats(); st.Duplicates != 0 || st.DuplicateIDs != 0 {
		t.Errorf("%d refused, %d ids that two devices use", st.Duplicates, st.DuplicateIDs)
	}
}

// A connection that its device has given up may be read after the one that it opened then.
func TestGivenUpIsReadLate(t *testing.T) {
	for loop := range 2 {
		t.Run(fmt.Sprint("loop ", loop), func(t *testing.T) {
			r := startRig(t, liveness.Config{}, gateway.Config{Loops: 2})
			var alive *device
			gateway.Block(r.gateway, loop, 100*time.Millisecond, func() {
				before := r.dial()
				before.say("HELLO a ttl=60s\n")
				_ = before.conn.Close()
				alive = r.dial()
				alive.say("HELLO a ttl=60s\n")
			})
			alive.expect("OK …")
			testwait.Until(t, "the first was read", func() bool { return r.gateway.Stats().Connections == 1 })
			alive.say("PING\n")
			alive.expect("PONG")
		})
	}
}
