//go:build linux

package measured

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Work is the command of Call.
const Work = "work"

// collectMemory is a command of every Subject.
const collectMemory = "collect"

// Subject is what runs in a process of its own. It runs until the process ends.
type Subject struct {
	Hello // a PID of 0 stands for this process

	// Answer carries out all other commands, one at a time; nil if there are none.
	Answer func(command string) (any, error)

	// Stop is called before the process ends; it may be nil.
	Stop func()
}

// Obey writes the hello to out and carries out the commands that come in, until there are no more.
func (s Subject) Obey(in io.Reader, out io.Writer) error {
	if s.Stop != nil {
		defer s.Stop()
	}
	if s.PID == 0 {
		s.PID = os.Getpid()
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(s.Hello); err != nil {
		return err
	}
	commands := bufio.NewScanner(in)
	for commands.Scan() {
		answer, err := s.obey(commands.Text())
		if err != nil {
			return fmt.Errorf("%s: %w", commands.Text(), err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

func (s Subject) obey(text string) (any, error) {
	if text == collectMemory {
		return collect(), nil
	}
	if s.Answer == nil {
		return nil, errors.New("no such command")
	}
	return s.Answer(text)
}

// Keep runs a part of the Subject until the process ends. It panics if that part returns before ctx ends, because no result would be
// valid any more.
func Keep(ctx context.Context, run func() error) {
	if err := run(); ctx.Err() == nil {
		panic(fmt.Sprintf("a part of what is measured ended: %v", err))
	}
}

// NewRegistry starts a registry with the settings of holter serve, and an event log that is full, so
// that no connection is blamed for its growth.
func NewRegistry(ctx context.Context) (*liveness.Registry, *eventlog.Log, error) {
	events, err := eventlog.New(0)
	for oldest := uint64(0); err == nil && oldest <= 1; oldest, _ = events.Bounds() {
		full := make([]liveness.Event, 1000)
		for i := range full {
			full[i].Record = new(keep.Record)
		}
		err = events.Append(ctx, full)
	}
	if err != nil {
		return nil, nil, err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err == nil {
		go Keep(ctx, func() error { return registry.Run(ctx) })
	}
	return registry, events, err
}

// EachEvent calls f for each event of a log, the oldest first. The event is valid until f returns.
func EachEvent(log *eventlog.Log, f func(e *liveness.Event)) error {
	var page []liveness.Event
	for after := uint64(0); ; {
		var err error
		if page, err = log.Read(page[:0], after, 1000); err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			after = page[i].Offset
			f(&page[i])
		}
	}
}
