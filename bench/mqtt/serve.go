package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/liveness"
)

// running is what is measured, until the process ends.
type running struct {
	measured.Subject // with events only for the broker of Holter

	counts func() counts // nil but for subscribers
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
	r.Answer = r.answer
	return r.Obey(ctx, in, out)
}

func (r running) answer(command string) (any, error) {
	switch command {
	case "count":
		return r.counts(), nil
	case "verdicts":
		return r.verdicts()
	}
	return nil, errors.New("no such command")
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
	err = measured.EachEvent(r.Events, func(e *liveness.Event) {
		switch e.Type { //nolint:exhaustive // the others are of no interest
		case liveness.DeviceOffline:
			all.All = append(all.All, verdict{e.Subject, e.Reason.String(), e.Time})
		case liveness.SourceDeaf:
			all.Deaf++
		}
	})
	return all, err
}
