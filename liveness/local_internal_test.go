package liveness

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// nobody takes events.
type nobody struct{}

func (nobody) Append(context.Context, []Event) error { return nil }

// A process that stands still for an hour costs no device its state: the clock goes on by MaxGap, and the hour is
// told as deaf time.
func TestLocalStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, err := New(nobody{}, Config{Policy: Policy{Timeout: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		source, err := registry.AddLocal("workers")
		if err != nil {
			t.Fatal(err)
		}
		pulse := func(now time.Time) {
			if _, err := source.pulseLocal(now); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		pulse(began)
		if err := source.Beat("a"); err != nil {
			t.Fatal(err)
		}
		pulse(began.Add(time.Hour))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- registry.Run(ctx) }() // commits; its pulses are from before the latest, and change nothing
		synctest.Wait()
		if heard := source.Now(); heard > longestGap {
			t.Errorf("the clock reads %v after an hour of standing still, want %v at most", heard, longestGap)
		}
		if v, err := registry.Device("a"); err != nil || v.State != Online {
			t.Errorf("the device is %v (%v), want online: nobody could hear it", v.State, err)
		}
		if deaf := source.View().DeafTotal; deaf != time.Hour-longestGap {
			t.Errorf("deaf for %v, want an hour less %v", deaf, longestGap)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
