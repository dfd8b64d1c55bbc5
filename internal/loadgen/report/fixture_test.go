package report_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	keep   = flag.String("keep", "", "a directory to leave reports in, to look at")
)

// one is a second of a sample.
const one = report.Seconds(time.Second)

var began = time.Date(2026, 5, 4, 10, 30, 0, 0, time.UTC)

func run() report.Run {
	p := &plan.Plan{
		Name: "silent-10pct", Seed: 7, Devices: 20_000, Protocol: "line", Targets: []string{"127.0.0.1:7000", "127.0.0.1:7001"},
		Interval: 30 * time.Second, Timeout: 75 * time.Second, Ramp: 2000,
		Phases: []plan.Phase{
			{Name: "steady", Length: 30 * time.Second},
			{Name: "fall silent", Length: time.Minute, Acts: []plan.Act{{Kind: plan.Silent, Share: 0.1, Within: time.Minute}}},
			{Name: "after", Length: 20 * time.Second, Acts: []plan.Act{{Kind: plan.Reset, Count: 300, Back: 5 * time.Second}}},
		},
	}
	return report.Run{
		Tool: "holter 0.4.0", Command: "holter loadgen --target tcp://127.0.0.1:7000 --scenario silent-10pct --connections 20000", Began: began,
		Host:  report.Host{Kernel: "Linux 6.1.0", CPU: "a processor", Cores: 2, Memory: 24 << 30, Go: "go1.26.0"},
		Fleet: report.FleetOf(p),
	}
}

// histogram has values around a median, in microseconds, always the same ones for a seed.
func histogram(seed uint64, n int, median, spread float64) *hdrhistogram.Histogram {
	r := rand.New(rand.NewPCG(seed, 1))
	h := hdrhistogram.New(1, time.Minute.Microseconds()*2, 2)
	for range n {
		value := median * (1 + spread*r.ExpFloat64()*r.Float64())
		_ = h.RecordValue(int64(max(value, 1)))
	}
	return h
}

func latency(h *hdrhistogram.Histogram) report.Latency { return report.LatencyOf(h, time.Microsecond) }

// samples are those of a run of two minutes; good ones, or bad ones.
func samples(bad bool) []report.Sample {
	fleet := run().Fleet
	var all []report.Sample
	var sent, connects uint64
	var at report.Seconds
	for _, stage := range fleet.Stages {
		for second := one; second <= stage.Length; second += one {
			at += one
			s := report.Sample{
				Time: began.Add(time.Duration(at)), At: at, Phase: stage.Name, Done: float64(second) / float64(stage.Length),
				Wanted: fleet.Devices, Welcomed: min(int(at/one)*2000, fleet.Devices), CPU: 0.21, Memory: 38 << 20, Workers: 2,
				Errors: map[string]uint64{}, Score: &report.Score{},
			}
			n := s.Welcomed / 30
			sent += uint64(n)
			connects = uint64(s.Welcomed)
			s.Connects, s.Sent, s.Answered = connects, sent, sent-uint64(n/300)
			seed := uint64(at / one)
			s.RTT, s.RTTPlanned = latency(histogram(seed, n, 300, 2)), latency(histogram(seed, n, 900, 6))
			s.Lateness, s.Connect = latency(histogram(seed, n, 500, 4)), report.Latency{}
			if stage.Name == report.Ramp {
				s.Connecting, s.CPU = 310, 0.9
				s.Connect = latency(histogram(seed, 2000, 900, 3))
			}
			if at > 90*one {
				s.Score.Right = uint64(at/one-90) * 66
			}
			if bad {
				spoil(&s)
			}
			if len(all) == 0 {
				s.Since(nil)
			} else {
				s.Since(&all[len(all)-1])
			}
			all = append(all, s)
		}
	}
	return all
}

func spoil(s *report.Sample) {
	if n := s.At - 6*one; n >= 0 {
		s.Errors["refused"], s.Failed = uint64(min(n, 4*one)/one)*17+17, 40
		s.Welcomed -= 40
	}
	if s.At >= 50*one {
		s.Errors["reset by peer"], s.Lost, s.Dead, s.Workers = 1234, 1234, 1, 1
	}
	if s.At == 50*one {
		s.Notes = []string{"worker 2 died: signal: killed"}
	}
	if s.At >= 70*one {
		s.Errors["garbage"], s.Errors["no \x1b[31manswer"] = 3, 2
	}
	if s.At >= 95*one {
		s.Score.FalseOffline, s.Score.Gaps = 3, 1
	}
}

func distribution(tb testing.TB, h *hdrhistogram.Histogram) report.Distribution {
	tb.Helper()
	d, err := report.DistributionOf(h, time.Microsecond)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func final(tb testing.TB, bad bool) *report.Final {
	tb.Helper()
	f := &report.Final{
		Run: run(), Ended: began.Add(2 * time.Minute), Samples: samples(bad),
		RTT: distribution(tb, histogram(1, 20_000, 300, 2)), RTTPlanned: distribution(tb, histogram(2, 20_000, 900, 6)),
		Lateness: distribution(tb, histogram(3, 20_000, 500, 4)), Connect: distribution(tb, histogram(4, 20_000, 900, 3)),
		Verdicts: &report.Verdicts{
			From: []string{"http://127.0.0.1:8080"}, Right: 2000,
			Mistakes: []report.Mistake{
				{Name: "false offline", Meaning: "The device was alive."},
				{Name: "missed offline", Meaning: "The device was gone, and nobody said so."},
				{Name: "wrong reason", Allowed: -1},
				{Name: "sequence gap"},
			},
			Detection: distribution(tb, histogram(5, 2000, 9_000, 5)), DetectionAllowed: report.Millis(200 * time.Millisecond),
		},
		Outcome: report.Outcome{Passed: true},
	}
	if bad {
		m := f.Verdicts.Mistakes
		f.Verdicts.DetectionAllowed = report.Millis(100 * time.Millisecond)
		f.Verdicts.Unjudged, f.Verdicts.UnjudgedDevices = 950, 1000
		f.Verdicts.Behind = report.Behind{Most: report.Millis(9600 * time.Millisecond), Back: 2}
		m[0].Count, m[2].Count, m[3].Count, m[3].Allowed = 3, 7, 1, 5
		m[0].Examples = []report.Example{
			{Device: "dev-0000017", At: began.Add(95 * time.Second), Done: "heartbeat sent 10:31:30.120", Said: "offline (silence), seq 4"},
			{Device: "<b>dev</b>\x1b[2J", Done: "</script><script>alert(1)</script>", Said: "offline"},
			{Device: "dev-0000300", Done: "moved", Said: "offline (closed), seq 2"},
		}
		f.Lateness = distribution(tb, histogram(3, 20_000, 9_000, 4))
		f.Hits = []report.Hit{{
			Limit: "listen queue of the target", Evidence: "4,096 listen overflows", Mend: "sysctl -w net.core.somaxconn=65535", At: 6 * one,
		}}
		f.Outcome = report.Outcome{Status: 1, Reasons: []string{"3 false offline, and 0 are allowed", "p99 of detection is 152 ms, and 100 ms are allowed", "worker 2 died: signal: killed"}}
	}
	return f
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; see with git diff after go test -update. Got:\n%s", path, got)
	}
}
