package server

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// listener is an MQTT client that remembers what it gets.
type listener struct {
	paho.Client

	t   *testing.T
	mu  sync.Mutex // guards got
	got []string
}

// clientAt connects an MQTT client, which subscribes with QoS 2.
func clientAt(t *testing.T, address, id string, filters ...string) *listener {
	t.Helper()
	l := &listener{t: t}
	l.Client = paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + address).SetClientID(id).SetAutoReconnect(false).SetOrderMatters(true))
	l.done(l.Connect())
	t.Cleanup(func() { l.Disconnect(0) })
	for _, f := range filters {
		l.done(l.Subscribe(f, 2, func(_ paho.Client, m paho.Message) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.got = append(l.got, fmt.Sprintf("%s=%s q%d", m.Topic(), m.Payload(), m.Qos()))
		}))
	}
	return l
}

func (l *listener) done(token paho.Token) {
	l.t.Helper()
	if token.Wait(); token.Error() != nil {
		l.t.Fatal(token.Error())
	}
}

func (l *listener) publish(topic, payload string, qos byte, retain bool) {
	l.t.Helper()
	l.done(l.Publish(topic, qos, retain, payload))
}

func (l *listener) has(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.got, what)
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.got)
}

// waits waits until the client has got something.
func (l *listener) waits(what string) {
	l.t.Helper()
	testwait.Until(l.t, what, func() bool { return l.has(what) }, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Join(l.got, ", ")
	})
}

// reaches waits until what one client publishes reaches another one.
func reaches(from, to *listener, topic string) {
	from.t.Helper()
	testwait.Until(from.t, "the subscription is known everywhere", func() bool {
		from.publish(topic, "there?", 0, false)
		return to.has(topic + "=there? q0")
	})
}

