package replay_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// many is a fake of records that makes gaps up.
type many struct {
	memory

	n, devices int
	now        time.Time
}

func (m *many) Gaps(context.Context, time.Time, time.Time, func(uint32) bool) iter.Seq2[judgement.Gap, error] {
	return m.each
}

func (m *many) each(yield func(judgement.Gap, error) bool) {
	span := m.now.Sub(m.from)
	for i := range m.n {
		start := time.Duration(float64(span) * float64(i) / float64(m.n))
		g := judgement.Gap{
			Num: uint32(i%m.devices) + 1, Source: "edge", Start: start, Length: 90*time.Second + time.Duration(i*7919%600)*time.Second,
			End: judgement.GapEnd(i / 7 % 2),
		}
		g.At = m.from.Add(g.Start + g.Length)
		if i%5 == 0 {
			g.Reason, g.Closed = liveness.Closed, g.Length/2
		}
		if !yield(g, nil) {
			return
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	const n, devices = 1_000_000, 10_000
	r, err := liveness.New(new(sink), liveness.Config{Policy: liveness.Policy{Timeout: planTimeout}})
	if err != nil {
		b.Fatal(err)
	}
	r.Keeper().RecordGaps()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	s, err := r.AddSource(liveness.SourceConfig{Name: "edge"})
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	s.Pulse(begin)
	for round := range 2 { // the second is after so long a silence that a limit is set
		now := s.Time(begin) + time.Duration(round)*100*time.Second
		for i := range devices {
			session := new(liveness.Session)
			if _, err := s.Open(session, fmt.Sprint("d", i), liveness.Hello{}, nil, now); err != nil {
				b.Fatal(err)
			}
		}
	}
	values, err := replay.ParseSpans("45s..12m")
	if err != nil || len(values) > 40 {
		b.Fatal(err)
	}
	values = append(values, 13*time.Minute, 14*time.Minute, 15*time.Minute, 16*time.Minute, 17*time.Minute, 18*time.Minute, 19*time.Minute, 20*time.Minute, 21*time.Minute, 22*time.Minute, 23*time.Minute)[:40]
	end := time.Now()
	records := &many{n: n, devices: devices, now: end}
	records.from = end.Add(-30 * 24 * time.Hour)
	e := replay.New(r, records)
	b.ReportAllocs()
	for b.Loop() {
		a, err := e.Run(ctx, replay.Question{From: records.from, Values: values}, end)
		if err != nil || a.Silences < n/2 {
			b.Fatalf("%v, %+v", err, a)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n/40, "ns/gap/timeout")
}
