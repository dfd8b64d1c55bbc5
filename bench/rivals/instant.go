package rivals

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
)

const (
	instantLast    metric = "instant_last_ms"
	instantEarly   metric = "instant_early"
	instantEarlyBy metric = "instant_early_by_ms"
	instantMissing metric = "instant_missing"
)

// instantSize is how many timers are due at one instant, and when.
type instantSize struct {
	n        int
	lead     time.Duration // from the beginning of arming
	patience time.Duration // from that instant
}

// instantResult is what came of it.
type instantResult struct {
	TooSlow bool          // arming took longer than the lead; the rest means nothing
	Missing int64         // timers that have not fired
	Last    time.Duration // from the instant to the end of the last callback, if none is missing
	Early   int64         // callbacks that started before the instant
	EarlyBy time.Duration
}

// instant measures n timers that are due at one instant, in a process of its own: libraries that start a goroutine for each
// callback leave a million dead ones to the runtime, which keeps them, and looks at each in every later garbage collection.
func (b *bench) instant(ctx context.Context, round int, c contender) error {
	size := instantSize{n: b.n, lead: b.lead(c, b.n), patience: b.patience}
	for {
		got, err := b.instantChild(ctx, c, size)
		if err != nil {
			return err
		}
		if got.TooSlow {
			if size.lead > time.Minute {
				return tooSlowError{size.lead}
			}
			size.lead *= 2
			continue
		}
		add := func(m metric, v float64) { b.add(round, c.name, m, v) }
		if got.Missing == 0 {
			add(instantLast, figures.Millis(got.Last))
		}
		add(instantMissing, float64(got.Missing))
		add(instantEarly, float64(got.Early))
		add(instantEarlyBy, figures.Millis(got.EarlyBy))
		return nil
	}
}

// measureInstant arms timers that are due at one instant. The clock is read by callbacks only until that instant.
func measureInstant(c contender, size instantSize) (instantResult, error) {
	at := time.Now().Add(size.lead)
	var reached atomic.Bool
	var early, earliest, fired atomic.Int64
	done := make(chan time.Time, 1)
	r, err := c.open(newSetup(size.n, func(int) {
		if !reached.Load() {
			if by := time.Until(at); by > 0 {
				early.Add(1)
				raise(&earliest, int64(by))
			} else {
				reached.Store(true)
			}
		}
		if fired.Add(1) == int64(size.n) {
			done <- time.Now()
		}
	}))
	if err != nil {
		return instantResult{}, err
	}
	defer r.close()
	for i := range size.n {
		if err := armAt(r, i, at); err != nil {
			return instantResult{}, err
		}
	}
	if time.Now().After(at) {
		return instantResult{TooSlow: true}, nil
	}
	var got instantResult
	time.Sleep(time.Until(at))
	if last, ok := await(done, fired.Load, size.patience); ok {
		got.Last = last.Sub(at)
	}
	got.Missing = int64(size.n) - fired.Load()
	got.Early = early.Load()
	got.EarlyBy = time.Duration(earliest.Load())
	return got, nil
}

// instantChild measures an instant in a process of its own.
func (b *bench) instantChild(ctx context.Context, c contender, size instantSize) (got instantResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*(size.lead+size.patience))
	defer cancel()
	err = measured.Call(ctx, measured.Anywhere, &got, b.Name(), c.name, strconv.Itoa(size.n), size.lead.String(), size.patience.String())
	return got, err
}

// child prepares the measurement of an instant.
func child(_ context.Context, args []string) (s measured.Subject, err error) {
	if len(args) != 4 {
		return s, errors.New("want a name, a number and two durations")
	}
	n, err := strconv.Atoi(args[1])
	lead, err2 := time.ParseDuration(args[2])
	patience, err3 := time.ParseDuration(args[3])
	if err := errors.Join(err, err2, err3); err != nil {
		return s, err
	}
	for _, c := range contenders() {
		if c.name == args[0] {
			s.Answer = func(string) (any, error) { return measureInstant(c, instantSize{n: n, lead: lead, patience: patience}) }
			return s, nil
		}
	}
	return s, fmt.Errorf("no rival %q", args[0])
}
