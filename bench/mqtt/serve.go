package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// running is what is measured, until the process ends.
type running struct {
	greeting

	counts func() counts // nil but for subscribers
	events *liveness.Log // nil but for the broker of Holter
	stop   func()        // may be nil
}

// counts are what a subscriber has counted.
type counts struct {
	Applied uint64 // messages that were put to their use
	Lost    uint64 // messages that came and were not
}

// serveOne runs what has a name and obeys the commands that come in, until they end.
func serveOne(ctx context.Context, name string, args []string, in io.Reader, out io.Writer) error {
	start := map[string]func(context.Context, []string) (running, error){
		serverHolter: serveHolter, serverMochi: serveMochi, serverMosquitto: serveMosquitto,
		subscriberBridge: serveBridge, subscriberPaho: servePaho, subscriberTuned: serveTunedPaho,
	}[name]
	if start == nil {
		return fmt.Errorf("there is no %q", name)
	}
	r, err := start(ctx, args)
	if err != nil {
		return err
	}
	if r.stop != nil {
		defer r.stop()
	}
	if r.PID == 0 {
		r.PID = os.Getpid()
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(r.greeting); err != nil {
		return err
	}
	commands := bufio.NewScanner(in)
	for commands.Scan() {
		command, file, _ := strings.Cut(commands.Text(), " ")
		answer, err := r.obey(ctx, command, file)
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

func (r running) obey(ctx context.Context, command, file string) (any, error) {
	switch command {
	case "count":
		return r.counts(), nil
	case "collect":
		return collect(), nil
	case "fill":
		return nil, r.fill(ctx)
	case "verdicts":
		return r.verdicts()
	case "cpuprofile":
		f, err := os.Create(file)
		if err != nil {
			return nil, err
		}
		return nil, pprof.StartCPUProfile(f) // it is ended by the next command, and closed with the process
	case "cpuprofile-end":
		pprof.StopCPUProfile()
		return nil, nil
	}
	return nil, errors.New("no such command")
}

// memory is what a program of Go has in use.
type memory struct{ Heap, Stacks int }

// collect returns what can be returned to the system, and reads what is left.
func collect() memory {
	runtime.GC() // what finalizers and pools hold goes with the second one
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{int(stats.HeapAlloc), int(stats.StackInuse)}
}

// keep runs a part of what is measured to the end of the process. If it ends by itself, the process does: any result would be worthless.
func keep(ctx context.Context, run func() error) {
	if err := run(); ctx.Err() == nil {
		panic(fmt.Sprintf("a part ended: %v", err))
	}
}

// fill fills the event log, if there is one, as it is after a while: it has the same size for ever then, which is not that of any
// connection.
func (r running) fill(ctx context.Context) error {
	if r.events == nil {
		return nil
	}
	for oldest := uint64(0); oldest <= 1; oldest, _ = r.events.Bounds() {
		if err := r.events.Append(ctx, make([]liveness.Event, 1000)); err != nil {
			return err
		}
	}
	return nil
}

// verdict is one device judged offline.
type verdict struct {
	Device string
	Reason string
	At     time.Time
}

// verdicts are what an event log holds.
type verdicts struct {
	All  []verdict
	Deaf int // how often the source was deaf
}

// verdicts reads the event log, if there is one.
func (r running) verdicts() (all verdicts, err error) {
	if r.events == nil {
		return all, nil
	}
	var page []liveness.Event
	for after := uint64(0); ; {
		if page, err = r.events.Read(page[:0], after, 1000); err != nil {
			return all, err
		}
		if len(page) == 0 {
			return all, nil
		}
		for i := range page {
			e := &page[i]
			after = e.Offset
			switch e.Type { //nolint:exhaustive // the others are of no interest
			case liveness.DeviceOffline:
				all.All = append(all.All, verdict{e.Subject, e.Reason.String(), e.Time})
			case liveness.SourceDeaf:
				all.Deaf++
			}
		}
	}
}
