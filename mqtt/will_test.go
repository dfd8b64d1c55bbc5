package mqtt_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// TestStoredWill checks that a delayed will is published although the process was killed before, and
// that no other is.
func TestStoredWill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		b := openBroker(t, mqtt.Config{Store: store})
		will := func(delay uint32) func(*packet.Connect) {
			return func(p *packet.Connect) {
				withWill(delay)(p)
				p.Will.Retain, p.Will.HasExpiry, p.Will.Expiry = true, true, 100
				p.Will.Properties = []byte{0x26, 0, 1, 'k', 0, 1, 'v'} // a user property
			}
		}
		connect(t, b, "connected", persistent, will(10))
		connect(t, b, "shutdown", persistent, will(10)).conn.Close(mqtt.Ending{Shutdown: true}, time.Now())
		connect(t, b, "bye", persistent, will(10)).disconnect()
		connect(t, b, "back before", persistent, will(10)).drop()
		connect(t, b, "back before", persistent)
		connect(t, b, "ended", persistent, will(10)).drop()
		connect(t, b, "ended")
		for _, id := range []string{"away", "back", "clean", "other user"} {
			connect(t, b, id, persistent, will(10)).drop()
		}
		connect(t, b, "short", will(1000), func(p *packet.Connect) { p.SessionExpiry = 30 }).drop()
		b.Commit(t.Context())
		if got := store.kinds()[mqtt.KindWill]; got != 5 {
			t.Fatalf("%d wills are stored, want 5", got)
		}
		time.Sleep(5 * time.Second)
		b = openBroker(t, mqtt.Config{Store: store})
		stop := runUntil(t, b)
		watcher := connect(t, b, "watcher")
		watcher.subscribeTo(packet.Filter{Topic: []byte("will/#"), QoS: 1, RetainHandling: 2}, 0)
		wants := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			watcher.now = time.Now()
			watcher.wants(want...)
		}
		connect(t, b, "back", persistent)
		connect(t, b, "clean")
		wants(0, "will/clean=gone q1 #1 expiry100") // its session has ended
		connectAs(t, b, user{name: "anna"}, "other user")
		wants(0, "will/other user=gone q1 #2 expiry100")
		wants(10*time.Second - 1)
		wants(1, "will/away=gone q1 #3 expiry100")
		wants(15*time.Second - 1)
		wants(1, "will/short=gone q1 #4 expiry100")
		if got := b.Retained("will/#"); len(got) != 5 { // with the one from before the restart
			t.Errorf("Retained = %q", got)
		}
		stop()
		if got := store.kinds()[mqtt.KindWill]; got != 0 {
			t.Errorf("%d wills are stored, want none", got)
		}
		b = openBroker(t, mqtt.Config{Store: store})
		stop = runUntil(t, b)
		watcher = connect(t, b, "watcher")
		watcher.subscribeTo(packet.Filter{Topic: []byte("will/#"), RetainHandling: 2}, 0)
		wants(time.Hour)
		stop()
	})
}

// runUntil runs a broker, until what it returns is called.
func runUntil(t *testing.T, b *mqtt.Broker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

// TestWillCrash has clients with delayed wills come and go while the broker is killed at random.
// Each will comes to a session that is kept: once, if its client did not come back within the delay.
func TestWillCrash(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { newAbsences(t, seed).run() })
	}
}

// absences are clients that leave, and a reader that is told of it.
type absences struct {
	t       *testing.T
	random  *rand.Rand
	store   *memory
	broker  *mqtt.Broker
	stop    func()
	clients map[string]*client // that are connected
	due     map[string]bool    // wills that must come,
	never   map[string]bool    // and those that must not
	number  int
}

func newAbsences(t *testing.T, seed uint64) *absences {
	t.Helper()
	a := &absences{
		t: t, random: rand.New(rand.NewPCG(seed, 4)), store: newMemory(),
		clients: make(map[string]*client), due: make(map[string]bool), never: make(map[string]bool),
	}
	a.open()
	reader := connect(t, a.broker, "reader", persistent)
	reader.send(packet.AppendSubscribe(nil, reader.version, 1, 0, packet.Filter{Topic: []byte("gone/#"), QoS: 1}))
	reader.drop()
	a.commit()
	return a
}

func (a *absences) open() {
	a.t.Helper()
	a.broker = openBroker(a.t, mqtt.Config{Store: a.store, MaxQueue: 60_000})
	a.stop = runUntil(a.t, a.broker)
}

// commit waits until all is committed.
func (a *absences) commit() {
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

// kill kills the broker. Wills may have come due shortly before that nothing was committed of.
func (a *absences) kill() {
	a.t.Helper()
	a.store.fail(errStore)
	for id, c := range a.clients { // its end is not that of its clients
		a.never[a.willOf(c)] = true
		delete(a.clients, id)
	}
	if a.random.IntN(2) == 0 {
		time.Sleep(time.Minute)
	}
	a.stop()
	a.store.fail(nil)
	a.open()
	a.commit()
}

// willOf returns the topic of a client's will.
func (a *absences) willOf(c *client) string { return "gone/" + strconv.FormatInt(int64(c.room), 10) }

// connect connects a client, with a will that no other has.
func (a *absences) connect(id string) *client {
	a.t.Helper()
	a.number++
	n := a.number
	c := connect(a.t, a.broker, id, persistent, func(p *packet.Connect) {
		p.HasWill = true
		p.Will = packet.Will{Topic: strconv.AppendInt([]byte("gone/"), int64(n), 10), Payload: []byte("x"), QoS: 1, Delay: 60}
	})
	c.room = n
	return c
}

func (a *absences) run() {
	a.t.Helper()
	left := make(map[string]string) // wills that wait, by client
	for range 60 {
		id := "c" + strconv.Itoa(a.random.IntN(6))
		c := a.clients[id]
		switch {
		case a.random.IntN(12) == 0:
			a.kill()
		case a.random.IntN(12) == 0: // all wills that wait come
			time.Sleep(90 * time.Second)
			a.commit()
			for id, w := range left {
				a.due[w] = true
				delete(left, id)
			}
		case c == nil:
			if w := left[id]; w != "" {
				a.never[w] = true
				delete(left, id)
			}
			a.clients[id] = a.connect(id)
			a.commit()
		default:
			left[id] = a.willOf(c)
			c.now = time.Now()
			c.drop()
			delete(a.clients, id)
			a.commit()
		}
	}
	time.Sleep(90 * time.Second)
	a.commit()
	for _, w := range left {
		a.due[w] = true
	}
	reader := connect(a.t, a.broker, "reader", persistent)
	times := make(map[string]int)
	for got := reader.next(); got != ""; got = reader.next() {
		topic, _, _ := strings.Cut(got, "=")
		times[topic]++
		id, _ := strconv.Atoi(got[strings.LastIndexByte(got, '#')+1:])
		reader.ackFor(packet.TypePuback, uint16(id))
	}
	for w := range a.due {
		if times[w] != 1 {
			a.t.Errorf("the will %s came %d times, want once", w, times[w])
		}
	}
	for w := range a.never {
		if times[w] != 0 {
			a.t.Errorf("the will %s came, though its client came back or the broker ended", w)
		}
	}
	a.stop()
}
