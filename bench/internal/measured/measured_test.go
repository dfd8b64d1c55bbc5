//go:build linux

package measured_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/liveness"
)

// TestMain is the subject, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measured.Subcommand {
		if err := serve(os.Args[2]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serve(name string) error {
	if name == "broken" {
		return errors.New("it does not start")
	}
	_, events, err := measured.NewRegistry(context.Background())
	if err != nil {
		return err
	}
	return measured.Subject{
		Hello: measured.Hello{Addr: netip.MustParseAddrPort("127.0.0.1:7")},
		Answer: func(command string) (any, error) {
			if command != "bounds" {
				return nil, errors.New("no such command")
			}
			n := 0
			err := measured.EachEvent(events, func(*liveness.Event) { n++ })
			oldest, newest := events.Bounds()
			return []uint64{oldest, newest, uint64(n)}, err
		},
	}.Obey(os.Stdin, os.Stdout)
}

func start(t *testing.T) *measured.Process {
	t.Helper()
	p, err := measured.Start(t.Context(), measured.Alone, "subject")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func TestProcess(t *testing.T) {
	p := start(t)
	if p.Addr.Port() != 7 || p.PID == os.Getpid() || p.PID < 2 {
		t.Errorf("Hello = %+v", p.Hello)
	}
	m, err := p.Collect()
	if err != nil || m.Heap < 1 || m.Stacks < 1 || m.Resident < m.Heap/2 { // what was never written is not in RAM
		t.Errorf("Collect = %+v, %v", m, err)
	}
	var bounds []uint64
	if err := p.Ask("bounds", &bounds); err != nil {
		t.Fatal(err)
	}
	if oldest, newest, n := bounds[0], bounds[1], bounds[2]; oldest <= 1 || n != newest-oldest+1 {
		t.Errorf("events %d to %d, %d of them, want a log that has begun to forget", oldest, newest, n)
	}
	p.Stop() // and again when the test ends
	if err := p.Ask("bounds", nil); err == nil {
		t.Error("a process that has ended answers")
	}
}

func TestStartFails(t *testing.T) {
	_, err := measured.Start(t.Context(), measured.Beside, "broken")
	if err == nil || !strings.HasPrefix(err.Error(), "broken did not start: ") {
		t.Errorf("Start: %v", err)
	}
}

func TestDuring(t *testing.T) {
	p := start(t)
	u, err := measured.During(func() error {
		_, err := p.Collect()
		return err
	}, p.PID)
	if err != nil || u.CPU <= 0 || u.Elapsed <= 0 || u.Elapsed > time.Hour || u.Share <= 0 || u.Driver < 0 || u.Others < 0 {
		t.Errorf("During = %+v, %v", u, err)
	}
}
