package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
)

const (
	serverHolter     = "holter"
	serverGnet       = "gnet"
	serverGnetEnroll = "gnet-enroll"
	serverGoroutines = "goroutines"
)

var servers = [...]string{serverHolter, serverGnet, serverGnetEnroll, serverGoroutines} //nolint:gochecknoglobals // a constant list

// running is a server that runs in this process until the process ends.
type running struct {
	addr   netip.AddrPort
	events *liveness.Log // nil but for holter
}

// serveOne runs a server and obeys the commands that come in, until they end.
func serveOne(ctx context.Context, server string, in io.Reader, out io.Writer) error {
	start := map[string]func(context.Context) (running, error){
		serverHolter: serveHolter, serverGnet: serveGnet, serverGnetEnroll: serveGnetEnroll, serverGoroutines: serveGoroutines,
	}[server]
	if start == nil {
		return fmt.Errorf("no server %q", server)
	}
	r, err := start(ctx)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(struct{ Addr netip.AddrPort }{r.addr}); err != nil {
		return err
	}
	commands := bufio.NewScanner(in)
	for commands.Scan() {
		name, file, _ := strings.Cut(commands.Text(), " ")
		answer, err := r.obey(ctx, name, file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

func (r running) obey(ctx context.Context, name, file string) (any, error) {
	switch name {
	case "memory":
		return readMemory()
	case "fill":
		return nil, r.fill(ctx)
	case "events":
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
	case "heapprofile":
		runtime.GC()
		var b bytes.Buffer
		if err := pprof.Lookup("heap").WriteTo(&b, 0); err != nil {
			return nil, err
		}
		return nil, os.WriteFile(file, b.Bytes(), 0o600)
	}
	return nil, errors.New("no such command")
}

// readMemory returns what can be returned to the system, and reads what is left.
func readMemory() (m memory, err error) {
	runtime.GC() // what finalizers and pools hold goes with the second one
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.Heap, m.Stacks = int64(stats.HeapAlloc), int64(stats.StackInuse)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return m, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return m, err
	}
	m.Resident = resident * int64(os.Getpagesize())
	return m, nil
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
	Device   string
	Reason   string
	Lag      time.Duration // from the last sign of life and the timeout to the event
	LastSeen time.Time
}

// verdicts returns all verdicts of the event log.
func (r running) verdicts() ([]verdict, error) {
	if r.events == nil {
		return nil, errors.New("this server has no events")
	}
	all := []verdict{}
	var page []liveness.Event
	for after := uint64(0); ; {
		var err error
		if page, err = r.events.Read(page[:0], after, 1000); err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return all, nil
		}
		for i := range page {
			e := &page[i]
			after = e.Offset
			if e.Type == liveness.DeviceOffline {
				all = append(all, verdict{e.Subject, e.Reason.String(), e.Time.Sub(e.LastSeen.Add(e.Timeout)), e.LastSeen})
			}
		}
	}
}
