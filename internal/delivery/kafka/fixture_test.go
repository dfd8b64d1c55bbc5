package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holter-iot/holter/internal/delivery/kafka"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

func TestMain(m *testing.M) { sinktest.Main(m) }

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

// open makes a sink, and closes it when the test ends.
func open(tb testing.TB, target, settings string) sink.Sink {
	tb.Helper()
	return sinktest.New(tb, kafka.Kind(sinktest.Guard()), target, settings)
}

// message is the one of a device's event.
func message(device string, seq int) sink.Message {
	id := fmt.Sprintf("%s:%d", device, seq)
	ev := cloudevent.Event{
		SpecVersion: "1.0", ID: id, Source: "/holter/node-1/line", Type: "io.holter.device.offline", Subject: device,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), DataContentType: "application/json",
	}
	data, err := json.Marshal(ev)
	if err != nil {
		panic(err)
	}
	return sink.Message{ID: id, Key: device, ContentType: cloudevent.ContentType, Data: data}
}

// deliver delivers with a time limit.
func deliver(tb testing.TB, s sink.Sink, limit time.Duration, messages ...sink.Message) []sink.Result {
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
func must(tb testing.TB, s sink.Sink, messages ...sink.Message) {
	tb.Helper()
	for i, r := range deliver(tb, s, plenty, messages...) {
		if r.Err != nil {
			tb.Fatalf("%s: %+v", messages[i].ID, r)
		}
	}
}

// eventually delivers again and again until it succeeds.
func eventually(tb testing.TB, s sink.Sink, limit time.Duration, messages ...sink.Message) {
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
