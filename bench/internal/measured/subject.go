//go:build linux

package measured

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// The commands that every Subject obeys; those of profiles are followed by a
// space and the name of a file.
const (
	fillEvents      = "fill"
	collectMemory   = "collect"
	beginCPUProfile = "cpuprofile"
	endCPUProfile   = "cpuprofile-end"
	heapProfile     = "heapprofile"
)

// Subject is what is measured, until the process ends.
type Subject struct {
	Hello // a PID of 0 stands for this process

	Events *eventlog.Log // its event log; nil if it has none

	// Answer carries out any other command, one after the other; nil if there
	// are none.
	Answer func(command string) (any, error)
}

// Obey says hello on out and obeys the commands that come in, until they end.
func (s Subject) Obey(ctx context.Context, in io.Reader, out io.Writer) error {
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
	switch command, file, _ := strings.Cut(text, " "); command {
	case fillEvents:
		return nil, fill(ctx, s.Events)
	case collectMemory:
		return collect(), nil
	case beginCPUProfile:
		f, err := os.Create(file)
		if err != nil {
			return nil, err
		}
		return nil, pprof.StartCPUProfile(f) // it is ended by the next command, and closed with the process
	case endCPUProfile:
		pprof.StopCPUProfile()
		return nil, nil
	case heapProfile:
		return nil, writeHeap(file)
	}
	if s.Answer == nil {
		return nil, errors.New("no such command")
	}
	return s.Answer(text)
}

func writeHeap(file string) error {
	runtime.GC()
	var b bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&b, 0); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o600)
}

// Keep runs a part of what is measured to the end of the process. If it ends by
// itself before ctx does, so does the process: any result would be worthless.
func Keep(ctx context.Context, run func() error) {
	if err := run(); ctx.Err() == nil {
		panic(fmt.Sprintf("a part of what is measured ended: %v", err))
	}
}

// fill fills an event log, if there is one, as it is after a while: it has the
// same size for ever then, which is not that of any connection.
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

// EachEvent calls f for each event of a log, the oldest one first; nil has
// none. The event is f's only until it returns.
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
