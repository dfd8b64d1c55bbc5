package watermark_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness/watermark"
)

// source has the earliest deadline that a test sets.
type source struct {
	next   atomic.Int64 // ns; 0: none
	sooner chan struct{}
}

func (s *source) Next() (time.Duration, bool) {
	next := time.Duration(s.next.Load())
	return next, next > 0
}

func (s *source) Sooner() <-chan struct{} { return s.sooner }

// ms returns instants as milliseconds since an instant.
func ms(began time.Time, instants []time.Time) (all []int64) {
	for _, at := range instants {
		all = append(all, at.Sub(began).Milliseconds())
	}
	return all
}

// TestRun: pulses come at the deadlines, never closer together than Least, and at Idle without any.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &source{sooner: make(chan struct{}, 1)}
		var pulses, advances []time.Time
		wake := make(chan struct{}, 1)
		l := watermark.Loop{
			Source: s, Wake: wake, Least: 10 * time.Millisecond, Lag: 50 * time.Millisecond,
			Pulse: func(now time.Time) (time.Duration, error) {
				pulses = append(pulses, now)
				return now.Sub(began), nil
			},
			Advance: func(now time.Time) (time.Duration, error) {
				advances = append(advances, now)
				if len(advances) == 1 {
					return 7 * time.Millisecond, nil // sooner than the next pulse
				}
				return 0, nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		time.Sleep(300 * time.Millisecond)
		s.next.Store(int64(310 * time.Millisecond))
		s.sooner <- struct{}{}
		time.Sleep(5 * time.Millisecond)
		wake <- struct{}{}
		time.Sleep(74 * time.Millisecond) // the deadline has passed at 310 ms + Lag, and stays in the way
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		if want := []int64{0, 200, 360, 370}; !slices.Equal(ms(began, pulses), want) {
			t.Errorf("pulses at %v ms, want %v", ms(began, pulses), want)
		}
		if want := []int64{0, 7, 200, 300, 305, 360, 370}; !slices.Equal(ms(began, advances), want) {
			t.Errorf("advances at %v ms, want %v", ms(began, advances), want)
		}
	})
}

func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	for name, l := range map[string]watermark.Loop{
		"pulse": {Pulse: func(time.Time) (time.Duration, error) { return 0, broken }},
		"advance": {
			Pulse:   func(time.Time) (time.Duration, error) { return 0, nil },
			Advance: func(time.Time) (time.Duration, error) { return 0, broken },
		},
	} {
		l.Source = &source{}
		if err := l.Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%s: Run = %v, want %v", name, err, broken)
		}
	}
}
