package kafka_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holter-iot/holter/internal/delivery/kafka"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// Records are as the CloudEvents binding says, and a device's are in one partition.
func TestDeliver(t *testing.T) {
	c := newCluster(t)
	s := open(t, target(c, "fleet"), `{"batch":100,"timeout_ms":5000}`)
	for n := range 3 {
		must(t, s, message("dev-1", n), message("dev-2", n), message("dev-3", n), message("dev-4", n))
	}
	must(t, s, sink.Message{ID: "job:1", ContentType: "application/json", Data: []byte(`{"do":"it"}`)})
	places := make(map[string]int32)
	next := make(map[string]int)
	all := stored(t, c, "fleet")
	for _, r := range all {
		device := string(r.Key)
		if device == "" {
			if got := header(r, "message-id") + " " + header(r, "content-type") + " " + header(r, "ce_id") + " " + string(r.Value); got != `job:1 application/json  {"do":"it"}` || r.Key != nil {
				t.Errorf("the job is %s", got)
			}
			continue
		}
		if place, ok := places[device]; ok && place != r.Partition {
			t.Errorf("%s is in two partitions", device)
		}
		places[device] = r.Partition
		m := message(device, next[device])
		next[device]++
		got := make(map[string]string)
		for _, h := range r.Headers {
			got[h.Key] = string(h.Value)
		}
		want := map[string]string{
			"content-type": cloudevent.ContentType, "message-id": m.ID, "ce_specversion": "1.0", "ce_id": m.ID, "ce_source": "/holter/node-1/line",
			"ce_type": "io.holter.device.offline", "ce_subject": device, "ce_time": "2026-01-02T03:04:05Z",
		}
		if !maps.Equal(got, want) || string(r.Value) != string(m.Data) {
			t.Errorf("%s: %v %s, want %v", m.ID, got, r.Value, want)
		}
	}
	if len(all) != 13 || len(places) != 4 {
		t.Errorf("%d records of %d devices", len(all), len(places))
	}
}

// A broker that stores and says that it did not makes no second record: neither when the client tries again, nor when the delivery ran out
// of time and the message is delivered again.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := open(t, target(c, "one"), "")
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 2})
	must(t, s, message("dev-1", 1))
	lost := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: -1})
	if r := deliver(t, s, 500*time.Millisecond, message("dev-1", 2)); !errors.Is(r[0].Err, context.DeadlineExceeded) || r[0].Permanent {
		t.Errorf("without an answer: %+v", r[0])
	}
	lost.Remove()
	eventually(t, s, 5*time.Second, message("dev-1", 2))
	must(t, s, message("dev-1", 3))
	if got := idsOf(t, c, "one"); !slices.Equal(got, []string{"dev-1:1", "dev-1:2", "dev-1:3"}) {
		t.Errorf("the topic has %q", got)
	}
}

// If one message has to be delivered again, those with its key that were given behind it do not arrive before it.
func TestOrderAfterFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  *kerr.Error
	}{
		{"nothing is stored", kerr.NotEnoughReplicas},
		{"no leader", kerr.NotLeaderForPartition},
		{"all is stored, and nobody says so", kerr.RequestTimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := newCluster(t)
			s := open(t, target(cluster, "one"), "")
			must(t, s, message("dev-1", 0))
			fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: c.err, Count: -1})
			batch := []sink.Message{message("dev-1", 1), message("dev-1", 2), message("dev-1", 3)}
			for i, r := range deliver(t, s, 300*time.Millisecond, batch...) {
				if r.Err == nil || r.Permanent {
					t.Errorf("%d: %+v", i, r)
				}
			}
			fault.Remove()
			for _, m := range batch {
				eventually(t, s, 5*time.Second, m)
			}
			if got := idsOf(t, cluster, "one"); !slices.Equal(got, []string{"dev-1:0", "dev-1:1", "dev-1:2", "dev-1:3"}) {
				t.Errorf("the topic has %q", got)
			}
		})
	}
}

// What has the same key stays in order, and all of it arrives, while brokers fail in all ways, leaders change and deliveries run out of time. A
// record that the client gave up although a broker had it may be there twice, but then the second directly follows the first.
func TestOrder(t *testing.T) {
	t.Parallel()
	const devices, each = 8, 40
	c := newCluster(t, kfake.NumBrokers(3))
	s := open(t, target(c, "fleet"), "")
	faults := []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition}
	var delivering sync.WaitGroup
	for d := range devices {
		delivering.Go(func() {
			for n := range each {
				eventually(t, s, time.Duration(50+10*n)*time.Millisecond, message(fmt.Sprintf("dev-%d", d), n))
				if d == 0 && n%8 == 4 {
					c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: faults[n/8%len(faults)], Count: 2})
				}
				if d == 0 && n%10 == 5 {
					c.ShufflePartitionLeaders()
				}
			}
		})
	}
	delivering.Wait()
	next := make(map[string]int)
	for _, id := range idsOf(t, c, "fleet") {
		device, _, _ := strings.Cut(id, ":")
		switch id {
		case fmt.Sprintf("%s:%d", device, next[device]):
			next[device]++
		case fmt.Sprintf("%s:%d", device, next[device]-1):
		default:
			t.Fatalf("%s comes where %s:%d was expected", id, device, next[device])
		}
	}
	for device, n := range next {
		if n != each {
			t.Errorf("of %s there are %d, want %d", device, n, each)
		}
	}
	if len(next) != devices {
		t.Errorf("%d devices, want %d", len(next), devices)
	}
}

