package mqttstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/internal/mqttstore"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
)

// TestCrash has clients publish and receive, lose their connections, and the broker be killed, at
// random instants of its commits. In the end each receiver has each message, with QoS 2 once, and
// nothing is left in the database but sessions and subscriptions.
func TestCrash(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			db := openDB(t, kind.URL(t))
			w := &world{T: t, random: rand.New(rand.NewPCG(5, 6)), db: db, store: mqttstore.New(db, largest)}
			w.begin()
			w.sender = newDevice(t, "sender")
			w.readers = []*device{newDevice(t, "reader1"), newDevice(t, "reader2")}
			for _, d := range w.all() {
				d.connect(w.life.Broker)
			}
			for _, d := range w.readers {
				answered := false
				d.acked = func(string) { answered = true }
				d.subscribe("m/#")
				testwait.Until(t, "the subscription is answered", func() bool { d.pump(); return answered })
			}
			steps := 250
			if testenv.Checks() && kind.Name == "sqlite" {
				steps = 700
			}
			for range steps {
				w.step()
			}
			w.settle()
			w.check()
		})
	}
}

// world is a broker that is killed now and then, and its clients.
type world struct {
	*testing.T

	random   *rand.Rand
	db       *sqldb.DB
	store    *mqttstore.Store
	life     *life
	sender   *device
	readers  []*device
	messages int
	kills    int
}

func (w *world) all() []*device { return append([]*device{w.sender}, w.readers...) }

func (w *world) begin() {
	w.Helper()
	cfg := roomy()
	cfg.MaxInflight = 1 + w.random.IntN(5)
	w.life = begin(w, w.store, cfg)
}

func (w *world) step() {
	w.Helper()
	d := w.all()[w.random.IntN(3)]
	switch w.random.IntN(60) {
	case 0:
		w.kills++
		w.life.kill()
		// As another process does: from its takeover on, a commit that the dead one left under way is refused.
		if err := errors.Join(w.db.Close(), w.db.Open(w.Context())); err != nil {
			w.Fatal(err)
		}
		w.begin()
		for _, d := range w.all() {
			d.connect(w.life.Broker)
		}
	case 1, 2:
		d.drop()
		d.connect(w.life.Broker)
	default:
		w.messages++
		w.sender.publish("m/x", strconv.Itoa(w.messages), uint8(1+w.random.IntN(2)))
		if len(w.sender.unacked) > w.random.IntN(20) {
			testwait.Until(w, "the broker answers", w.sender.pump)
		}
		d.pump()
		d.release(w.random.IntN(3))
	}
}

// settle goes on until nothing is on its way any more.
func (w *world) settle() {
	w.Helper()
	testwait.Until(w, "nothing is on its way", func() bool {
		busy := false
		for _, d := range w.all() {
			busy = d.pump() || busy || len(d.unacked) > 0
			d.release(100)
		}
		kinds := w.kinds()
		return !busy && kinds[mqtt.KindEntry]+kinds[mqtt.KindReceived] == 0
	}, func() string {
		return fmt.Sprintf("the sender waits for %v, the database has %v", w.sender.unacked, w.kinds())
	})
	w.life.end()
}

// kinds returns how many records of each kind the database has.
func (w *world) kinds() map[mqtt.Kind]int {
	w.Helper()
	kinds := make(map[mqtt.Kind]int)
	err := w.store.Load(w.Context(), func(c mqtt.Change) error {
		kinds[c.Kind]++
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return kinds
}

// times returns how often each message came.
func times(got []string) map[string]int {
	n := make(map[string]int)
	for _, s := range got {
		n[s[2:]]++
	}
	return n
}

func (w *world) check() {
	w.Helper()
	for _, d := range w.readers {
		n, last := times(d.got), 0
		for _, s := range d.got {
			if s[0] != '2' {
				continue
			}
			if n[s[2:]] > 1 {
				w.Errorf("%s got %s %d times", d.id, s, n[s[2:]])
			}
			number, _ := strconv.Atoi(s[2:])
			if number < last {
				w.Errorf("%s got %d after %d", d.id, number, last)
			}
			last = number
		}
		if len(n) != w.messages {
			w.Errorf("%s got %d messages of %d", d.id, len(n), w.messages)
		}
	}
	if kinds := w.kinds(); len(kinds) != 2 || kinds[mqtt.KindSession] != 3 || kinds[mqtt.KindSubscription] != 2 {
		w.Errorf("the database has %v", kinds)
	}
	w.Logf("%d messages, %d kills", w.messages, w.kills)
}
