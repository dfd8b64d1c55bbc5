package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/delivery/kafka"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	)
}

// newCluster starts brokers in this process.
func newCluster(tb testing.TB, options ...kfake.Opt) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "fleet"), kfake.SeedTopics(1, "one")}, options...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// target returns where a topic of a cluster is.
func target(c *kfake.Cluster, topic string) string {
	return "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/" + topic
}

// stored returns all records of a topic, partition by partition.
func stored(tb testing.TB, c *kfake.Cluster, topic string) []*kgo.Record {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), plenty)
	defer cancel()
	ends := kmsg.NewPtrListOffsetsRequest()
	ends.ReplicaID = -1
	ask := kmsg.NewListOffsetsRequestTopic()
	ask.Topic = topic
	for i := range partitions(topic) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = i, -1
		ask.Partitions = append(ask.Partitions, p)
	}
	ends.Topics = append(ends.Topics, ask)
	answer, err := ends.RequestWith(ctx, client)
	if err != nil {
		tb.Fatal(err)
	}
	want := int64(0)
	for _, p := range answer.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			tb.Fatal(err)
		}
		want += p.Offset
	}
	var all []*kgo.Record
	for int64(len(all)) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			tb.Fatalf("%d of %d records: %v", len(all), want, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// partitions returns how many a topic has.
func partitions(topic string) int32 {
	if topic == "fleet" {
		return 3
	}
	return 1
}

// idsOf returns the messages' ids in a topic.
func idsOf(tb testing.TB, c *kfake.Cluster, topic string) []string {
	tb.Helper()
	var ids []string
	for _, r := range stored(tb, c, topic) {
		ids = append(ids, header(r, "message-id"))
	}
	return ids
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// loopback lets pass what tests connect to.
func loopback() *delivery.Guard {
	return delivery.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")})
}

// sink makes one that is closed when the test ends.
func sink(tb testing.TB, target, settings string) delivery.Sink {
	tb.Helper()
	s, err := kafka.Kind(loopback())(target, json.RawMessage(settings))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// message is the one of a device's event.
func message(device string, seq int) delivery.Message {
	id := fmt.Sprintf("%s:%d", device, seq)
	ev := cloudevent.Event{
		SpecVersion: "1.0", ID: id, Source: "/holter/node-1/line", Type: "io.holter.device.offline", Subject: device,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), DataContentType: "application/json",
	}
	data, err := json.Marshal(ev)
	if err != nil {
		panic(err)
	}
	return delivery.Message{ID: id, Key: device, ContentType: cloudevent.ContentType, Data: data}
}

// deliver delivers with a time limit.
func deliver(tb testing.TB, s delivery.Sink, limit time.Duration, messages ...delivery.Message) []delivery.Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	results := s.Deliver(ctx, messages)
	if len(results) != len(messages) {
		tb.Fatalf("%d results of %d messages", len(results), len(messages))
	}
	return results
}

// plenty is more time than anything takes.
const plenty = time.Minute

// must delivers what has to arrive at once.
func must(tb testing.TB, s delivery.Sink, messages ...delivery.Message) {
	tb.Helper()
	for i, r := range deliver(tb, s, plenty, messages...) {
		if r.Err != nil {
			tb.Fatalf("%s: %+v", messages[i].ID, r)
		}
	}
}

// eventually delivers again and again until it succeeds.
func eventually(tb testing.TB, s delivery.Sink, limit time.Duration, messages ...delivery.Message) {
	tb.Helper()
	for end := time.Now().Add(plenty); ; {
		failed := messages[:0:0]
		for i, r := range deliver(tb, s, limit, messages...) {
			if r.Permanent {
				tb.Fatalf("%s: %+v", messages[i].ID, r)
			}
			if r.Err != nil {
				failed = append(failed, messages[i])
			}
		}
		if messages = failed; len(failed) == 0 {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("%s is still not delivered", failed[0].ID)
		}
	}
}

// silent is a server that takes connections and says nothing, until the test ends.
func silent(tb testing.TB) string {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		var conns []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range conns {
					_ = c.Close()
				}
				return
			}
			conns = append(conns, c)
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		done.Wait()
	})
	return l.Addr().String()
}