// A broker that is not there yet, and one that is started again.
func TestRestart(t *testing.T) {
	port, err := testenv.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := open(t, fmt.Sprintf("kafka://127.0.0.1:%d/one", port), "")
	if r := deliver(t, s, plenty, message("dev-1", 1)); r[0].Err == nil || r[0].Permanent || !strings.Contains(r[0].Err.Error(), "connection refused") {
		t.Errorf("no broker: %+v", r[0])
	}
	c := newCluster(t, kfake.Ports(port), kfake.DataDir(dir), kfake.SyncWrites())
	eventually(t, s, 5*time.Second, message("dev-1", 1))
	c.Close()
	if r := deliver(t, s, 300*time.Millisecond, message("dev-1", 2)); r[0].Err == nil || r[0].Permanent {
		t.Errorf("the broker has stopped: %+v", r[0])
	}
	if r := deliver(t, s, plenty, message("dev-1", 2)); r[0].Err == nil || r[0].Permanent || !strings.Contains(r[0].Err.Error(), "no broker can be reached") {
		t.Errorf("the broker has stopped: %+v", r[0])
	}
	c = newCluster(t, kfake.Ports(port), kfake.DataDir(dir), kfake.SyncWrites())
	eventually(t, s, 5*time.Second, message("dev-1", 2))
	if got := idsOf(t, c, "one"); !slices.Equal(got, []string{"dev-1:1", "dev-1:2"}) {
		t.Errorf("the topic has %q", got)
	}
}

// What cannot be delivered says why, and holds up nothing else of its batch.
func TestTooLarge(t *testing.T) {
	c := newCluster(t)
	if err := c.CreateTopic("small", 1, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	random := strings.Repeat("x", 2<<20)
	for _, topic := range []string{"one", "small"} {
		t.Run(topic, func(t *testing.T) {
			s := open(t, target(c, topic), "")
			bad := message("dev-2", 1)
			bad.Data = []byte(random)
			r := deliver(t, s, plenty, message("dev-1", 1), bad, message("dev-3", 1))
			if r[0].Err != nil || r[2].Err != nil {
				t.Errorf("the others: %+v", r)
			}
			if r[1].Err == nil || !r[1].Permanent || !strings.Contains(r[1].Err.Error(), "MESSAGE_TOO_LARGE") {
				t.Errorf("%+v", r[1])
			}
		})
	}
}

// A topic that takes each message but not all of them in one batch gets them one by one, also when
// other deliveries wait that could share a batch.
func TestBatchTooLarge(t *testing.T) {
	const deliveries, each = 8, 100
	c := newCluster(t)
	if err := c.CreateTopic("small", 1, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	s := open(t, target(c, "small"), "")
	var delivering sync.WaitGroup
	for d := range deliveries {
		delivering.Go(func() {
			batch := make([]sink.Message, each)
			for i := range batch {
				batch[i] = message(fmt.Sprintf("dev-%d-%d", d, i), 1)
			}
			for i, r := range deliver(t, s, plenty, batch...) {
				if r.Err != nil {
					t.Errorf("%s: %+v", batch[i].ID, r)
				}
			}
		})
	}
	delivering.Wait()
	if got := idsOf(t, c, "small"); len(got) != deliveries*each {
		t.Errorf("%d records, want %d", len(got), deliveries*each)
	}
}

// A topic that is made later gets what had failed.
func TestTopicLater(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := open(t, target(c, "later"), "")
	if r := deliver(t, s, plenty, message("dev-1", 1)); r[0].Err == nil || r[0].Permanent || !strings.Contains(r[0].Err.Error(), "there is no topic later") {
		t.Errorf("no topic: %+v", r[0])
	}
	if err := c.CreateTopic("later", 1, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, s, 5*time.Second, message("dev-1", 1))
	if got := idsOf(t, c, "later"); !slices.Equal(got, []string{"dev-1:1"}) {
		t.Errorf("the topic has %q", got)
	}
}

func TestLogin(t *testing.T) {
	authority := testcert.New(t)
	certificate := authority.Issue(t, testcert.Ask{})
	secure := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	ca, err := json.Marshal(string(authority.PEM()))
	if err != nil {
		t.Fatal(err)
	}
	login := func(method string) []kfake.Opt {
		return []kfake.Opt{kfake.EnableSASL(), kfake.Superuser(method, "holter", "right")}
	}
	for _, c := range []struct {
		name     string
		cluster  []kfake.Opt
		settings string
		want     string // empty: it is let in
	}{
		{"plain", login("PLAIN"), `{"username":"holter","password":"right"}`, ""},
		{"SHA-256", login("SCRAM-SHA-256"), `{"sasl":"scram-sha-256","username":"holter","password":"right"}`, ""},
		{"SHA-512", login("SCRAM-SHA-512"), `{"sasl":"scram-sha-512","username":"holter","password":"right"}`, ""},
		{"wrong password", login("PLAIN"), `{"username":"holter","password":"wrong"}`, "no broker can be reached"},
		{"wrong password, SHA-256", login("SCRAM-SHA-256"), `{"sasl":"scram-sha-256","username":"holter","password":"wrong"}`, "no broker can be reached"},
		{"nothing", login("PLAIN"), "", "no broker can be reached"},
		{"another way", login("SCRAM-SHA-256"), `{"username":"holter","password":"right"}`, "no broker can be reached"},
		{"TLS", []kfake.Opt{secure}, `{"ca":` + string(ca) + `}`, ""},
		{"TLS and plain", append(login("PLAIN"), secure), `{"ca":` + string(ca) + `,"username":"holter","password":"right"}`, ""},
		{"TLS that is not trusted", []kfake.Opt{secure}, `{"tls":true}`, "certificate signed by unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := newCluster(t, c.cluster...)
			r := deliver(t, open(t, target(cluster, "one"), c.settings), 10*time.Second, message("dev-1", 1))[0]
			switch {
			case c.want == "" && r.Err != nil:
				t.Errorf("%+v", r)
			case c.want != "" && (r.Err == nil || r.Permanent || !strings.Contains(r.Err.Error(), c.want)):
				t.Errorf("%+v, want %s", r, c.want)
			}
		})
	}
}

// A delivery ends with its context, whatever the brokers do, and what it left behind does not hold up Close.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	s := open(t, "kafka://"+silent(t)+"/one", "")
	for range 2 {
		if r := deliver(t, s, 200*time.Millisecond, message("dev-1", 1)); !errors.Is(r[0].Err, context.DeadlineExceeded) || r[0].Permanent {
			t.Errorf("%+v", r[0])
		}
	}
	c := newCluster(t)
	s = open(t, target(c, "one"), "")
	must(t, s, message("dev-1", 1))
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: -1})
	ctx, cancel := context.WithCancel(t.Context())
	var delivering sync.WaitGroup
	delivering.Go(func() {
		if r := s.Deliver(ctx, []sink.Message{message("dev-1", 2)}); !errors.Is(r[0].Err, context.Canceled) || r[0].Permanent {
			t.Errorf("%+v", r[0])
		}
	})
	if err := fault.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	delivering.Wait()
}

