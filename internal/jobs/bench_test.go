package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// batchLen is how many events a registry hands over at most.
const batchLen = 8192

// BenchmarkJobs claims and acks jobs of events, 500 and 2,000 at a time.
func BenchmarkJobs(b *testing.B) {
	for _, n := range []int{500, 2000} {
		for _, db := range testdb.Durable() {
			b.Run(fmt.Sprintf("db=%s/n=%d", db.Name, n), func(b *testing.B) {
				s := open(b, config{URL: db.URL(b), Outbox: everything})
				left, round := 0, uint64(0)
				done := 0
				b.ReportAllocs()
				for b.Loop() {
					if left < n {
						b.StopTimer()
						round++
						for from := 0; from < 100_000; from += batchLen {
							batch := make([]liveness.Event, batchLen)
							for i := range batch {
								batch[i] = device(uint32(from+i+1), fmt.Sprintf("sensor-%08d", from+i), round, liveness.DeviceOnline)
							}
							if err := s.Append(b.Context(), batch); err != nil {
								b.Fatal(err)
							}
							left += len(batch)
						}
						b.StartTimer()
					}
					got, err := s.jobs.Claim(b.Context(), lane, n, time.Now(), time.Minute)
					if err != nil || len(got.Jobs) != n {
						b.Fatal(len(got.Jobs), err)
					}
					outcomes := make([]jobs.Ack, n)
					for i := range outcomes {
						outcomes[i].Job = got.Jobs[i]
					}
					if _, err := s.jobs.Ack(b.Context(), outcomes, time.Now()); err != nil {
						b.Fatal(err)
					}
					left -= n
					done += n
				}
				b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}
