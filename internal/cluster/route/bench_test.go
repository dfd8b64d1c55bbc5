package route_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/mqtt"
)

// cpu returns the time that the process has used of processors.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRoute has a client at one spoke publish 200 bytes in bursts, for another at another spoke, or for
// nobody. Hub, spokes and clients are in one process, over TCP.
func BenchmarkRoute(b *testing.B) {
	for _, qos := range []uint8{0, 1} {
		for _, burst := range []int{1, 100} {
			for _, filter := range []string{"a", "nothing"} {
				b.Run(fmt.Sprintf("qos=%d/burst=%d/subscriber=%t", qos, burst, filter == "a"), func(b *testing.B) { benchmark(b, qos, burst, filter) })
			}
		}
	}
}

func benchmark(b *testing.B, qos uint8, burst int, filter string) {
	b.Helper()
	h := startHub(b, mqtt.Config{}, route.Config{})
	one, two := startSpoke(b, h.address, "one", mqtt.Config{}), startSpoke(b, h.address, "two", mqtt.Config{})
	from, to := connect(b, one.broker, "from"), connect(b, two.broker, "to").subscribe(filter)
	reach(from, to, filter)
	payload := strings.Repeat("x", 200)
	var took []time.Duration
	before, done := cpu(), h.Stats().Received
	b.ResetTimer()
	for b.Loop() {
		begun := time.Now()
		for range burst {
			from.publish("a", payload, qos)
		}
		done += uint64(burst)
		for {
			from.read()
			to.read()
			if h.Stats().Received >= done && (filter != "a" || len(to.got) >= burst) && (qos == 0 || len(from.got) >= burst) {
				break
			}
			<-time.After(10 * time.Microsecond)
		}
		took = append(took, time.Since(begun))
		from.got, to.got = from.got[:0], to.got[:0]
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(cpu()-before)/float64(b.N*burst), "cpu-ns/message")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
