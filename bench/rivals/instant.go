package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"
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
func (b *bench) instant(round int, c contender) error {
	size := instantSize{n: b.n, lead: b.lead(c, b.n), patience: b.patience}
	for {
		got, err := instantChild(c, size)
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
		add := func(m metric, v float64) { b.results.add(round, c.name, m, b.n, v) }
		if got.Missing == 0 {
			add(instantLast, millis(got.Last))
		}
		add(instantMissing, float64(got.Missing))
		add(instantEarly, float64(got.Early))
		add(instantEarlyBy, millis(got.EarlyBy))
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

// childCommand is the first argument of a process that measures an instant.
const childCommand = "instant"

// instantChild measures an instant in a process of its own.
func instantChild(c contender, size instantSize) (got instantResult, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*(size.lead+size.patience))
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return got, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, childCommand, c.name, strconv.Itoa(size.n), size.lead.String(), size.patience.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return got, fmt.Errorf("run a process for it: %w", err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return got, fmt.Errorf("read what it found: %w", err)
	}
	return got, nil
}

// runChild is the other side of instantChild.
func runChild(args []string, stdout io.Writer) error {
	if len(args) != 4 {
		return errors.New("want a name, a number and two durations")
	}
	n, err := strconv.Atoi(args[1])
	lead, err2 := time.ParseDuration(args[2])
	patience, err3 := time.ParseDuration(args[3])
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	for _, c := range contenders() {
		if c.name == args[0] {
			got, err := measureInstant(c, instantSize{n: n, lead: lead, patience: patience})
			if err != nil {
				return err
			}
			return json.NewEncoder(stdout).Encode(got)
		}
	}
	return fmt.Errorf("no rival %q", args[0])
}
