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

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Work is the command of Call.
const Work = "work"

// The commands of every Subject.
const (
	fillEvents    = "fill"
	collectMemory = "collect"
)

// Subject is what runs in a process of its own. It runs until the process ends.
type Subject struct {
	Hello // a PID of 0 stands for this process

	Events *eventlog.Log // its event log; nil if it has none

	// Answer carries out all other commands, one at a time; nil if there are none.
	Answer func(command string) (any, error)

	// Stop is called before the process ends; it may be nil.
	Stop func()
}

// Obey writes the hello to out and carries out the commands that come in, until there are no more.
func (s Subject) Obey(ctx context.Context, in io.Reader, out io.Writer) error {
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
		answer, err := s.obey(ctx, commands.Text())
		if err != nil {
			return fmt.Errorf("%s: %w", commands.Text(), err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

func (s Subject) obey(ctx context.Context, text string) (any, error) {
	switch text {
	case fillEvents:
		return nil, fill(ctx, s.Events)
	case collectMemory:
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

// fill fills an event log, if there is one, to the size that it then keeps, so that no connection is blamed for its growth.
func fill(ctx context.Context, log *eventlog.Log) error {
	if log == nil {
		return nil
	}
	for oldest := uint64(0); oldest <= 1; oldest, _ = log.Bounds() {
		if err := log.Append(ctx, make([]liveness.Event, 1000)); err != nil {
			return err
		}
	}
	return nil
}

// EachEvent calls f for each event of a log, the oldest first; a nil log has none. The event is valid until f returns.
func EachEvent(log *eventlog.Log, f func(e *liveness.Event)) error {
	if log == nil {
		return nil
	}
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
