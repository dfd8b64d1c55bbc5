package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

const (
	serverHolter     = "holter"
	serverGnet       = "gnet"
	serverGnetEnroll = "gnet-enroll"
	serverGoroutines = "goroutines"
)

var servers = [...]string{serverHolter, serverGnet, serverGnetEnroll, serverGoroutines} //nolint:gochecknoglobals // a constant list

// subject is a server that runs in this process until the process ends; events is nil but for holter.
func subject(addr netip.AddrPort, events *eventlog.Log) measured.Subject {
	return measured.Subject{
		Hello: measured.Hello{Addr: addr}, Events: events,
		Answer: func(command string) (any, error) {
			if command != "verdicts" {
				return nil, errors.New("no such command")
			}
			return verdicts(events)
		},
	}
}

// serveOne runs a server and obeys the commands that come in, until they end.
func serveOne(ctx context.Context, server string, in io.Reader, out io.Writer) error {
	start := map[string]func(context.Context) (measured.Subject, error){
		serverHolter: serveHolter, serverGnet: serveGnet, serverGnetEnroll: serveGnetEnroll, serverGoroutines: serveGoroutines,
	}[server]
	if start == nil {
		start = serveProtocol(server)
	}
	if start == nil {
		return fmt.Errorf("no server %q", server)
	}
	s, err := start(ctx)
	if err != nil {
		return err
	}
	return s.Obey(ctx, in, out)
}

// verdict is one device judged offline.
type verdict struct {
	Device   string
	Reason   string
	Lag      time.Duration // from the last sign of life and the timeout to the event
	LastSeen time.Time
}

// verdicts returns all verdicts of the event log.
func verdicts(events *eventlog.Log) ([]verdict, error) {
	all := []verdict{}
	err := measured.EachEvent(events, func(e *liveness.Event) {
		if e.Type == liveness.DeviceOffline {
			all = append(all, verdict{e.Subject, e.Reason.String(), e.Time.Sub(e.LastSeen.Add(e.Timeout)), e.LastSeen})
		}
	})
	return all, err
}