// A private broker is refused, as all private addresses are.
func TestPrivate(t *testing.T) {
	c := newCluster(t)
	s, err := kafka.Kind(sink.NewGuard(nil))(target(c, "one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if r := deliver(t, s, plenty, message("dev-1", 1)); !errors.Is(r[0].Err, sink.ErrPrivate) {
		t.Errorf("%+v", r[0])
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range []struct{ name, target, settings, want string }{
		{"no scheme", "127.0.0.1:9092/a", "", "target: "},
		{"another scheme", "http://a/b", "", "kafka://HOST:9092"},
		{"no topic", "kafka://a", "", "TOPIC"},
		{"empty topic", "kafka://a/", "", "name of a topic"},
		{"strange topic", "kafka://a/b?c", "", "name of a topic"},
		{"long topic", "kafka://a/" + strings.Repeat("x", 250), "", "249 at most"},
		{"no broker", "kafka:///a", "", "no server"},
		{"password in the target", "kafka://u:p@a/b", "", "settings"},
		{"unknown setting", "kafka://a/b", `{"acks":1}`, "acks"},
		{"no password", "kafka://a/b", `{"username":"a"}`, "want username and password"},
		{"unknown mechanism", "kafka://a/b", `{"sasl":"gssapi","username":"a","password":"b"}`, "scram-sha-256"},
		{"no certificate", "kafka://a/b", `{"ca":"x"}`, "PEM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := kafka.Kind(sinktest.Guard())(c.target, json.RawMessage(c.settings)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// The addresses of a target that passes can be connected to.
func FuzzTarget(f *testing.F) {
	for _, text := range []string{"kafka://a/b", "kafka://a:1,[::1]:2/b.c-d_e", "kafka://a,/b", "kafka:///", "kafka://a/b/c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		brokers, topic, err := kafka.ParseTarget(text)
		if err != nil {
			return
		}
		for _, address := range brokers {
			if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
				t.Errorf("%q has %q: %v", text, address, err)
			}
		}
		if topic == "" || len(brokers) == 0 {
			t.Errorf("%q: %q %q", text, brokers, topic)
		}
	})
}

// Whatever settings are, the kind takes them or says what is wrong.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{`{}`, `{"tls":true,"batch":7}`, `{"sasl":"plain","username":"a","password":"b"}`, `{"ca":"-----BEGIN"}`, `[]`, `null`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := kafka.Kind(sinktest.Guard())("kafka://127.0.0.1:1/a", json.RawMessage(text))
		if (s == nil) == (err == nil) {
			t.Fatalf("%v, %v", s, err)
		}
		if s != nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
