package score_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// BenchmarkMemory is what a fleet costs: all are online, and of share all are silent and judged, or wait to be judged.
func BenchmarkMemory(b *testing.B) {
	for _, silent := range []string{"none", "judged", "waiting"} {
		b.Run("n=1e6/silent="+silent, func(b *testing.B) {
			const n = 1_000_000
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				s, err := score.New(fleet(n), 0)
				if err != nil {
					b.Fatal(err)
				}
				if silent == "judged" {
					s.JudgeUntil(at(60))
				}
				var id []byte
				for i := range n {
					id = fmt.Appendf(id[:0], "d-%d", i)
					v := on(0)
					v.Device, v.Seq = string(id), 1
					s.Verdict(v)
					truth := did(plan.Silent, 50, 0)
					truth.Device = i
					if silent == "judged" {
						s.Add(truth)
					}
					if silent != "none" {
						v := off("silence", 59)
						v.Device, v.Seq = string(id), 2
						s.Verdict(v)
					}
					if silent == "waiting" {
						s.Add(truth)
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/device")
				begun := time.Now()
				s.JudgeUntil(at(100))
				b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms/judge")
				runtime.KeepAlive(s)
			}
		})
	}
}

func BenchmarkVerdict(b *testing.B) {
	const n = 100_000
	s, err := score.New(fleet(n), 0)
	if err != nil {
		b.Fatal(err)
	}
	verdicts := make([]score.Verdict, n)
	for i := range n {
		verdicts[i] = on(0)
		verdicts[i].Device = fmt.Sprintf("d-%d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v := &verdicts[i%n]
		v.Seq++
		s.Verdict(*v)
	}
}

// BenchmarkParse is what a message of the stream costs until it is a verdict.
func BenchmarkParse(b *testing.B) {
	data := []byte(strings.ReplaceAll(offlineJSON, "\n", ""))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := score.Parse("io.holter.device.offline", data); err != nil {
			b.Fatal(err)
		}
	}
}
