package mqttstore_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/mqttstore"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/crashtest"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
)

// childDatabase makes the test binary a program with a broker and a client that publishes, until it
// is killed.
const childDatabase = "HOLTER_MQTT_TEST_DATABASE"

const (
	perProcess = 5000 // messages that the program publishes at most
	window     = 32   // of them that are not acknowledged
)

// roomy is the configuration of a broker that drops nothing.
func roomy() mqtt.Config {
	return mqtt.Config{MaxQueue: 60_000, MaxQueueBytes: 1 << 30, MaxHeldBytes: 1 << 36, MaxInflight: 60_000, ReceiveMaximum: 65_535}
}

// program ends the program when something fails.
type program struct{}

func (program) Helper()                           {}
func (program) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (program) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// child is that program. It prints a line for each message that the broker has answered for.
func child() {
	url := os.Getenv(childDatabase)
	if url == "" {
		return
	}
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	db, err := sqldb.New(sqldb.Config{URL: url})
	fail(err)
	fail(db.Open(ctx))
	cfg := roomy()
	cfg.Store = mqttstore.New(db, largest)
	b, err := mqtt.New(cfg)
	fail(err)
	fail(b.Open(ctx))
	go func() { fail(b.Run(ctx)) }()
	d := newDevice(program{}, fmt.Sprint("publisher ", os.Getpid())) // whose session nobody resumes
	d.acked = func(payload string) { _, _ = fmt.Fprintln(os.Stdout, payload) }
	d.connect(b)
	for n := range perProcess {
		d.await(window)
		d.publish("m/x", fmt.Sprintf("%d-%d", os.Getpid(), n), uint8(1+n%2))
	}
	d.await(0)
	select {}
}

// TestKilled kills a process with a broker while it takes messages for a client that is away, again
// and again. The client gets all that were acknowledged, those with QoS 2 once, in the order in
// which they were sent.
func TestKilled(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			t.Parallel() // they wait for leases
			url := kind.URL(t)
			away := newDevice(t, "away")
			alone(t, url, func(b *mqtt.Broker) {
				away.connect(b)
				answered := false
				away.acked = func(string) { answered = true }
				away.subscribe("m/#")
				testwait.Until(t, "the subscription is answered", func() bool { away.pump(); return answered })
				away.drop()
			})
			safe := make(map[string]bool)
			kills := crashtest.Times(t, 3)
			for range kills {
				crashtest.Run(t, []string{childDatabase + "=" + url}, 0, 300*time.Millisecond, func(text string) { safe[text] = true })
			}
			alone(t, url, func(b *mqtt.Broker) {
				away.connect(b)
				testwait.Until(t, "all messages come", func() bool { away.release(60_000); return !away.pump() && len(away.received) == 0 })
				away.drop()
			})
			got := times(away.got)
			for payload := range safe {
				if got[payload] == 0 {
					t.Errorf("%s was acknowledged and is lost", payload)
				}
			}
			last := make(map[string]int)
			for _, s := range away.got {
				process, number, _ := strings.Cut(s, "-")
				n, _ := strconv.Atoi(number)
				if old, ok := last[process]; got[s[2:]] != 1 || ok && n <= old {
					t.Errorf("%s came %d times, after %d", s, got[s[2:]], old)
				}
				last[process] = n
			}
			t.Logf("%d kills, %d messages acknowledged, %d received", kills, len(safe), len(got))
		})
	}
}

// alone opens a database for a broker, and closes all in order.
func alone(t *testing.T, url string, do func(b *mqtt.Broker)) {
	t.Helper()
	db := openDB(t, url)
	l := begin(t, mqttstore.New(db, largest), roomy())
	do(l.Broker)
	l.end()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