// Messages, retained ones and verdicts reach the clients of the judge and of all ears.
func TestRoutedMessages(t *testing.T) {
	t.Parallel()
	at := map[string]string{"judge": testenv.FreeAddress(t), "one": testenv.FreeAddress(t), "two": testenv.FreeAddress(t)}
	judge, judges := judged(t, fmt.Sprintf("mqtt: {listen: '%s', route: cluster}\nreport: {to: broker}", at["judge"]))
	ears := make(map[string]*heard)
	for _, name := range []string{"one", "two"} {
		ears[name] = hear(t, name, judges, "mqtt: {listen: '"+at[name]+"', route: cluster}")
	}
	testwait.Until(t, "the ears are ready", func() bool { return ears["one"].ready() && ears["two"].ready() })
	subscribers := make(map[string]*listener)
	for name, address := range at {
		subscribers[name] = clientAt(t, address, "sub-"+name, "t/#", "holter/+/state")
	}
	for name, address := range at {
		from := clientAt(t, address, "pub-"+name)
		for to := range at {
			reaches(from, subscribers[to], fmt.Sprintf("t/%s/%s", name, to))
		}
		for qos := range byte(3) {
			from.publish("t/"+name, "message", qos, qos > 0)
			for _, to := range subscribers {
				to.waits(fmt.Sprintf("t/%s=message q%d", name, qos))
			}
		}
		for to, address := range at {
			id := fmt.Sprintf("late-%s-%s", name, to)
			testwait.Until(t, "what is retained is there, too", func() bool {
				late := clientAt(t, address, id, "t/"+name)
				defer late.Disconnect(0)
				testwait.Until(t, "it is sent what is retained", func() bool { return late.count() > 0 })
				return late.has("t/" + name + "=message q2")
			})
		}
	}
	for _, s := range subscribers {
		testwait.Until(t, "a verdict reaches all", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.ContainsFunc(s.got, func(m string) bool { return strings.HasPrefix(m, "holter/pub-one/state=") })
		})
	}
	for of, want := range map[*served]string{judge: "holter_broker_route_servers 2\n", &ears["one"].served: "holter_broker_route_servers 1\n"} {
		if _, _, body := of.ask("GET", "/metrics"); !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// Without route: cluster at both sides, messages stay where they are.
func TestUnroutedMessages(t *testing.T) {
	t.Parallel()
	for name, routed := range map[string][2]string{"judge is local": {"local", "cluster"}, "ear is local": {"cluster", "local"}} {
		t.Run(name, func(t *testing.T) {
			at := [2]string{testenv.FreeAddress(t), testenv.FreeAddress(t)}
			_, judges := judged(t, fmt.Sprintf("mqtt: {listen: '%s', route: %s}", at[0], routed[0]))
			one := hear(t, "one", judges, fmt.Sprintf("mqtt: {listen: '%s', route: %s}", at[1], routed[1]))
			testwait.Until(t, "the ear is ready", one.ready)
			there, here := clientAt(t, at[0], "there", "a"), clientAt(t, at[1], "here", "a")
			clientAt(t, at[1], "from").publish("a", "x", 1, false)
			here.waits("a=x q1")
			clientAt(t, at[0], "other").publish("a", "y", 1, false)
			there.waits("a=y q1")
			if here.count() != 1 || there.count() != 1 {
				t.Errorf("the clients got %q and %q", here.got, there.got)
			}
		})
	}
}

// When another server judges, the ears' clients go on with that. It needs no port for MQTT.
func TestRoutedMessagesAfterTakeover(t *testing.T) {
	t.Parallel()
	url := testdb.SQLite(t)
	sockets := [2]string{"unix:" + filepath.Join(t.TempDir(), "a"), "unix:" + filepath.Join(t.TempDir(), "b")}
	serve := func(node, socket string) *served {
		return serveFile(t, node, fmt.Sprintf("listen: [off]\ndatabase: %q\nlink: {listen: '%s'}\nmqtt: {listen: off, route: cluster}\n", url, socket), &lockedBuffer{})
	}
	a := serve("a", sockets[0])
	testwait.Until(t, "a judges", a.judges)
	b := serve("b", sockets[1])
	testwait.Until(t, "b stands by", b.standsBy)
	at := [2]string{testenv.FreeAddress(t), testenv.FreeAddress(t)}
	for i, name := range []string{"one", "two"} {
		e := hear(t, name, fmt.Sprintf("judges: ['%s', '%s']", sockets[1], sockets[0]), "mqtt: {listen: '"+at[i]+"', route: cluster}")
		testwait.Until(t, "the ear has found the judge", e.ready)
	}
	from, to := clientAt(t, at[0], "from"), clientAt(t, at[1], "to", "t/#", "kept")
	reaches(from, to, "t/1")
	from.publish("kept", "1", 1, true)
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	from.publish("t/2", "meanwhile", 1, false)
	testwait.Until(t, "b judges", b.judges)
	reaches(from, to, "t/3")
	from.publish("t/4", "after", 2, false)
	to.waits("t/4=after q2")
	clientAt(t, at[1], "late", "kept").waits("kept=1 q1")
}

// No heartbeat waits for messages: whoever beats stays online while as many messages go from ear to ear as
// they can carry.
func TestHeartbeatsBesideMessages(t *testing.T) {
	testenv.Check(t) // alone: its messages take the whole machine
	at := [2]string{testenv.FreeAddress(t), testenv.FreeAddress(t)}
	judge, judges := judged(t, "mqtt: {listen: off, route: cluster}")
	var ears [2]*heard
	for i, name := range []string{"one", "two"} {
		ears[i] = hear(t, name, judges, "mqtt: {listen: '"+at[i]+"', route: cluster}")
		testwait.Until(t, "the ear is ready", ears[i].ready)
	}
	from, to := clientAt(t, at[0], "from"), clientAt(t, at[1], "to", "flood")
	reaches(from, to, "flood")
	stop := make(chan struct{})
	var living sync.WaitGroup
	for i := range 4 {
		c := clientAt(t, at[0], fmt.Sprint("flood-", i))
		living.Go(func() {
			payload := strings.Repeat("x", 2000)
			for running := true; running; {
				select {
				case <-stop:
					running = false
				default:
					c.Publish("flood", 0, false, payload).Wait()
				}
			}
		})
	}
	var sent [8][]sending
	for i := range sent {
		d := connect(t, ears[i%2].devices)
		d.says(fmt.Sprintf("HELLO pump-%d ttl=1s", i), "OK")
		living.Go(func() {
			tick := time.NewTicker(300 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case begun := <-tick.C:
					if _, err := io.WriteString(d.conn, "PING 1\n"); err != nil {
						return
					}
					sent[i] = append(sent[i], sending{begun, time.Now()})
					_, _ = d.in.ReadString('\n')
				}
			}
		})
	}
	<-time.After(4 * time.Second)
	close(stop)
	living.Wait()
	for i := range sent {
		judge.wantHeard(fmt.Sprint("pump-", i), sent[i])
	}
	if to.count() == 0 {
		t.Error("no message has come")
	}
	t.Logf("%d messages", to.count())
}

// sending is when a device sent a heartbeat: between two instants.
type sending struct{ begun, done time.Time }

// wantHeard fails if a device was judged for a silence in which it has sent something: the machine may have kept it from
// sending.
func (s *served) wantHeard(device string, sent []sending) {
	s.t.Helper()
	for _, off := range s.offline(device) {
		for _, one := range sent {
			if one.begun.After(off.LastSeen) && one.done.Before(off.Deadline) {
				s.t.Errorf("%s was judged for its silence from %v to %v, and has sent at %v", device, off.LastSeen, off.Deadline, one.begun)
			}
		}
	}
}
