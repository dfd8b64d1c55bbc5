package sqlstore_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/sqlstore"
)

// filled returns a store in a database that has so many rows.
func filled(b *testing.B, kind testdb.Database, rows int) *sqlstore.Store {
	b.Helper()
	s := sqlstore.New(openDB(b, kind.URL(b)), largest)
	for from := 0; from < rows; from += 50_000 {
		commit(b, s, messages(1<<40+from, min(50_000, rows-from), true)...)
	}
	return s
}

// messages returns the changes that put or delete n records of messages of 128 bytes.
func messages(from, n int, puts bool) []mqtt.Change {
	changes := make([]mqtt.Change, n)
	for i := range changes {
		changes[i] = mqtt.Change{Kind: mqtt.KindMessage, Key: binary.BigEndian.AppendUint64(nil, uint64(from+i))}
		if puts {
			changes[i].Value = make([]byte, 128)
		}
	}
	return changes
}

// BenchmarkCommit puts n records in one commit, and deletes as many that are there.
func BenchmarkCommit(b *testing.B) {
	const rows = 200_000
	for _, kind := range testdb.Durable() {
		s := filled(b, kind, rows)
		at := 0
		for _, n := range []int{10, 1000, 10_000} {
			b.Run(fmt.Sprintf("db=%s/rows=%d/n=%d", kind.Name, rows, n), func(b *testing.B) {
				commit(b, s, messages(at, n, true)...)
				b.ReportAllocs()
				for b.Loop() {
					commit(b, s, append(messages(at+n, n, true), messages(at, n, false)...)...)
					at += n
				}
				b.ReportMetric(float64(2*n*b.N)/b.Elapsed().Seconds(), "rows/s")
				at += n
			})
		}
	}
}

// BenchmarkLoad loads all records.
func BenchmarkLoad(b *testing.B) {
	const rows = 1_000_000
	for _, kind := range testdb.Durable() {
		s := filled(b, kind, rows)
		b.Run(fmt.Sprintf("db=%s/rows=%d", kind.Name, rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				err := s.Load(b.Context(), func(mqtt.Change) error { n++; return nil })
				if err != nil || n != rows {
					b.Fatalf("Load = %v after %d records", err, n)
				}
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkPublishAway publishes messages with QoS 1 and 64 bytes for clients that are away: from
// 64 publishers, each with up to 16 messages that are not acknowledged. Their acknowledgements
// share commits.
func BenchmarkPublishAway(b *testing.B) {
	for _, kind := range testdb.Durable() {
		b.Run("db="+kind.Name, func(b *testing.B) {
			l := begin(b, filled(b, kind, 0), roomy())
			devices := make([]*device, 64)
			for i := range devices {
				devices[i] = newDevice(b, fmt.Sprint("publisher", i))
				devices[i].connect(l.Broker)
			}
			topic, payload := "", string(make([]byte, 64))
			n := 0
			for b.Loop() {
				if n%50_000 == 0 { // no queue takes more than 60,000
					topic = fmt.Sprint("m/", n)
					subscribeAway(b, l, topic)
				}
				d := devices[n%len(devices)]
				n++
				d.await(15)
				d.publish(topic, payload, 1)
			}
			for _, d := range devices {
				d.await(0)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// subscribeAway subscribes a client that then leaves.
func subscribeAway(b *testing.B, l *life, topic string) {
	b.Helper()
	d := newDevice(b, "for "+topic)
	d.connect(l.Broker)
	d.subscribe(topic)
	d.drop()
}
