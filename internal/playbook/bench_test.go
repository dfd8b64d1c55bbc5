package playbook_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// BenchmarkRuns is what a run costs: an event, a run with a command less than that of the crash test, and the delivery of what it tells.
func BenchmarkRuns(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	r, err := newCrashRig(ctx, b.TempDir(), quick())
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- r.jobs.Run(ctx) }()
	go func() { ended <- r.engine.Run(ctx) }()
	b.ResetTimer()
	events := make([]liveness.Event, b.N)
	for i := range events {
		id := fmt.Sprint("dev-", i)
		events[i] = liveness.Event{
			Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: id, Seq: 1, Time: time.Now(), Source: "line",
			Record: &keep.Record{Num: uint32(i + 1), ID: id, State: liveness.Offline, Reason: liveness.Silence, Source: "line", Seq: 1},
		}
	}
	if err := r.store.Append(ctx, events); err != nil {
		b.Fatal(err)
	}
	testwait.Until(b, "no jobs are left", func() bool { return total(r.jobs.Jobs().Depths()) == 0 })
	b.StopTimer()
	cancel()
	if err := errors.Join(<-ended, <-ended, r.store.Close()); err != nil {
		b.Error(err)
	}
}
