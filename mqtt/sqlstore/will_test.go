package sqlstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
	"github.com/holter-iot/holter/mqtt/sqlstore"
)

// TestWillOfTheKilled checks that wills that were delayed when a broker was killed are published by
// the next one, once, and neither those of clients that come back nor of those that were connected.
func TestWillOfTheKilled(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			store := sqlstore.New(openDB(t, kind.URL(t)), largest)
			l := begin(t, store, roomy())
			reader := newDevice(t, "reader")
			reader.connect(l.Broker)
			reader.subscribe("gone/#")
			connect := func(i int, clean bool) *mqtt.Conn {
				p := packet.Connect{
					Version: packet.V5, ClientID: fmt.Append(nil, "c", i), Clean: clean, ReceiveMaximum: 10, SessionExpiry: 3600, HasWill: true,
					Will: packet.Will{Topic: []byte("gone/c"), Payload: strconv.AppendInt(nil, int64(i), 10), QoS: uint8(1 + i%2), Delay: 1000},
				}
				c, _, err := l.Connect(&p, string(p.ClientID), anybody{}, make(wire, 1), time.Now())
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			const n = 20
			for i := range n {
				if c := connect(i, false); i > 1 { // the first two are connected when it is killed
					c.Close(mqtt.Ending{}, time.Now())
				}
			}
			kinds := func() map[mqtt.Kind]int { return (&world{T: t, store: store}).kinds() }
			testwait.Until(t, "the wills are stored", func() bool { return kinds()[mqtt.KindWill] == n-2 })
			l.kill()
			l = begin(t, store, roomy())
			reader.connect(l.Broker)
			for i := range n { // all sessions end but one
				connect(i, i != 2)
			}
			testwait.Until(t, "the wills come", func() bool {
				reader.pump()
				reader.release(n)
				return len(reader.got) >= n-3
			})
			testwait.Until(t, "no will is stored", func() bool { return kinds()[mqtt.KindWill] == 0 })
			l.end() // what was published is in the queue now
			for reader.pump() {
				reader.release(n)
			}
			for i := range n {
				want := 1
				if i <= 2 {
					want = 0
				}
				if got := times(reader.got)[strconv.Itoa(i)]; got != want {
					t.Errorf("the will of client %d came %d times, want %d", i, got, want)
				}
			}
		})
	}
}
