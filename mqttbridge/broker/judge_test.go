package broker_test

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// diary is when a device began to send each packet, and when it had.
type diary [][2]time.Time

// between reports whether a packet was sent between two instants.
func (d diary) between(from, to time.Time) bool {
	for _, sent := range d {
		if sent[0].After(from) && sent[1].Before(to) {
			return true
		}
	}
	return false
}

// live sends a packet after each pause until stop, and comes back when it is cut off.
func (s *station) live(id string, pause func(i int) time.Duration, stop <-chan struct{}) (sent diary) {
	ping := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}}
	var c *client
	defer func() {
		if c != nil {
			c.conn.Close()
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return sent
		case <-time.After(pause(i)):
		}
		began := time.Now()
		var err error
		if c == nil {
			var conn net.Conn
			if conn, err = (&net.Dialer{}).DialContext(s.tb.Context(), "tcp", s.broker.Addr().String()); err != nil {
				s.tb.Error(err)
				return sent
			}
			c = &client{tb: s.tb, conn: conn, in: bufio.NewReader(conn), version: 4}
			_, err = c.tryHello(hello{id: id, keepAlive: 60})
		} else if err = c.write(&ping, ping.PingreqEncode); err == nil {
			sent = append(sent, [2]time.Time{began, time.Now()})
			_, err = c.read()
		}
		if err != nil { // it was judged
			c.conn.Close()
			c = nil
		}
	}
}

// TestNoFalseOffline lets devices send just in time, or just too late, to a broker with more to do than it can: whoever is judged has sent
// nothing between his last packet and his deadline.
func TestNoFalseOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 3 s")
	}
	const timeout = 100 * time.Millisecond
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "dev", Match: "dev-*", Policy: liveness.Policy{Timeout: timeout}}}}
	s := start(t, fleet, broker.Config{})
	stop := make(chan struct{})
	diaries := make([]diary, 50)
	var living sync.WaitGroup
	for i := range 64 {
		living.Go(func() { s.live(fmt.Sprint("flood-", i), func(int) time.Duration { return 0 }, stop) })
	}
	for i := range diaries {
		living.Go(func() {
			diaries[i] = s.live(fmt.Sprint("dev-", i), func(n int) time.Duration { return time.Duration(80+n*37%120) * time.Millisecond }, stop)
		})
	}
	<-time.After(3 * time.Second)
	close(stop)
	living.Wait()
	events, err := s.log.Read(nil, 0, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for i := range events {
		e := &events[i]
		var device int
		if _, err := fmt.Sscanf(e.Subject, "dev-%d", &device); err != nil || e.Type != liveness.DeviceOffline || e.Reason != liveness.Silence {
			continue
		}
		judged++
		if diaries[device].between(e.LastSeen, e.Deadline) {
			t.Errorf("%s was judged at %v, and had sent after %v and before %v", e.Subject, e.Time, e.LastSeen, e.Deadline)
		}
	}
	if judged == 0 {
		t.Error("nobody was judged, and some were silent for twice the timeout")
	}
	t.Logf("%d verdicts", judged)
}
