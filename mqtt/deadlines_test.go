package mqtt_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// TestDeadlinesModel holds the ends of many sessions against a list, while clients come back at
// random.
func TestDeadlinesModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 4))
		b := newBroker(t, mqtt.Config{})
		run(t, b)
		ends := make(map[string]time.Time)
		for range 3000 {
			id := strconv.Itoa(random.IntN(200))
			seconds := uint32(1 + random.IntN(300))
			c := connect(t, b, id, func(p *packet.Connect) { p.Clean, p.SessionExpiry = false, seconds })
			if _, want := ends[id]; c.ack.SessionPresent != want {
				t.Fatalf("the session of %s is present: %v, want %v", id, c.ack.SessionPresent, want)
			}
			c.drop()
			ends[id] = time.Now().Add(time.Duration(seconds) * time.Second)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			synctest.Wait()
			for id, end := range ends {
				if !end.After(time.Now()) {
					delete(ends, id)
				}
			}
			if got := b.Stats().Sessions; got != len(ends) {
				t.Fatalf("there are %d sessions, want %d", got, len(ends))
			}
		}
	})
}
